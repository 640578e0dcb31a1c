"""Boxes of PCIe accelerators: GPUs on PCIe switches below a host bridge, no scale-up fabric.

Source: PCI-SIG, bandwidth of 16 lanes by generation: 16, 32, 64 GB/s each way for 3, 4, 5.
"""

from typing import Unpack

import networkx as nx
import numpy as np

from topologies.clusters._servers import CardOptions, Cards, outside
from topologies.hierarchy import Tier, blocks, cluster
from topologies.link import PCIE_LATENCY, Integers, Link
from topologies.options import check_size, idle, title
from topologies.topology import Topology
from topologies.transport import card, pcie

LARGEST_BOX = 64


def build(
    gpus: int = 8, generation: int = 4, gpus_per_switch: int = 4, nodes: int = 1, **options: Unpack[CardOptions]
) -> Topology:
    """Boxes of so many GPUs; each GPU, each PCIe switch and each network card has 16 lanes.

    Options: `accelerator` (default a100_80gb), `nics` (default 1) at the host bridge, `nic_gbit` (100), `transport`
    (ethernet). All traffic between PCIe switches meets in the bridge, that between boxes in the cards.
    The bridge is the CPU, to which GPUs copy over the same links.
    Assumes one host bridge a box (no socket link) that forwards at full rate, and that its cards act as one.

    >>> [link.kind for link in build().route(0, 7)]
    ['pcie', 'pcie', 'pcie', 'pcie']
    >>> build(nodes=2).route(0, 8)[3].bandwidth
    12500000000.0
    """
    size = check_size("gpus", gpus, LARGEST_BOX)
    defaults = Cards("a100_80gb", nics=1, nic_gbit=100, transport="ethernet", gpus=size, generation=generation)
    boxes = defaults.changed(build, options)
    devices = boxes.devices(nodes)
    per_switch = check_size("gpus_per_switch", gpus_per_switch, LARGEST_BOX)
    hosts = blocks(devices, size)
    switches = hosts * -(-size // per_switch) + np.arange(devices) % size // per_switch
    lanes = pcie(generation)
    tiers = [
        Tier("pcieswitch", switches, lanes),
        Tier("bridge", hosts, _shared(lanes, switches)),
    ]
    if nodes > 1:
        cards = card(boxes.transport, boxes.rate)
        tiers += [
            Tier("nic", hosts, Link("pcie", lanes.bandwidth * boxes.nics / size, PCIE_LATENCY)),
            Tier(boxes.transport, blocks(devices, devices), cards),
        ]
    own = {"generation": generation, "gpus_per_switch": per_switch, "nodes": nodes}
    changed = boxes.beside(defaults)
    built = cluster(title(build, gpus=size, **own, **changed), boxes.chip, tiers, hosts)
    nx.set_node_attributes(built.graph, {tiers[1].node(box): True for box in range(nodes)}, "cpu")
    ideal = idle(changed, ["oversubscription"], "the switch between boxes is an ideal one")
    return built.replace(warnings=outside(changed, 1, "box") if nodes == 1 else ideal)


def _shared(lanes: Link, switches: Integers) -> list[Link]:
    """What each GPU has of its switch's lanes."""
    counts = np.bincount(switches)[switches].tolist()
    return [Link(lanes.kind, lanes.bandwidth / count, lanes.latency) for count in counts]
