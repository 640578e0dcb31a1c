"""One message from a sender to a receiver."""

from simulator.activity import Activity, Ints
from simulator.collectives._messages import Messages, phase
from topologies import Topology
from workloads.ops import P2P


def build(collective: P2P, ranks: Ints, topology: Topology) -> Activity:
    """The message's bytes over the route; ranks of shape (groups, 2): sender, receiver.

    Assumes that a message is copied by engines that take no SMs.
    """
    message, sm_share = phase(topology, Messages(collective.bytes, 1, ranks[:, :1], ranks[:, 1:]))
    return Activity("send_receive", (message,), 0.0 * sm_share)
