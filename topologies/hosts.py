"""Hosts: the CPU memory behind the devices of a cluster and the NVMe drives behind that, as nodes and links.

A topology has them only where they are asked for (`Topology.with_hosts`), since few programs copy to a host. Where its
graph has CPUs of its own, nodes marked `cpu=True` as in a box of PCIe cards, copies go there over the graph's links.
Assumes that elsewhere a device's link to its host carries copies alone, not what it sends through a network card, and
that CPU memory keeps up with copies of all devices of a host, beside what its CPUs update.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from topologies.accelerator import Accelerator
from topologies.link import PCIE_LATENCY, SLOWEST, Integers, Link, Node
from topologies.options import idle
from topologies.plugins import as_text
from topologies.routing.hosted import Hosted, Ways, to_nearest
from topologies.routing.router import Router
from topologies.units import GIGA, MICRO

if TYPE_CHECKING:
    import networkx as nx

    from topologies.topology import Topology

Edges = Sequence[tuple[Node, Node, Link]]

# Source: data sheets of data centre drives on four lanes of PCIe 4.0: 6 to 7 GB/s when they read and 2 to 4 when they
# write in sequence; servers for training typically have 4 to 8 of them, of which 4 reach these sums.
NVME_READ, NVME_WRITE = 25 * GIGA, 12.5 * GIGA
CPU_MEMORY = 100 * GIGA
"""Bytes per second that an Adam on the CPUs of a server reads and writes: about 28 bytes for each of 10 billion
parameters in 2.6 s on two sockets (ZeRO-Offload, arXiv:2101.06840, table 4; not re-checked)."""
NVME_LATENCY = 80 * MICRO
"""Seconds until a drive answers: a read of flash takes 60 to 100 µs."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """What devices share beside their network, in bytes/s: rates of links to hosts, and of the drives of each host.

    `bandwidth` is between each device and its host, each way; None takes what the accelerator's data sheet says.
    `nvme_read` and `nvme_write` are what all drives of a host sustain together, `memory_bandwidth` what its CPUs read
    and write of their memory, in an optimizer's update. `devices` is how many neighbouring ranks of one scale-up domain
    share a host; None takes what the data sheet says, or all of the domain.

    >>> import topologies
    >>> fast = topologies.build("dgx_h100").replace(host=Hosts(nvme_read=50e9))
    >>> [fast.with_hosts().links[link].bandwidth for link in fast.host_routes([3], "from_host", "nvme")[1]]
    [50000000000.0, 63000000000.0]
    """

    bandwidth: float | None = None
    nvme_read: float = NVME_READ
    nvme_write: float = NVME_WRITE
    memory_bandwidth: float = CPU_MEMORY
    devices: int | None = None

    def __post_init__(self) -> None:
        for name in ("bandwidth", "nvme_read", "nvme_write", "memory_bandwidth"):
            value: Any = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and value >= SLOWEST) and not (name == "bandwidth" and value is None):
                raise ValueError(f"{name}={value} of hosts: bytes/s must be at least {SLOWEST:g}")
        many: Any = self.devices
        whole = isinstance(many, Integral) and not isinstance(many, bool)
        if many is not None and not (whole and many >= 1):
            raise ValueError(f"devices={many} of hosts is not a whole number from 1")

    def groups(self, domains: Integers, chips: Sequence[Accelerator]) -> Integers:
        """The number of each device's host, given its scale-up domain, [devices].

        Assumes that neighbouring ranks share a host where a domain has several.

        >>> Hosts(devices=2).groups(np.array([0, 0, 0, 1, 1]), [])
        array([0, 0, 1, 2, 2])
        """
        order = np.argsort(domains, kind="stable")
        place = np.empty(len(domains), np.int64)
        place[order] = np.arange(len(domains)) - np.searchsorted(domains[order], domains[order])
        own = [chip.host_devices or len(domains) for chip in chips]
        sizes = np.full(len(domains), len(domains))
        np.minimum.at(sizes, domains, self.devices or np.array(own))
        numbers: Integers = np.unique(np.stack([domains, place // sizes[domains]]), axis=1, return_inverse=True)[1]
        return numbers.ravel()


def configured(topology: "Topology", options: Mapping[str, Any], names: Mapping[str, str]) -> "Topology":
    """A topology with hosts according to options, each for the field `names` says, which then are part of its name."""
    if not options:
        return topology
    name = ",".join([topology.name, *(f"{key}={as_text(value)}" for key, value in options.items())])
    host = Hosts(**{names[key]: value for key, value in options.items()})
    marked = any(cpu for _, cpu in topology.graph.nodes(data="cpu"))
    wasted = idle(options, ["host_bandwidth", "host_devices"], "its CPUs are in the graph") if marked else ()
    return topology.replace(name=name, host=host, warnings=(*topology.warnings, *wasted))


def edges(topology: "Topology") -> Edges:
    """The links that hosts add, each one direction: two per device, then three per CPU (from and to drives, memory).

    A device whose graph leads to a CPU has no link of its own.
    """
    return _ways(topology)[0]


def hosted(topology: "Topology", router: Router) -> "Topology":
    """A topology of that router with its hosts: nodes `cpu0`, `nvme0` … and their links behind all that it has."""
    import networkx as nx

    added, out, back = _ways(topology)
    graph: nx.DiGraph[Any] = nx.DiGraph(topology.graph)
    graph.add_edges_from((tail, head, {"link": link}) for tail, head, link in added)
    drives = {tail: head for tail, head, link in added if link.kind == "nvme"}
    memory = {tail: head for tail, head, link in added if link.kind == "dram"}
    write = [[(way[-1][1], drives[way[-1][1]])] if way else [] for way in out]
    read = [[(drives[way[0][0]], way[0][0])] if way else [] for way in back]
    within = [[(way[-1][1], memory[way[-1][1]])] if way else [] for way in out]
    found = Hosted.of(topology, router, router.links.joined(added), (out, back, write, read, within))
    return topology.replace(graph=graph, router=found, grid=topology.grid)


def _ways(topology: "Topology") -> tuple[Edges, Ways, Ways]:
    """The links that hosts add, and the edges of every device to the memory of its host and back."""
    host, chips = topology.host, topology.accelerators
    marked = [node for node, cpu in topology.graph.nodes(data="cpu") if cpu]
    out, back = to_nearest(topology.graph, marked, topology.devices)
    links = {chip: _link(host, chip) for chip in dict.fromkeys(chips)}
    numbers = host.groups(topology.hosts, chips).tolist()
    prefix = _free_prefix(topology.graph, max([len(marked), *numbers]) + 1)
    added: list[tuple[Node, Node, Link]] = []
    for rank, (device, chip, number) in enumerate(zip(topology.devices, chips, numbers, strict=True)):
        link, cpu = links[chip], f"{prefix}cpu{number}"
        if link is not None and not out[rank]:
            out[rank], back[rank] = [(device, cpu)], [(cpu, device)]
            added += [(device, cpu, link), (cpu, device, link)]
    write, read = (Link("nvme", rate, NVME_LATENCY) for rate in (host.nvme_write, host.nvme_read))
    memory = Link("dram", host.memory_bandwidth, 0.0)
    cpus: Sequence[Node] = [f"{prefix}cpu{number}" for number in range(max(numbers) + 1)]
    if marked:
        cpus = list(dict.fromkeys([way[-1][1] for way in out if way] + [way[0][0] for way in back if way]))
    for number, node in enumerate(cpus):
        added += [(node, f"{prefix}nvme{number}", write), (f"{prefix}nvme{number}", node, read)]
        added.append((node, f"{prefix}dram{number}", memory))
    return added, out, back


def _link(host: Hosts, chip: Accelerator) -> Link | None:
    bandwidth = chip.host_bandwidth if host.bandwidth is None else host.bandwidth
    return Link(chip.host_kind, bandwidth, PCIE_LATENCY) if bandwidth else None


def _free_prefix(graph: "nx.Graph[Any]", hosts: int) -> str:
    """What to put before the names of CPUs and drives, so that none is that of another node."""
    prefix = ""
    while any(f"{prefix}{kind}{number}" in graph for kind in ("cpu", "nvme", "dram") for number in range(hosts)):
        prefix += "host-"
    return prefix
