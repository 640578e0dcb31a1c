"""The RoCE cluster that trained Llama 3 405B.

Source: The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.1: 24,576 GPUs on a three-layer Clos network; a rack
holds 16 GPUs in 2 servers under one switch, 192 racks make a pod of 3,072 GPUs with full bisection bandwidth, and
8 pods are joined by aggregation switches with an oversubscription of 1:7.
"""

from topologies.clusters._servers import GPUS_PER_SERVER, nvswitch
from topologies.hierarchy import Tier, blocks, cluster
from topologies.link import NVSWITCH_LATENCY, Link
from topologies.options import MAXIMUM_DEVICES, check_size
from topologies.topology import Topology
from topologies.transport import fabric, own_card
from topologies.units import GBIT, GIGA

GPUS_PER_RACK = 2 * GPUS_PER_SERVER
GPUS_PER_POD = 192 * GPUS_PER_RACK
OVERSUBSCRIPTION = 7
CARD_BANDWIDTH = 400 * GBIT


def build(gpus: int = 8 * GPUS_PER_POD) -> Topology:
    """The first so many GPUs of the cluster (more than 24,576 add pods).

    A partly used rack or pod keeps its uplinks in proportion to its GPUs: 16,384 GPUs are 5 1/3 pods.
    Assumes each layer's switches act as one ideal switch (a rack's, a pod's, the spine): no hash collisions.

    >>> build(gpus=6144).links[-1].bandwidth == 3072 * 50e9 / 7  # spine to pod
    True
    """
    gpus = check_size("gpus", gpus, MAXIMUM_DEVICES, multiple=GPUS_PER_SERVER)
    up = fabric("roce", CARD_BANDWIDTH)
    network = [
        Tier("rack", blocks(gpus, GPUS_PER_RACK), own_card("roce", CARD_BANDWIDTH)),
        Tier("pod", blocks(gpus, GPUS_PER_POD), up),
        Tier("spine", blocks(gpus, gpus), up, OVERSUBSCRIPTION),
    ]
    hosts = blocks(gpus, GPUS_PER_SERVER)
    inside = nvswitch(hosts, Link("nvlink", 450 * GIGA, NVSWITCH_LATENCY / 2))
    return cluster(f"llama3_cluster,gpus={gpus}", "h100", network, hosts, inside)
