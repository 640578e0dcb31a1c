"""DGX A100 servers on InfiniBand.

Source: NVIDIA DGX A100 80 GB data sheet: 8 GPUs on NVSwitch at 600 GB/s counted both ways, 8 HDR cards of 200 Gb/s.
"""

from topologies.clusters._servers import GPUS_PER_SERVER, cards, nvswitch
from topologies.hierarchy import MAXIMUM_DEVICES, check_size, cluster
from topologies.link import INFINIBAND_SWITCH_LATENCY
from topologies.topology import Topology
from topologies.units import GBIT, GIGA


def build(nodes: int = 1) -> Topology:
    """So many DGX A100 with 80 GB GPUs, each GPU with a 200 Gb/s HDR card.

    Assumes the fabric between servers is one ideal, non-blocking switch.

    >>> [link.bandwidth for link in build().route(0, 7)]
    [300000000000.0, 300000000000.0]
    """
    gpus = GPUS_PER_SERVER * check_size("nodes", nodes, MAXIMUM_DEVICES // GPUS_PER_SERVER)
    fabric = cards("infiniband", gpus, "infiniband", 200 * GBIT, INFINIBAND_SWITCH_LATENCY)
    return cluster(f"dgx_a100,nodes={nodes}", gpus, "a100_80gb", [fabric], nvswitch(300 * GIGA))
