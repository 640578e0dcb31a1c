"""Reduction in the switches of the network, as InfiniBand SHARP does; inside hosts in the switch or by rings."""

import numpy as np

from simulator.activity import Activity
from simulator.collectives._groups import Groups, in_one_pattern
from simulator.collectives._messages import Messages, activity, phase
from simulator.collectives.hierarchical import inside as rings_inside
from simulator.collectives.in_switch_tree import able, inside
from simulator.demand import Ints
from simulator.fabrics import NETWORK
from topologies import Topology
from workloads.ops import Collective

ABLE = ("infiniband",)
"""Networks whose switches reduce; the ideal ones do as well."""


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """An all-reduce in which every card sends and receives its part of the buffer once, reduced on the way.

    Each channel's part goes from a member of every host up to where the hosts' routes meet, merged wherever they join,
    and down again. Assumes that every switch on the way reduces, and at line rate.
    """
    if collective.kind != "all_reduce":
        raise ValueError(f"in_network does not do {collective.kind}; it does all_reduce")
    groups = in_one_pattern(ranks, topology)
    if len(groups.counts) < 2:
        raise ValueError(f"in_network needs two hosts or more; all {ranks.shape[1]} members are on one")
    across = _merged(collective.bytes, groups)
    _check(across, topology)
    local: list[Messages] = []
    if min(groups.counts) > 1:
        switched = bool(able(groups, topology).all())
        local = inside(collective.bytes, groups) if switched else rings_inside("all_reduce", collective.bytes, groups)
    return activity(
        "in_network", [phase(topology, ranks, [*local, across], passes=2, share="in_switch_share")], topology
    )


def _merged(size: float, groups: Groups) -> Messages:
    """One tree for each channel through its ports: every link on it carries the channel's part once."""
    ports = groups.ports()
    channels, hosts = ports.shape
    sources, destinations = groups.members[:, ports.ravel()], groups.members[:, np.roll(ports, -1, axis=1).ravel()]
    return Messages(size / channels, 1, sources, destinations, np.repeat(np.arange(channels), hosts))


def _check(across: Messages, topology: Topology) -> None:
    pair, link = topology.routes(across.sources.ravel(), across.destinations.ravel())
    if np.bincount(pair).min() < 2:
        raise ValueError(f"in_network needs switches between hosts; some of {topology.name} are joined without one")
    kinds = {topology.links.kinds[code] for code in np.unique(topology.links.codes[link])}
    unable = sorted(kinds & set(NETWORK) - set(ABLE))
    if unable:
        raise ValueError(f"in_network needs switches that reduce: those of {unable[0]} do not, of {ABLE[0]} do")
