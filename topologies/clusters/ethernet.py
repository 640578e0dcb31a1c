"""A100 servers on ordinary Ethernet: one slow card for eight GPUs.

Source: the same servers as DGX A100 (NVIDIA data sheet: 300 GB/s each way to NVSwitch, PCIe 4), bought without
InfiniBand: one 10 Gb/s card each.
"""

from typing import Unpack

from topologies.clusters._servers import ServerOptions, Servers, servers_on_a_switch
from topologies.topology import Topology
from topologies.units import GIGA

SERVERS = Servers("a100_80gb", nics=1, nic_gbit=10, transport="ethernet", generation=4, nvlink=300 * GIGA)


def build(nodes: int = 8, **options: Unpack[ServerOptions]) -> Topology:
    """So many servers of 8 A100, all 8 behind one 10 Gb/s card.

    Options: `nics`, `nic_gbit`, `transport`, `oversubscription`, `accelerator`, `nvlink_bandwidth`; `gpus_per_node` of
    which the first are used, with their part of the cards (1, 2, 4 or all 8).
    Assumes the fabric between servers is one ideal, non-blocking switch; with an oversubscription, a leaf switch above
    each server below one ideal spine.

    >>> [(link.kind, link.bandwidth) for link in build(nodes=2).route(0, 8)]
    [('pcie', 32000000000.0), ('ethernet', 1250000000.0), ('ethernet', 1250000000.0), ('pcie', 32000000000.0)]
    """
    return servers_on_a_switch(build, SERVERS, nodes, options)
