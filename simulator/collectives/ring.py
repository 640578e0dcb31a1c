"""Rings: every member passes pieces to the next one, each link used in one direction."""

from simulator.activity import Activity
from simulator.collectives._groups import Groups, in_one_pattern
from simulator.collectives._messages import Messages, activity, phase
from simulator.demand import Ints
from topologies import Topology
from workloads.ops import Collective

PASSES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """Rings host by host: together they pass passes·(n−1)/n of the buffer over every edge, in passes·(n−1) steps.

    Over several hosts there are as many rings as the host with fewest members has, each through a card of its own.
    Assumes that the rings share the buffer evenly, and that they follow the order of ranks, whatever the wiring.
    """
    groups = in_one_pattern(ranks, topology)
    rings = edges(collective.kind, collective.bytes, groups)
    passes = PASSES[collective.kind]
    return activity("ring", [phase(topology, ranks, [rings], passes=passes, share=groups.share)], topology)


def edges(kind: str, size: float, groups: Groups) -> Messages:
    """What every member sends its successors when rings move a buffer of `size` bytes."""
    if kind not in PASSES:
        raise ValueError(f"ring does not do {kind}; it does {', '.join(PASSES)}")
    members, order = groups.members.shape[1], groups.rings()
    steps = PASSES[kind] * (members - 1)
    sources = groups.members[:, order]
    destinations = groups.members[:, [[*row[1:], row[0]] for row in order.tolist()]]
    shape = (len(sources), -1)
    return Messages(steps / members * size / len(order), steps, sources.reshape(shape), destinations.reshape(shape))
