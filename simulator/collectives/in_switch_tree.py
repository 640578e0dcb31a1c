"""Reduction in every host's switch, double binary trees between hosts."""

import numpy as np

from simulator.activity import Activity
from simulator.collectives._groups import Bools, Groups, in_one_pattern, reduces_in_switch, tree_messages
from simulator.collectives._messages import Messages, activity, phase
from simulator.collectives.in_switch import around
from simulator.demand import Ints
from topologies import Topology
from workloads.ops import Collective


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """An all-reduce as a pipeline of both levels, of which the slower decides, in 1 + 2·depth steps."""
    if collective.kind != "all_reduce":
        raise ValueError(f"in_switch_tree does not do {collective.kind}; it does all_reduce")
    groups = in_one_pattern(ranks, topology)
    if len(groups.counts) < 2 or min(groups.counts) < 2 or not able(groups, topology).all():
        raise ValueError(
            f"in_switch_tree needs two hosts or more, each with two members or more below one switch that reduces; "
            f"{ranks.shape[1]} members are on {len(groups.counts)} hosts of {topology.name}"
        )
    messages = [*inside(collective.bytes, groups), tree_messages(collective.bytes, groups)]
    return activity(
        "in_switch_tree", [phase(topology, ranks, messages, passes=2, share="in_switch_tree_share")], topology
    )


def able(groups: Groups, topology: Topology, *, ideal: bool = True) -> Bools:
    """Which groups have a switch that reduces in each of their hosts; `ideal` ones can if they are to."""
    return np.asarray(np.all([reduces_in_switch(part, topology, ideal=ideal) for part in groups.hosts()], axis=0))


def inside(size: float, groups: Groups) -> list[Messages]:
    """In-switch reduction of every host, all at once, as one step."""
    parts = [around(size, part) for part in groups.hosts()]
    sources, destinations = (
        np.concatenate(each, axis=1)
        for each in ([part.sources for part in parts], [part.destinations for part in parts])
    )
    if groups.even:
        return [Messages(parts[0].carried, 1, sources, destinations)]
    return [Messages(part.carried, 1 / len(parts), part.sources, part.destinations) for part in parts]
