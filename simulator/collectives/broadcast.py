"""From one member to all, or from all reduced to one: a pipelined chain."""

import numpy as np

from simulator.activity import Activity
from simulator.collectives._groups import in_one_pattern
from simulator.collectives._messages import Messages, activity, phase
from simulator.demand import Ints
from topologies import Topology
from workloads.ops import Collective

KINDS = ("broadcast", "reduce")


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """The whole buffer over every link of a chain from the first member (towards it, to reduce), in n−1 steps.

    Over several hosts there are as many chains as the smallest host has members, each round a ring through cards of
    its own.
    """
    if collective.kind not in KINDS:
        raise ValueError(f"broadcast does not do {collective.kind}; it does {', '.join(KINDS)}")
    groups = in_one_pattern(ranks, topology)
    chains = _from_root(groups.members[:, groups.rings()], ranks[:, 0])
    shape = (len(ranks), -1)
    ends = (chains[:, :, :-1].reshape(shape), chains[:, :, 1:].reshape(shape))
    sources, destinations = ends if collective.kind == "broadcast" else ends[::-1]
    chain = Messages(collective.bytes / chains.shape[1], ranks.shape[1] - 1, sources, destinations)
    return activity("broadcast", [phase(topology, ranks, [chain], share=groups.share)], topology)


def _from_root(rings: Ints, root: Ints) -> Ints:
    """Rings (groups, channels, members), each turned so that it starts at its group's root."""
    start = (rings == root[:, None, None]).argmax(axis=2)
    turn = (np.arange(rings.shape[2]) + start[:, :, None]) % rings.shape[2]
    return np.asarray(np.take_along_axis(rings, turn, axis=2))
