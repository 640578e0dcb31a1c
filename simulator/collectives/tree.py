"""Double binary trees over the hosts, chains inside them."""

import numpy as np

from simulator.activity import Activity
from simulator.collectives._groups import Groups, in_one_pattern, tree_messages
from simulator.collectives._messages import Messages, activity, phase
from simulator.demand import Ints
from topologies import Topology
from workloads.ops import Collective


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """An all-reduce up to the roots and down again, in 2·((g−1) + depth of the trees) steps.

    A host that is an inner node of one tree is a leaf of the other, so its cards carry the buffer about twice each way
    (once with two hosts, 1.5 times with three). As many pairs of trees as the smallest host has members, each through
    a card of its own; inside a host a chain leads to that card.
    """
    if collective.kind != "all_reduce":
        raise ValueError(f"tree does not do {collective.kind}; it does all_reduce")
    groups = in_one_pattern(ranks, topology)
    messages = [chains(collective.bytes, groups)]
    if len(groups.counts) > 1:
        messages.append(tree_messages(collective.bytes, groups))
    return activity("tree", [phase(topology, ranks, messages, passes=2, share=groups.share)], topology)


def chains(size: float, groups: Groups) -> Messages:
    """What goes along the chains inside hosts, towards the channel's port and back."""
    pairs = groups.chains()
    sources, destinations = groups.between(np.concatenate([pairs, pairs[:, ::-1]]))
    return Messages(size / groups.channels, 2 * (max(groups.counts) - 1), sources, destinations)
