"""The ring: every member passes pieces to the next one, each link used in one direction."""

import numpy as np

from simulator.activity import Activity, Ints
from simulator.collectives._messages import Messages, phase
from topologies import Topology
from workloads.ops import Collective

PASSES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """Ring in rank order: passes·(n−1)/n of the buffer over every edge, in passes·(n−1) steps.

    Assumes one ring in rank order through every member's own links, as with one channel per NIC.
    """
    ring, sm_share = phase(topology, edges(collective.kind, collective.bytes, ranks))
    return Activity("ring", (ring,), sm_share)


def edges(kind: str, size: float, ranks: Ints) -> Messages:
    """What every member sends its successor when a ring moves a buffer of `size` bytes."""
    if kind not in PASSES:
        raise ValueError(f"a ring does not do {kind}; it does {', '.join(PASSES)}")
    members, passes = ranks.shape[1], PASSES[kind]
    steps = passes * (members - 1)
    return Messages(steps / members * size, steps, ranks, np.roll(ranks, -1, axis=1))
