"""A rail-optimised fabric: card i of every node is on leaf switch i of its scalable unit.

Source: NVIDIA DGX SuperPOD reference architecture (DGX H100): units of 32 nodes below 8 leaf switches of 400 Gb/s,
joined by spine switches; PXN: "Doubling all2all performance with NCCL 2.12" (NVIDIA, 2022).
"""

from typing import Unpack

import numpy as np

from topologies.clusters._servers import ServerOptions, Servers, outside
from topologies.hierarchy import blocks
from topologies.options import MAXIMUM_DEVICES, check_choice, check_size, title
from topologies.routing.levels import ByRail, Hierarchy
from topologies.topology import Topology
from topologies.units import GIGA

SERVERS = Servers("h100", nics=8, nic_gbit=400, transport="infiniband", nvlink=450 * GIGA)


def build(nodes: int = 32, nodes_per_unit: int = 32, pxn: bool = True, **options: Unpack[ServerOptions]) -> Topology:
    """So many nodes of 8 GPUs, in units that share leaf switches.

    With `pxn=on` a message to another rail of another node crosses NVLink to its own node's GPU of that rail and
    leaves by that GPU's card; without, it leaves by its own card and changes the rail on the spine. Options: `nics`,
    `nic_gbit`, `transport`, `oversubscription` of the spine, `accelerator`, `nvlink_bandwidth`, and `gpus_per_node` of
    which the first are used, with their part of the cards (1, 2, 4 or all 8).
    Assumes the spine is one ideal switch.

    >>> [link.kind for link in build(nodes=2).route(0, 9)]
    ['nvlink', 'nvlink', 'infiniband', 'infiniband']
    >>> [link.kind for link in build(nodes=2, pxn=False).route(0, 9)]
    ['infiniband', 'fabric', 'fabric', 'infiniband']
    """
    servers = SERVERS.changed(build, options)
    devices = servers.devices(nodes)
    check_size("nodes_per_unit", nodes_per_unit, MAXIMUM_DEVICES)
    if not isinstance(pxn, bool):
        check_choice("pxn", str(pxn), ["on", "off"])
    rails = min(servers.cards, servers.used)
    hosts = blocks(devices, servers.used)
    rail = np.arange(devices) % servers.used * rails // servers.used
    leaves = hosts // nodes_per_unit * rails + rail
    network = servers.network(devices, ("leaf", leaves), ("spine", blocks(devices, devices)))
    changed = servers.beside(SERVERS)
    name = title(build, nodes=nodes, nodes_per_unit=nodes_per_unit, pxn=pxn, **changed)
    topology = servers.cluster(name, network, hosts).replace(warnings=outside(changed, nodes, "node"))
    if not pxn or not isinstance(topology.router, Hierarchy):
        return topology
    relay = np.arange(0, devices, servers.used // rails).reshape(-1, rails)
    return topology.replace(router=ByRail(topology.router, hosts, rail, relay))
