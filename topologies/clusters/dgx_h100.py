"""DGX H100 servers on InfiniBand.

Source: NVIDIA DGX H100 data sheet: 8 GPUs on NVSwitch at 900 GB/s counted both ways, 8 cards of 400 Gb/s for compute.
"""

from topologies.clusters._servers import GPUS_PER_SERVER, cards, nvswitch
from topologies.hierarchy import MAXIMUM_DEVICES, check_size, cluster
from topologies.link import INFINIBAND_SWITCH_LATENCY
from topologies.topology import Topology
from topologies.units import GBIT, GIGA


def build(nodes: int = 1) -> Topology:
    """So many DGX H100, each GPU with a 400 Gb/s card.

    Assumes the fabric between servers is one ideal, non-blocking switch.

    >>> [link.bandwidth for link in build(nodes=2).route(0, 15)]
    [50000000000.0, 50000000000.0]
    """
    gpus = GPUS_PER_SERVER * check_size("nodes", nodes, MAXIMUM_DEVICES // GPUS_PER_SERVER)
    fabric = cards("infiniband", gpus, "infiniband", 400 * GBIT, INFINIBAND_SWITCH_LATENCY)
    return cluster(f"dgx_h100,nodes={nodes}", gpus, "h100", [fabric], nvswitch(450 * GIGA))
