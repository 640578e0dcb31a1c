"""Copies between accelerators and their hosts as activities: bytes over the way to the host, and nothing else."""

import numpy as np

from simulator.activity import Activity, Phase
from simulator.demand import Demand, Floats, Ints, chips
from topologies import Topology
from workloads.ops import HostCopy

ALGORITHMS = {
    **{(kind, "cpu"): "host_copy" for kind in ("to_host", "from_host")},
    **{(kind, "nvme"): "nvme_copy" for kind in ("to_host", "from_host", "load", "store")},
    ("update", "cpu"): "host_update",
}
"""What a copy is called, by its kind and medium."""


def build(copy: HostCopy, ranks: Ints, topology: Topology) -> Activity:
    """A copy of each rank, shape (groups, 1): its bytes cross every link of its way, at whatever rate is left there.

    Assumes that copy engines move a copy in one stream that keeps its way full, from pinned memory, and that drives
    take it without going through CPU memory first; no SMs are held.
    """
    groups = len(ranks)
    group, link = topology.host_routes(ranks[:, 0], copy.kind, copy.medium)
    _check(copy, ranks, np.bincount(group, minlength=groups), topology)
    latency: Floats = np.bincount(group, topology.links.latency[link], minlength=groups).astype(np.float64)
    nothing = np.zeros((groups, len(topology.links.kinds)))
    demand = Demand(nothing, nothing, latency, chips(topology, ranks), np.ones(groups), starts=False, quick=False)
    phase = Phase(
        latency=latency,
        work=np.full(groups, float(copy.bytes)),
        rate_cap=np.full(groups, np.inf),
        group=group,
        link=link,
        weight=np.ones(len(link)),
        demand=demand,
    )
    return Activity(ALGORITHMS[copy.kind, copy.medium], (phase,), np.zeros(groups))


def fullest_host(sizes: Floats, topology: Topology) -> float:
    """The most bytes at one host, given those that every rank keeps at its own, shape (ranks,).

    >>> import topologies
    >>> fullest_host(np.full(16, 1e9), topologies.build("dgx_h100,nodes=2"))
    8000000000.0
    """
    rank, memory = topology.host_routes(np.arange(len(sizes)), "update")
    return float(np.bincount(memory, sizes[rank]).max())


def _check(copy: HostCopy, ranks: Ints, hops: Ints, topology: Topology) -> None:
    lost = np.flatnonzero(hops == 0)
    if len(lost):
        rank = int(ranks[lost[0], 0])
        raise ValueError(
            f"rank {rank} copies {copy.kind}, but no link of {topology.accelerators[rank].name} to its host is known; "
            "give its bytes/s, as in topology.replace(host=topologies.Hosts(bandwidth=31.5e9))"
        )
