"""Everybody to everybody at once: the natural choice where every pair has a link of its own."""

import numpy as np

from simulator.activity import Activity
from simulator.collectives._messages import Messages, activity, phase
from simulator.collectives.ring import PASSES
from simulator.demand import Ints
from topologies import Topology
from workloads.ops import Collective

FEW_MEMBERS = 64
"""Members up to which a library would think of it."""
MOST_MEMBERS = 1024
"""Members up to which messages between all pairs are looked at one by one."""


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """Every member sends the n-th part of the buffer to each other one, once for each pass: as many steps as passes."""
    if collective.kind not in PASSES:
        raise ValueError(f"direct does not do {collective.kind}; it does {', '.join(PASSES)}")
    passes = PASSES[collective.kind]
    pairs = all_pairs("direct", passes * collective.bytes / ranks.shape[1], passes, ranks)
    return activity("direct", [phase(topology, ranks, [pairs], passes=passes)], topology)


def all_pairs(algorithm: str, carried: float, steps: int, ranks: Ints) -> Messages:
    """A message from every member to every other."""
    members = ranks.shape[1]
    if members > MOST_MEMBERS:
        raise ValueError(f"{algorithm} sends between all pairs of up to {MOST_MEMBERS} members; there are {members}")
    source, destination = np.nonzero(~np.eye(members, dtype=np.bool_))
    return Messages(carried, steps, ranks[:, source], ranks[:, destination])
