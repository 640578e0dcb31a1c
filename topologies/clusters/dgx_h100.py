"""DGX H100 servers on InfiniBand.

Source: NVIDIA DGX H100 data sheet: 8 GPUs on NVSwitch at 900 GB/s counted both ways, 8 cards of 400 Gb/s for compute.
"""

from typing import Unpack

from topologies.clusters._servers import ServerOptions, Servers, servers_on_a_switch
from topologies.topology import Topology
from topologies.units import GIGA

SERVERS = Servers("h100", nics=8, nic_gbit=400, transport="infiniband", nvlink=450 * GIGA)


def build(nodes: int = 1, **options: Unpack[ServerOptions]) -> Topology:
    """So many DGX H100, each GPU with a 400 Gb/s card.

    Options: `nics`, `nic_gbit`, `transport`, `oversubscription`, `accelerator`, `nvlink_bandwidth`; `gpus_per_node` of
    which the first are used, with their part of the cards (1, 2, 4 or all 8).
    Assumes the fabric between servers is one ideal, non-blocking switch; with an oversubscription, a leaf switch above
    each server below one ideal spine.

    >>> [link.bandwidth for link in build(nodes=2).route(0, 15)]
    [50000000000.0, 50000000000.0]
    >>> build(nodes=2, nics=4, accelerator="h800").description
    '16 H800-SXM in 2 nodes; nvlink 200 GB/s; pcie 64 GB/s; infiniband 4 × 400 Gb/s a node'
    """
    return servers_on_a_switch(build, SERVERS, nodes, options)
