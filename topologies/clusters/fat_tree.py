"""A fat tree (folded Clos) of two or three levels of switches.

Source: Al-Fares, Loukissas, Vahdat, "A Scalable, Commodity Data Center Network Architecture", SIGCOMM 2008; three
levels without oversubscription also MegaScale, arXiv:2402.15627.
"""

from typing import Unpack

from topologies.clusters._servers import ServerOptions, Servers
from topologies.hierarchy import blocks, parallel
from topologies.options import HASHED, MAXIMUM_DEVICES, check_choice, check_seed, check_size, given, idle, title
from topologies.topology import Topology
from topologies.units import GIGA

SERVERS = Servers("h100", nics=8, nic_gbit=400, transport="roce", nvlink=450 * GIGA)
ROUTINGS = ("spray", "ecmp")


def build(
    nodes: int = 32,
    *,
    levels: int = 2,
    nodes_per_leaf: int = 4,
    leaves_per_pod: int = 8,
    routing: str = "spray",
    uplinks: int | None = None,
    seed: int = 0,
    **options: Unpack[ServerOptions],
) -> Topology:
    """So many nodes of 8 GPUs below leaf switches and spines (2 levels), or leaves, pods and a core (3 levels).

    `routing=spray` makes each level one ideal switch; `ecmp` makes it `uplinks` parallel ones (by default as many as a
    leaf has cards), between which each pair of GPUs is hashed with the `seed`, on the same plane up and down. Options:
    `nics`, `nic_gbit`, `transport`, `oversubscription` of what leaves the leaves, `accelerator`, `nvlink_bandwidth`,
    and `gpus_per_node` of which the first are used, with their part of the cards (1, 2, 4 or all 8).
    Assumes that spraying balances perfectly, and that hashing never moves a pair off a full link.

    >>> build(nodes=8, routing="ecmp").route(0, 32)[1].bandwidth  # one of 32 uplinks of a leaf with 32 cards
    50000000000.0
    """
    servers = SERVERS.changed(build, options)
    devices = servers.devices(nodes)
    if levels not in (2, 3):
        raise ValueError(f"levels={levels}: a fat tree has 2 (leaves, spines) or 3 (leaves, pods, core)")
    check_choice("routing", routing, ROUTINGS)
    leaf = servers.used * check_size("nodes_per_leaf", nodes_per_leaf, MAXIMUM_DEVICES)
    pod = leaf * check_size("leaves_per_pod", leaves_per_pod, MAXIMUM_DEVICES)
    upper = {"spine": devices} if levels == 2 else {"pod": pod, "core": devices}
    network = servers.network(
        devices, *((name, blocks(devices, size)) for name, size in {"leaf": leaf, **upper}.items())
    )
    if routing == "ecmp":
        planes = check_size("uplinks", nodes_per_leaf * servers.cards if uplinks is None else uplinks, limit=2**12)
        network = parallel(network, next(iter(upper)), planes, check_seed(seed))
    own = {"levels": levels, "nodes_per_leaf": nodes_per_leaf, "leaves_per_pod": leaves_per_pod}
    paths = {"routing": routing, "uplinks": uplinks, "seed": seed}
    name = title(build, nodes=nodes, **own, **paths, **servers.beside(SERVERS))
    built = servers.cluster(name, network, blocks(devices, servers.used))
    unused = idle(given(build, paths), ("uplinks", "seed"), "routing=spray hashes nothing")
    return built.replace(warnings=unused if routing == "spray" else (HASHED,))
