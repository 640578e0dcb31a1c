"""Jean Zay's A100 partition, on which BLOOM was trained: servers of two boards of four GPUs, Omni-Path outside.

Source: BLOOM's model card and arXiv:2211.05100, section 3.1: 8 A100 of 80 GB a node, four NVLinks between two GPUs,
four Omni-Path links of 100 Gb/s a node, two AMD EPYC 7543. Four NVLinks a pair are those of NVIDIA's HGX A100 4-GPU
board (data sheet: 12 links of 25 GB/s each way a GPU, four to each of three others), of which eight GPUs need two; they
meet over PCIe 4 and the sockets' own links.
"""

from dataclasses import replace

from topologies import accelerators
from topologies.clusters._servers import nvswitch
from topologies.hierarchy import Tier, blocks, cluster
from topologies.options import MAXIMUM_DEVICES, check_size, title
from topologies.scale_up import nvlink
from topologies.topology import Topology
from topologies.transport import card, pcie
from topologies.units import GBIT, GIGA

GPUS_PER_SERVER, GPUS_PER_BOARD, GPUS_PER_BRIDGE = 8, 4, 2
CARDS, CARD_GBIT = 4, 100


def build(nodes: int = 48) -> Topology:
    """So many servers of 8 A100 in two boards; a board is a host, that is a scale-up domain.

    Assumes that a board's mesh serves collectives as a switch of the same bytes/s would; that two GPUs and a card share
    16 lanes of PCIe to their socket, as in DGX A100, and sockets' own links are no narrower; that the Omni-Path network
    is one ideal switch.

    >>> [link.kind for link in build(nodes=2).route(0, 4)], [link.kind for link in build(nodes=2).route(0, 8)]
    (['pcie', 'pcie', 'pcie', 'pcie'], ['pcie', 'pcie', 'omnipath', 'omnipath', 'pcie', 'pcie'])
    """
    devices = GPUS_PER_SERVER * check_size("nodes", nodes, MAXIMUM_DEVICES // GPUS_PER_SERVER)
    chip = accelerators.build("a100_80gb")
    boards = blocks(devices, GPUS_PER_BOARD)
    lanes = pcie(4)
    network = [
        Tier("bridge", blocks(devices, GPUS_PER_BRIDGE), lanes),
        Tier("server", blocks(devices, GPUS_PER_SERVER), replace(lanes, bandwidth=lanes.bandwidth / GPUS_PER_BRIDGE)),
        Tier("omnipath", blocks(devices, devices), card("omnipath", CARD_GBIT * GBIT * CARDS / GPUS_PER_SERVER)),
    ]
    return cluster(title(build, nodes=nodes), chip, network, boards, nvswitch(boards, nvlink(chip, 300 * GIGA)))
