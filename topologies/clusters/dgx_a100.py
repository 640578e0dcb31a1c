"""DGX A100 servers on InfiniBand.

Source: NVIDIA DGX A100 80 GB data sheet: 8 GPUs on NVSwitch at 600 GB/s counted both ways, 8 HDR cards of 200 Gb/s,
PCIe 4.
"""

from typing import Unpack

from topologies.clusters._servers import ServerOptions, Servers, servers_on_a_switch
from topologies.topology import Topology
from topologies.units import GIGA

SERVERS = Servers("a100_80gb", nics=8, nic_gbit=200, transport="infiniband", generation=4, nvlink=300 * GIGA)


def build(nodes: int = 1, **options: Unpack[ServerOptions]) -> Topology:
    """So many DGX A100 with 80 GB GPUs, each GPU with a 200 Gb/s HDR card.

    Options: `nics`, `nic_gbit`, `transport`, `oversubscription`, `accelerator`, `nvlink_bandwidth`; `gpus_per_node` of
    which the first are used, with their part of the cards (1, 2, 4 or all 8).
    Assumes the fabric between servers is one ideal, non-blocking switch; with an oversubscription, a leaf switch above
    each server below one ideal spine.

    >>> [link.bandwidth for link in build().route(0, 7)]
    [300000000000.0, 300000000000.0]
    """
    return servers_on_a_switch(build, SERVERS, nodes, options)
