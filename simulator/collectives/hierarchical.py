"""Two levels: reduce-scatter inside every host, rings across hosts, all-gather inside every host."""

import numpy as np

from simulator.activity import Activity, Ints
from simulator.collectives._messages import Messages, phase
from simulator.collectives.ring import edges
from topologies import Topology
from workloads.ops import Collective

PIPELINED_ABOVE = 2**20
"""Bytes from which the levels overlap, piece by piece, and the slowest decides; below, their times add up."""


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """Rings inside hosts and across them; ranks of shape (groups, members), equally many on every host.

    With g members on each of N hosts, a host's ring moves the buffer S and each of the g rings across
    hosts S/g. Assumes one ring across hosts per member, through its own NIC.
    """
    levels = _levels(collective, _by_host(ranks, topology))
    if collective.bytes >= PIPELINED_ABOVE:
        together, sm_share = phase(topology, *levels)
        return Activity("hierarchical", (together,), sm_share)
    phases = [phase(topology, level) for level in levels]
    return Activity("hierarchical", tuple(each for each, _ in phases), np.max([share for _, share in phases], axis=0))


def _levels(collective: Collective, members: Ints) -> list[Messages]:
    """The rings of each level in turn; `members` of shape (groups, hosts, members of a host)."""
    groups, hosts, each = members.shape
    size = collective.bytes

    def inside(kind: str) -> Messages:
        rings = edges(kind, size, members.reshape(groups * hosts, each))
        shape = (groups, hosts * each)
        return Messages(rings.carried, rings.steps, rings.sources.reshape(shape), rings.destinations.reshape(shape))

    def across(kind: str) -> Messages:
        following = np.roll(members, -1, axis=1)
        rings = edges(kind, size / each, members[:, :, 0])
        return Messages(rings.carried, rings.steps, members.reshape(groups, -1), following.reshape(groups, -1))

    if collective.kind == "all_reduce":
        return [inside("reduce_scatter"), across("all_reduce"), inside("all_gather")]
    if collective.kind == "reduce_scatter":
        return [inside("reduce_scatter"), across("reduce_scatter")]
    return [across(collective.kind), inside(collective.kind)]


def _by_host(ranks: Ints, topology: Topology) -> Ints:
    """Members ordered by host, shape (groups, hosts, members of a host)."""
    hosts = topology.hosts[ranks]
    order = np.argsort(hosts, axis=1, kind="stable")
    members = np.take_along_axis(ranks, order, axis=1)
    sorted_hosts = np.take_along_axis(hosts, order, axis=1)
    count = 1 + int((np.diff(sorted_hosts[0]) != 0).sum())
    if ranks.shape[1] % count:
        raise ValueError(
            f"hierarchical needs equally many members on every host; {ranks.shape[1]} are on {count} hosts"
        )
    shaped = sorted_hosts.reshape(len(ranks), count, -1)
    if not (shaped == shaped[:, :, :1]).all() or min(shaped.shape[1:]) < 2:
        raise ValueError("hierarchical needs two hosts or more with equally many members, two or more, on each")
    return members.reshape(shaped.shape)
