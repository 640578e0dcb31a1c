"""All-to-all as messages between all pairs at once."""

from simulator.activity import Activity
from simulator.collectives._messages import activity, phase
from simulator.collectives.direct import all_pairs
from simulator.demand import Ints
from topologies import Topology
from workloads.ops import Collective


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """Every member sends a different n-th part of its buffer to each other one.

    Assumes that all messages run as one: under contention each is held up as much as the one that is held up most; and
    that messages to many members cost no more to start than one.
    """
    if collective.kind != "all_to_all":
        raise ValueError(f"pairwise does not do {collective.kind}; it does all_to_all")
    messages = all_pairs("pairwise", collective.bytes / ranks.shape[1], 1, ranks)
    return activity("pairwise", [phase(topology, ranks, [messages])], topology)
