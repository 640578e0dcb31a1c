"""Two levels: reduce-scatter inside every host, rings across hosts, all-gather inside every host."""

import numpy as np

from simulator.activity import Activity
from simulator.collectives._groups import Groups, in_one_pattern
from simulator.collectives._messages import Messages, activity, phase
from simulator.collectives.ring import PASSES, edges
from simulator.demand import Ints
from topologies import Topology
from workloads.ops import Collective


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """Rings inside hosts and across them; equally many members, two or more, on each of two hosts or more.

    With g members on each of N hosts, a host's ring moves the buffer S and each of the g rings across hosts S/g.
    Assumes one ring across hosts per member, through its own card, and that the levels overlap piece by piece, so that
    the slower one decides, whatever the size: their steps add up.
    """
    if collective.kind not in PASSES:
        raise ValueError(f"hierarchical does not do {collective.kind}; it does {', '.join(PASSES)}")
    groups = in_one_pattern(ranks, topology)
    if not groups.even or min(groups.counts) < 2 or len(groups.counts) < 2:
        raise ValueError(
            f"hierarchical needs two hosts or more with equally many members, two or more, on each; "
            f"{ranks.shape[1]} members are on {len(groups.counts)} hosts of {topology.name}"
        )
    messages = _levels(collective, groups)
    return activity("hierarchical", [phase(topology, ranks, messages, passes=PASSES[collective.kind])], topology)


def _levels(collective: Collective, groups: Groups) -> list[Messages]:
    """The rings of each level in turn."""
    kind, size, each = collective.kind, collective.bytes, groups.counts[0]

    def across(kind: str) -> Messages:
        columns = np.swapaxes(groups.by_host(), 1, 2)
        rings = edges(kind, size / each, Groups(columns.reshape(-1, len(groups.counts)), (len(groups.counts),)))
        shape = (len(columns), -1)
        return Messages(rings.carried, rings.steps, rings.sources.reshape(shape), rings.destinations.reshape(shape))

    if kind == "all_reduce":
        scatter, gather = inside(kind, size, groups)
        return [scatter, across(kind), gather]
    rings = inside(kind, size, groups)
    return [*rings, across(kind)] if kind == "reduce_scatter" else [across(kind), *rings]


def inside(kind: str, size: float, groups: Groups) -> list[Messages]:
    """Rings inside every host, all at once; for an all-reduce its two halves."""
    halves = ["reduce_scatter", "all_gather"] if kind == "all_reduce" else [kind]
    found = []
    for half in halves:
        rings = [edges(half, size, Groups(host, (host.shape[1],))) for host in groups.hosts()]
        if groups.even:
            ends = [
                np.concatenate([getattr(ring, end) for ring in rings], axis=1) for end in ("sources", "destinations")
            ]
            found.append(Messages(rings[0].carried, rings[0].steps, *ends))
        else:
            found += [
                Messages(ring.carried, ring.steps / len(rings), ring.sources, ring.destinations) for ring in rings
            ]
    return found
