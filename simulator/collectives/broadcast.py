"""From one member to all, or from all reduced to one: a pipelined chain."""

from simulator.activity import Activity
from simulator.collectives._groups import only
from simulator.collectives._messages import Messages, activity, phase
from simulator.demand import Ints
from topologies import Topology
from workloads.ops import Collective

KINDS = ("broadcast", "reduce")


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """The whole buffer over every link of a chain from the first member (towards it, to reduce), in n−1 steps.

    Over several hosts there are as many chains as the smallest host has members, each through a card of its own.
    """
    if collective.kind not in KINDS:
        raise ValueError(f"broadcast does not do {collective.kind}; it does {', '.join(KINDS)}")
    groups = only(ranks, topology)
    order = groups.rings()
    shape = (len(ranks), -1)
    ends = (groups.members[:, order[:, :-1]].reshape(shape), groups.members[:, order[:, 1:]].reshape(shape))
    sources, destinations = ends if collective.kind == "broadcast" else ends[::-1]
    chain = Messages(collective.bytes / len(order), ranks.shape[1] - 1, sources, destinations)
    return activity("broadcast", [phase(topology, ranks, [chain])], topology)
