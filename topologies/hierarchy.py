"""Clusters of servers below tiers of switches: one builder for all families, link ids by arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import networkx as nx
import numpy as np

from topologies import accelerators
from topologies.accelerator import Accelerator
from topologies.link import Integers, Link, Links, Node, sealed
from topologies.routing.levels import Hierarchy, Level, MeshLevel, SwitchLevel
from topologies.routing.router import NONE
from topologies.topology import Topology

Edges = Sequence[tuple[Node, Node, Link]]
AnyLevel_co = TypeVar("AnyLevel_co", bound=Level, covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Tier:
    """Switches above devices (or above the tier below), and the links up to them.

    `units` [devices] is the number of the switch that a device is below; devices of unit -1 skip the tier. `link` says
    what *one device* has of the links up to it, each way: an uplink's bandwidth is the sum over the devices below it,
    so that a partly filled rack or pod keeps its uplinks in proportion; oversubscription r leaves 1/r of the sum. A
    sequence of links, one per device, serves unequal devices. `planes` are parallel switches that share the bandwidth
    evenly: each pair of devices is hashed on one of them with the `seed`. Assumes that a partly filled unit still has
    all of its parallel uplinks, each as fast as those of the fullest unit.
    """

    switch: str
    units: Integers
    link: Link | Sequence[Link]
    oversubscription: float = 1.0
    planes: int = 1
    seed: int = 0

    def node(self, unit: int, plane: int = 0) -> Node:
        """The name of a switch."""
        return f"{self.switch}{unit * self.planes + plane}"

    def links(self, below: Integers, parts: int) -> list[Link]:
        """The link up from each unit below, of so many parallel ones; `below` [devices] numbers the units."""
        count = int(below.max()) + 1
        if isinstance(self.link, Link):
            each, firsts = np.full(len(below), float(self.link.bandwidth)), [self.link] * count
        else:
            each = np.array([link.bandwidth for link in self.link])
            firsts = [self.link[device] for device in np.unique(below, return_index=True)[1].tolist()]
        sums = np.bincount(below, each, count) / self.oversubscription / parts
        if parts > 1:
            sums[:] = sums.max()
        return _same_shared(firsts, sums.tolist())


def _same_shared(links: Sequence[Link], bandwidths: Sequence[float]) -> list[Link]:
    """Links with other bandwidths; equal ones are one object, since there are few different ones."""
    known: dict[tuple[Link, float], Link] = {}
    for key in zip(links, bandwidths, strict=True):
        if key not in known:
            known[key] = replace(key[0], bandwidth=key[1])
    return [known[key] for key in zip(links, bandwidths, strict=True)]


@dataclass(frozen=True, slots=True)
class Part(Generic[AnyLevel_co]):
    """Edges of a cluster, with the levels of routing that they make; link ids begin at twice the edges before."""

    edges: Edges
    levels: tuple[AnyLevel_co, ...]


def blocks(devices: int, size: int) -> Integers:
    """The number of the block of so many neighbouring devices in which each device is.

    >>> blocks(5, 2).tolist()
    [0, 0, 1, 1, 2]
    """
    return np.arange(devices) // size


def parallel(tiers: Sequence[Tier], lowest: str, planes: int, seed: int) -> list[Tier]:
    """Tiers of which the named one and those above it are several planes of switches."""
    first = [tier.switch for tier in tiers].index(lowest)
    return [*tiers[:first], *(replace(tier, planes=planes, seed=seed) for tier in tiers[first:])]


def chain(devices: Sequence[Node], tiers: Sequence[Tier], before: int = 0) -> Part[SwitchLevel]:
    """Join devices to the first tier's switches, those to the second's, and so on; `before` edges exist already.

    A switch is the tier's name and a number; where there are planes, those of one unit are numbered consecutively.
    """
    edges: list[tuple[Node, Node, Link]] = []
    levels: list[SwitchLevel] = []
    rung = _Rung(np.arange(len(devices)), devices)
    ups, steps, most = np.empty((len(devices), 0), np.int64), np.empty(0, np.int64), 1
    for tier in tiers:
        parts, most = max(rung.width, tier.planes), max(most, tier.planes)
        new, places = rung.edges(tier, parts)
        up = np.where(places == NONE, NONE, 2 * (before + len(edges) + places * parts))
        edges += new
        ups, steps = np.column_stack([ups, up]), np.append(steps, 2 if parts > 1 else 0)
        downs = np.where(ups == NONE, NONE, ups + 1)[:, ::-1]
        rung = rung.next(tier)
        levels.append(SwitchLevel(rung.units, ups, downs, most, steps, tier.seed))
    return Part(edges, tuple(levels))


@dataclass(frozen=True, slots=True)
class _Rung:
    """What a chain has reached: the unit of each device, and the nodes of the units, `width` planes of each."""

    units: Integers
    names: Sequence[Node]
    width: int = 1

    def edges(self, tier: Tier, parts: int) -> tuple[Edges, Integers]:
        """The edges up to a tier, `parts` of each unit, and the place among the units with edges of each device's."""
        above = tier.units[np.unique(self.units, return_index=True)[1]]
        places = np.where(above == NONE, NONE, np.cumsum(above != NONE) - 1)
        edges = [
            (self.names[unit * self.width + plane % self.width], tier.node(upper, plane % tier.planes), link)
            for unit, (upper, link) in enumerate(zip(above.tolist(), tier.links(self.units, parts), strict=True))
            if upper != NONE
            for plane in range(parts)
        ]
        return edges, places[self.units]

    def next(self, tier: Tier) -> "_Rung":
        """One tier up; devices that skip it stay where they are, as units after the tier's own."""
        count = int(tier.units.max()) + 1
        switches = [tier.node(unit, plane) for unit in range(count) for plane in range(tier.planes)]
        if (tier.units != NONE).all():
            return _Rung(tier.units, switches, tier.planes)
        pool = [*switches, *self.names]
        kept, units = np.unique(np.where(tier.units == NONE, count + self.units, tier.units), return_inverse=True)
        return _Rung(units, [pool[each] for each in kept.tolist()])


def mesh(devices: Sequence[Node], units: Integers, link: Link | Sequence[Link], before: int = 0) -> Part[MeshLevel]:
    """A link between every two devices of a unit, of neighbouring ones; a sequence says the links of each device."""
    sizes = np.bincount(units)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    pairs = sizes * (sizes - 1) // 2
    first = before + np.concatenate([[0], np.cumsum(pairs)[:-1]])
    edges = [
        (devices[low], devices[high], link if isinstance(link, Link) else link[low])
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        for low in range(start, start + size)
        for high in range(low + 1, start + size)
    ]
    places = np.arange(len(devices)) - starts[units]
    return Part(edges, (MeshLevel(units, places, sizes[units], first[units]),))


def gpus(count: int) -> tuple[str, ...]:
    """The nodes of so many devices: `gpu0` … in rank order."""
    return tuple(f"gpu{rank}" for rank in range(count))


def cluster(
    name: str,
    accelerator: str | Accelerator | Sequence[Accelerator],
    network: Sequence[Tier],
    hosts: Integers,
    scale_up: Part[Level] | None = None,
) -> Topology:
    """Servers of accelerators below tiers of switches.

    `network` lists the tiers that join servers, from the network cards up; the last one joins everything. `scale_up`
    is what joins the devices of a host: traffic within a host uses it alone, traffic between hosts never does.
    Devices are nodes `gpu0` …, switches the tier's name and a number.

    >>> leaf = Tier("leaf", blocks(6, 2), Link("port", 1e9))
    >>> spine = Tier("spine", blocks(6, 6), Link("fabric", 1e9), oversubscription=2)
    >>> [(link.kind, link.bandwidth) for link in cluster("toy", "ideal", [leaf, spine], np.arange(6)).route(0, 5)]
    [('port', 1000000000.0), ('fabric', 1000000000.0), ('fabric', 1000000000.0), ('port', 1000000000.0)]
    """
    devices = gpus(len(hosts))
    inside = [scale_up] if scale_up else []
    return assemble(name, accelerator, devices, hosts, [*inside, chain(devices, network, _count(inside))])


def assemble(
    name: str,
    accelerator: str | Accelerator | Sequence[Accelerator],
    devices: Sequence[Node],
    hosts: Integers,
    parts: Sequence[Part[Level]],
) -> Topology:
    """A topology of parts whose edges follow each other; the last part's last level joins all devices."""
    graph: nx.Graph[Node] = nx.Graph()
    graph.add_nodes_from(
        (node, {"device": True, "host": host}) for node, host in zip(devices, hosts.tolist(), strict=True)
    )
    edges = [edge for part in parts for edge in part.edges]
    graph.add_edges_from((tail, head, {"link": link}) for tail, head, link in edges)
    levels = tuple(level for part in parts for level in part.levels)
    router = Hierarchy(Links.of_edges(edges, graph), levels, sealed(hosts))
    return Topology(name, graph, tuple(devices), _chips(accelerator, len(devices)), router)


def _count(parts: Sequence[Part[Level]]) -> int:
    return sum(len(part.edges) for part in parts)


def _chips(accelerator: str | Accelerator | Sequence[Accelerator], devices: int) -> tuple[Accelerator, ...]:
    if isinstance(accelerator, str | Accelerator):
        return (accelerators.build(accelerator),) * devices
    return tuple(accelerator)
