"""Recursive halving and doubling: partners at doubling distances exchange shrinking or growing parts."""

import numpy as np

from simulator.activity import Activity
from simulator.collectives._groups import in_one_pattern
from simulator.collectives._messages import Messages, activity, phase
from simulator.collectives.ring import PASSES
from simulator.demand import Ints
from topologies import Topology
from workloads.ops import Collective


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """log2(n) steps a pass, one phase each, for 2^k members: S/2, S/4, … halving, the same backwards doubling.

    A reduce-scatter halves, an all-gather doubles, an all-reduce does both: (n−1)/n of the buffer a pass, as a ring,
    in fewer steps, over longer distances. The largest parts go between nearest neighbours in rank order.
    Assumes the bulk protocol, whose set-up the first step pays.
    """
    members = ranks.shape[1]
    if collective.kind not in PASSES:
        raise ValueError(f"recursive does not do {collective.kind}; it does {', '.join(PASSES)}")
    if members & (members - 1):
        lower = 1 << (members.bit_length() - 1)
        raise ValueError(f"recursive needs a power of two of members, not {members}; nearest: {lower}, {2 * lower}")
    share = in_one_pattern(ranks, topology).share
    halving = [1 << step for step in range(members.bit_length() - 1)]
    doubling = halving[::-1]
    distances = {"reduce_scatter": halving, "all_gather": doubling, "all_reduce": halving + doubling}[collective.kind]
    phases = [
        phase(topology, ranks, [_exchange(collective.bytes, ranks, each)], share=share, starts=not number, quick=False)
        for number, each in enumerate(distances)
    ]
    return activity("recursive", phases, topology)


def _exchange(size: float, ranks: Ints, distance: int) -> Messages:
    """Everybody exchanges S/(2·distance) with the partner at a distance."""
    partner = np.arange(ranks.shape[1]) ^ distance
    return Messages(size / (2 * distance), 1, ranks, ranks[:, partner])
