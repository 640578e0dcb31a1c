"""Collective algorithms, one file each: what a collective on a group asks of the links.

The `build(collective, ranks, topology)` of a file takes many groups of one size, shape (groups, members), and returns
one Activity for all of them. It raises ValueError where the algorithm does not fit the collective or the groups.
"""

from collections.abc import Iterator

import numpy as np

from simulator.activity import Activity
from simulator.collectives._groups import Bools, Groups, arranged, one_switch, reduces_in_switch
from simulator.demand import Ints
from topologies import Topology
from topologies.plugins import Folder, unknown
from workloads.ops import P2P, Collective

FOLDER = Folder(__name__, "collective algorithm")
names = FOLDER.names

AUTO = "auto"

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_receive")
"""Kinds of collectives. A broadcast's or a reduction's root is the first member."""


def bus_factor(kind: str, members: int) -> float:
    """Bus bandwidth over algorithm bandwidth, as nccl-tests defines it.

    >>> bus_factor("all_reduce", 8)
    1.75
    """
    shared = (members - 1) / members
    whole = ("broadcast", "reduce", "send_receive")
    return 2 * shared if kind == "all_reduce" else 1.0 if kind in whole else shared


def build(algorithm: str, collective: Collective | P2P, ranks: Ints, topology: Topology) -> Activity:
    """The activity of a collective with a named algorithm, on one group, shape (members,), or on many."""
    activity: Activity = FOLDER.build(algorithm, collective, np.atleast_2d(ranks), topology)
    return activity


def choose(
    collective: Collective | P2P, ranks: Ints, topology: Topology, algorithm: str = AUTO
) -> Iterator[tuple[Ints, Activity]]:
    """For each group the algorithm that is fastest without contention, as the libraries choose.

    A named algorithm is taken instead where it fits the group. Yields (indices of groups, their activity); together
    the indices cover all rows of `ranks`.
    """
    if isinstance(collective, P2P):
        yield np.arange(len(ranks)), build("send_receive", collective, ranks, topology)
        return
    for rows, groups in arranged(ranks, topology):
        if algorithm != AUTO and (named := _if_legal(algorithm, collective, ranks[rows], topology)):
            yield rows, named
            continue
        for some, algorithms in candidates(collective.kind, groups, ranks[rows], topology):
            yield from _fastest(collective, ranks, rows[some], algorithms, topology)


def considered(collective: Collective, ranks: Ints, topology: Topology, algorithm: str = AUTO) -> list[Activity]:
    """What each algorithm that libraries consider for one group, shape (1, members), asks of the links.

    A named one is the only one considered; it has to fit the group.
    """
    if algorithm != AUTO:
        return [build(algorithm, collective, ranks, topology)]
    [(_, groups)] = arranged(ranks, topology)
    [(_, algorithms)] = candidates(collective.kind, groups, ranks, topology)
    return [build(name, collective, ranks, topology) for name in algorithms]


def candidates(kind: str, groups: Groups, ranks: Ints, topology: Topology) -> Iterator[tuple[Ints, tuple[str, ...]]]:
    """Which algorithms libraries consider: indices of groups, and the names for them.

    Reduction in switches is considered where the hardware is known for it; direct exchange, where there is no switch.
    What is not here is taken by name only.
    """
    from simulator.collectives import direct, in_switch_tree, torus

    everyone = np.arange(len(ranks))
    if kind not in KINDS:
        raise ValueError(unknown("kind of collective", kind, KINDS))
    if kind in ("broadcast", "reduce", "send_receive"):
        yield everyone, ("send_receive" if kind == "send_receive" else "broadcast",)
    elif kind == "all_to_all":
        railed = len(groups.counts) > 1 and groups.even and groups.counts[0] > 1
        few = ranks.shape[1] <= direct.MOST_MEMBERS
        yield everyone, (*(("pairwise",) if few or not railed else ()), *(("rail_local",) if railed else ()))
    elif torus.box(ranks, topology) is not None:
        yield everyone, ("torus",)
    elif len(groups.counts) == 1:
        switched = one_switch(ranks, topology)
        able = reduces_in_switch(ranks, topology, ideal=False) & (kind == "all_reduce")
        yield from _split(
            (~switched, ("ring", "direct") if ranks.shape[1] <= direct.FEW_MEMBERS else ("ring",)),
            (switched & ~able, ("ring",)),
            (switched & able, ("ring", "in_switch")),
        )
    elif kind == "all_reduce":
        able = np.zeros(len(ranks), np.bool_)
        if min(groups.counts) > 1:
            able = in_switch_tree.able(groups, topology, ideal=False)
        yield from _split((~able, ("ring", "tree")), (able, ("ring", "tree", "in_switch_tree")))
    else:
        yield everyone, ("ring",)


def _if_legal(algorithm: str, collective: Collective, ranks: Ints, topology: Topology) -> Activity | None:
    FOLDER.resolve(algorithm)
    try:
        return build(algorithm, collective, ranks, topology)
    except ValueError:
        return None


def _split(*cases: tuple[Bools, tuple[str, ...]]) -> Iterator[tuple[Ints, tuple[str, ...]]]:
    for mask, algorithms in cases:
        if mask.any():
            yield np.flatnonzero(mask), algorithms


def _fastest(
    collective: Collective, ranks: Ints, rows: Ints, algorithms: tuple[str, ...], topology: Topology
) -> Iterator[tuple[Ints, Activity]]:
    activities = [build(name, collective, ranks[rows], topology) for name in algorithms]
    best = np.argmin([activity.seconds(topology) for activity in activities], axis=0)
    for choice in np.unique(best).tolist():
        chosen = rows[best == choice]
        whole = len(chosen) == len(rows)
        yield chosen, activities[choice] if whole else build(algorithms[choice], collective, ranks[chosen], topology)
