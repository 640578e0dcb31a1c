"""Alibaba HPN: rails below two planes of switches that never meet.

Source: "Alibaba HPN: A Data Center Network for Large Language Model Training", SIGCOMM 2024: 8 GPUs and 8 cards of
2 × 200 Gb/s a node, each port on its own top-of-rack switch; 1,024 GPUs a segment, rail-optimised; 15 segments a pod
below aggregation switches, 60 uplinks of 400 Gb/s to 128 cards' ports of 200; 1:15 between pods and core.
"""

from typing import Unpack

import numpy as np

from topologies.clusters._servers import ServerOptions, Servers
from topologies.hierarchy import Tier, blocks, parallel
from topologies.options import HASHED, MAXIMUM_DEVICES, check_choice, check_seed, check_size, given, idle, title
from topologies.topology import Topology
from topologies.transport import fabric
from topologies.units import GIGA

SERVERS = Servers(
    "h800", nics=8, nic_gbit=400, transport="roce", oversubscription=128 * 200 / (60 * 400), nvlink=200 * GIGA
)
CORE_OVERSUBSCRIPTION = 15


def build(
    nodes: int = 128,
    *,
    planes: int = 2,
    routing: str = "spray",
    seed: int = 0,
    nodes_per_segment: int = 128,
    segments_per_pod: int = 15,
    **options: Unpack[ServerOptions],
) -> Topology:
    """So many nodes of 8 H800, each GPU's card with a port on every plane.

    `routing=spray` uses all planes evenly, as one aggregated link, as libraries do with several connections for each
    pair of GPUs; `ecmp` hashes each pair with the `seed` on one plane, that is on a port of 1/planes of the card's
    rate. Options: `nics`, `nic_gbit` of all ports of a card, `transport`, `oversubscription` of the top-of-rack
    switches, `accelerator`, `nvlink_bandwidth`, and `gpus_per_node` of which the first are used, with their part of the
    cards (1, 2, 4 or all 8).
    Assumes that a plane's aggregation switches, and its core, each act as one ideal switch.

    >>> [link.bandwidth for link in build(nodes=2).route(0, 8)]
    [50000000000.0, 50000000000.0]
    >>> [link.bandwidth for link in build(nodes=2, routing="ecmp").route(0, 8)]
    [25000000000.0, 25000000000.0]
    """
    servers = SERVERS.changed(build, options)
    devices = servers.devices(nodes)
    segment = servers.used * check_size("nodes_per_segment", nodes_per_segment, MAXIMUM_DEVICES)
    pod = segment * check_size("segments_per_pod", segments_per_pod, MAXIMUM_DEVICES)
    check_choice("routing", routing, ("spray", "ecmp"))
    check_size("planes", planes, limit=16)
    check_seed(seed)
    network = _network(servers, devices, segment, pod)
    if routing == "ecmp":
        network = parallel(network, "tor", planes, seed)
    paths = {"planes": planes, "routing": routing, "seed": seed}
    sizes = {"nodes_per_segment": nodes_per_segment, "segments_per_pod": segments_per_pod}
    name = title(build, nodes=nodes, **paths, **sizes, **servers.beside(SERVERS))
    built = servers.cluster(name, network, blocks(devices, servers.used))
    unused = idle(given(build, paths), ("planes", "seed"), "routing=spray hashes nothing")
    return built.replace(warnings=unused if routing == "spray" else (HASHED,))


def _network(servers: Servers, devices: int, segment: int, pod: int) -> list[Tier]:
    """Rails of each segment, pods, and a core where there are several pods."""
    rails, ranks = min(servers.cards, servers.used), np.arange(devices)
    racks = ranks // segment * rails + ranks % servers.used * rails // servers.used
    tiers = servers.network(devices, ("tor", racks), ("aggregation", blocks(devices, pod)))
    if devices <= pod:
        return tiers
    link = fabric(servers.transport, servers.rate)
    return [*tiers, Tier("core", blocks(devices, devices), link, servers.oversubscription * CORE_OVERSUBSCRIPTION)]
