"""Servers whose accelerators are joined pairwise by direct links, without a switch.

Source: AMD Instinct MI300X, MI325X, MI355X platforms (8 accelerators, one Infinity Fabric link between every two);
NVIDIA boards of four A100 or GH200 (NVLinks shared evenly by the three others).
"""

from typing import Unpack

from topologies.clusters._servers import CardOptions, Cards, outside
from topologies.hierarchy import blocks, cluster, gpus, mesh
from topologies.options import check_size, title
from topologies.scale_up import pair
from topologies.topology import Topology

LARGEST_MESH = 64


def build(
    nodes: int = 1, gpus_per_node: int = 8, pair_bandwidth: float | None = None, **options: Unpack[CardOptions]
) -> Topology:
    """So many servers; a pair has `pair_bandwidth` bytes/s each way, by default what its accelerator's data sheet says.

    Options: `accelerator` (default mi300x), `nics` (default one a GPU), `nic_gbit` (400), `transport` (roce),
    `oversubscription`. Routes in a server are its one direct link.
    Assumes the fabric between servers is one ideal, non-blocking switch; with an oversubscription, a leaf switch above
    each server below one ideal spine.

    >>> [link.bandwidth for link in build().route(3, 5)]
    [64000000000.0]
    >>> build(accelerator="gh200", gpus_per_node=4).description
    '4 GH200 in 1 node; nvlink 3 × 150 GB/s; roce 4 × 400 Gb/s a node'
    """
    size = check_size("gpus_per_node", gpus_per_node, LARGEST_MESH)
    defaults = Cards("mi300x", nics=size, nic_gbit=400, transport="roce", gpus=size)
    servers = defaults.changed(build, options)
    devices = servers.devices(nodes)
    hosts = blocks(devices, size)
    changed = servers.beside(defaults)
    name = title(build, nodes=nodes, gpus_per_node=size, pair_bandwidth=pair_bandwidth, **changed)
    inside = mesh(gpus(devices), hosts, pair(servers.chip, pair_bandwidth))
    built = cluster(name, servers.chip, servers.above_servers(hosts), hosts, inside)
    return built.replace(warnings=outside(changed, nodes, "node"))
