"""Collective algorithms, one file each: what a collective on a group asks of the links.

`build(collective, ranks, topology)` takes one group, shape (members,), or many of one size, shape
(groups, members), and returns one Activity for all of them. It raises ValueError where the algorithm
does not fit the collective or the group.
"""

from collections.abc import Iterator

import numpy as np

from simulator.activity import Activity, Ints
from topologies import Topology
from topologies.plugins import Folder
from workloads.ops import P2P, Collective

FOLDER = Folder(__name__, "collective algorithm")
names = FOLDER.names


def build(algorithm: str, collective: Collective | P2P, ranks: Ints, topology: Topology) -> Activity:
    """The activity of a collective with a named algorithm."""
    activity: Activity = FOLDER.build(algorithm, collective, np.atleast_2d(ranks), topology)
    return activity


def choose(collective: Collective | P2P, ranks: Ints, topology: Topology) -> Iterator[tuple[Ints, Activity]]:
    """For each group the algorithm that is fastest without contention, as the libraries choose.

    Yields (indices of groups, their activity); together the indices cover all rows of `ranks`.
    """
    if isinstance(collective, P2P):
        yield np.arange(len(ranks)), build("send_receive", collective, ranks, topology)
        return
    for groups, algorithms in _candidates(ranks, topology):
        activities = [build(name, collective, ranks[groups], topology) for name in algorithms]
        best = np.argmin([activity.seconds(topology) for activity in activities], axis=0)
        for choice in np.unique(best).tolist():
            chosen = groups[best == choice]
            whole = len(chosen) == len(groups)
            yield (
                chosen,
                activities[choice] if whole else build(algorithms[choice], collective, ranks[chosen], topology),
            )


def _candidates(ranks: Ints, topology: Topology) -> Iterator[tuple[Ints, tuple[str, ...]]]:
    """Groups of one shape over the hosts, with the algorithms that fit it."""
    hosts = np.sort(topology.hosts[ranks], axis=1)
    count = 1 + (np.diff(hosts, axis=1) != 0).sum(axis=1)
    members = ranks.shape[1]
    for used in np.unique(count).tolist():
        groups = np.flatnonzero(count == used)
        if used in (1, members) or members % used:
            yield groups, ("ring",)
            continue
        blocks = hosts[groups].reshape(len(groups), used, -1)
        even = (blocks == blocks[:, :, :1]).all(axis=(1, 2))
        for fits, algorithms in ((even, ("ring", "hierarchical")), (~even, ("ring",))):
            if fits.any():
                yield groups[fits], algorithms
