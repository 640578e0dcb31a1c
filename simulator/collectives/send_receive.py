"""Single messages: from a sender to a receiver, or from every member to the next."""

import numpy as np

from simulator.activity import Activity
from simulator.collectives._messages import Messages, activity, phase
from simulator.demand import Ints
from topologies import Topology
from workloads.ops import P2P, Collective


def build(collective: Collective | P2P, ranks: Ints, topology: Topology) -> Activity:
    """A message's bytes over its route; ranks of shape (groups, 2): sender, receiver.

    As a collective (`send_receive`, as nccl-tests has it) every member sends its buffer to the next one, all at once.
    Assumes that the messages of a pipeline are copied by engines that take no SMs.
    """
    if isinstance(collective, Collective):
        if collective.kind != "send_receive":
            raise ValueError(f"send_receive does not do {collective.kind}")
        messages = Messages(collective.bytes, 1, ranks, np.roll(ranks, -1, axis=1))
        return activity("send_receive", [phase(topology, ranks, [messages])], topology)
    message = Messages(collective.bytes, 1, ranks[:, :1], ranks[:, 1:])
    sent = phase(topology, ranks, [message])
    return Activity("send_receive", (sent,), np.zeros(len(ranks)))
