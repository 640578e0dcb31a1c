"""A dragonfly: groups of switches, all joined within a group, all groups joined by tapered global links.

Source: Kim, Dally, Scott, Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008 (local links carry
twice what a switch's cards do); De Sensi et al., "An In-Depth Analysis of the Slingshot Interconnect", SC 2020; nodes
as NERSC's Perlmutter has them: 4 A100, 4 cards of 200 Gb/s.
"""

from typing import Unpack

import numpy as np

from topologies.clusters._servers import CardOptions, Cards, nvswitch
from topologies.hierarchy import Part, assemble, blocks, chain, gpus, mesh
from topologies.link import Integers, Node
from topologies.options import MAXIMUM_DEVICES, check_size, title
from topologies.routing.dragonfly import GroupLevel
from topologies.routing.levels import Level, SwitchLevel
from topologies.scale_up import PAIRED, nvlink, pair
from topologies.topology import Topology
from topologies.transport import fabric
from topologies.units import GBIT, GIGA

LOCAL_SHARE = 2.0
"""What a switch's local links carry together, of what its cards do."""
MESH_BOARD = 4
"""GPUs of a node up to which NVIDIA joins them without a switch."""
MOST_GROUPS, MOST_SWITCHES = 2**10, 2**8


def build(
    groups: int = 4,
    *,
    switches_per_group: int = 8,
    nodes_per_switch: int = 4,
    gpus_per_node: int = 4,
    **options: Unpack[CardOptions],
) -> Topology:
    """So many groups of switches with nodes below each.

    Options: `accelerator` (default a100_40gb), `nics` a node (default one a GPU), `nic_gbit` (200), `transport`
    (slingshot); `oversubscription` (2): a group's links to all others carry 1/2 of what its cards do, evenly to each.
    Nodes of up to 4 GPUs are a full mesh where there are such boards, others have an NVSwitch.
    Assumes shortest paths, never a detour by a third group; parallel links between two switches or groups act as one.

    >>> cluster = build()
    >>> [link.kind for link in cluster.route(0, cluster.size - 1)]
    ['slingshot', 'fabric', 'fabric', 'fabric', 'slingshot']
    """
    size = check_size("gpus_per_node", gpus_per_node, 64)
    defaults = Cards(
        "a100_40gb", nics=size, nic_gbit=200, transport="slingshot", oversubscription=2, gpus=size, generation=4
    )
    servers = defaults.changed(build, options)
    check_size("groups", groups, MOST_GROUPS)
    check_size("switches_per_group", switches_per_group, MOST_SWITCHES)
    check_size("nodes_per_switch", nodes_per_switch, MAXIMUM_DEVICES)
    switches = groups * switches_per_group
    devices = servers.devices(switches * nodes_per_switch, "groups × switches_per_group × nodes_per_switch")
    hosts = blocks(devices, size)
    inside = _inside(servers, hosts)
    cards = chain(gpus(devices), servers.network(devices, ("switch", hosts // nodes_per_switch)), len(inside.edges))
    rate = nodes_per_switch * servers.nics * servers.nic_gbit * GBIT
    between = _between(cards, servers, np.arange(switches) // switches_per_group, rate, len(inside.edges))
    own = {"switches_per_group": switches_per_group, "nodes_per_switch": nodes_per_switch, "gpus_per_node": size}
    name = title(build, groups=groups, **own, **servers.beside(defaults))
    return assemble(name, servers.chip, gpus(devices), hosts, [inside, cards, between])


def _inside(servers: Cards, hosts: Integers) -> Part[Level]:
    """What joins the GPUs of a node."""
    if servers.gpus <= MESH_BOARD and servers.chip.name in PAIRED:
        return mesh(gpus(len(hosts)), hosts, pair(servers.chip))
    return nvswitch(hosts, nvlink(servers.chip, otherwise=450 * GIGA))


def _between(cards: Part[SwitchLevel], servers: Cards, group: Integers, rate: float, before: int) -> Part[GroupLevel]:
    """Local and global links of switches, `group` [switches], whose cards have so many bytes/s together."""
    names: list[Node] = [f"switch{number}" for number in range(len(group))]
    groups, size = int(group[-1]) + 1, int((group == 0).sum())
    before += len(cards.edges)
    local = mesh(names, group, fabric(servers.transport, LOCAL_SHARE * rate / max(1, size - 1)), before)
    before += len(local.edges)
    ahead = (np.arange(groups) - np.arange(groups)[:, None]) % groups
    gateway = np.arange(groups)[:, None] * size + (ahead - 1) % size
    low, high = np.triu_indices(groups, 1)
    across = np.full((groups, groups), -1, np.int64)
    across[low, high] = 2 * (before + np.arange(len(low)))
    across[high, low] = across[low, high] + 1
    link = fabric(servers.transport, size * rate / servers.oversubscription / max(1, groups - 1))
    ends = zip(gateway[low, high].tolist(), gateway[high, low].tolist(), strict=True)
    edges = [*local.edges, *((names[tail], names[head], link) for tail, head in ends)]
    return Part(edges, (GroupLevel(cards.levels[-1], group, local.levels[0], gateway, across),))
