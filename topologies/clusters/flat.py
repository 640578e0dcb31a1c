"""All ranks on one ideal switch: for arithmetic, and for seeing what a network costs by taking it away."""

import numpy as np

from topologies.accelerator import Accelerator
from topologies.hierarchy import Tier, blocks, cluster
from topologies.link import CARD_LATENCY, INFINIBAND_SWITCH_LATENCY, PCIE_LATENCY, Link
from topologies.options import MAXIMUM_DEVICES, check_size
from topologies.topology import Topology

PORT_LATENCY = PCIE_LATENCY + CARD_LATENCY + INFINIBAND_SWITCH_LATENCY / 2


def build(
    ranks: int = 8,
    bandwidth: float = 50e9,
    latency: float = PORT_LATENCY,
    accelerator: str | Accelerator = "h100",
) -> Topology:
    """Every rank its own host, with one port of so many bytes/s each way and so many seconds to the switch.

    A route crosses two ports, so its latency is twice `latency`: a hop of c seconds is `latency=c / 2`.
    `bandwidth=inf` and `latency=0` are legal: links that cost nothing.

    >>> sum(link.latency for link in build(ranks=4, bandwidth=float("inf"), latency=0.5).route(0, 3))
    1.0
    """
    ranks = check_size("ranks", ranks, MAXIMUM_DEVICES)
    port = Link("port", bandwidth, latency)
    name = f"flat,ranks={ranks},bandwidth={port.bandwidth:g},latency={port.latency:g},accelerator={_label(accelerator)}"
    return cluster(name, accelerator, [Tier("switch", blocks(ranks, ranks), port)], np.arange(ranks))


def _label(accelerator: str | Accelerator) -> str:
    return accelerator.name if isinstance(accelerator, Accelerator) else str(accelerator)
