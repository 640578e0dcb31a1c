"""Clusters of servers below tiers of switches: one builder for all families, link ids by arithmetic."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import networkx as nx
import numpy as np

from topologies import accelerators
from topologies.accelerator import Accelerator
from topologies.link import Integers, Link, Links, sealed
from topologies.routing import Hierarchy, Level
from topologies.topology import Topology

MAXIMUM_DEVICES = 2**20


@dataclass(frozen=True, slots=True)
class Tier:
    """Equal switches, each above `devices` devices, and the links from what is below up to them.

    `bandwidth` is in bytes/s each way *per device below the link*, so that a partly filled rack or pod keeps its
    uplinks in proportion; oversubscription r leaves 1/r of the devices' sum.
    """

    switch: str
    devices: int
    kind: str
    bandwidth: float
    latency: float
    oversubscription: float = 1.0

    def __post_init__(self) -> None:
        Link(self.kind, self.bandwidth, self.latency)  # fails where a link would

    def uplink(self, devices: int) -> Link:
        """The link up from a unit of so many devices."""
        return Link(self.kind, devices * self.bandwidth / self.oversubscription, self.latency)


@dataclass(frozen=True, slots=True)
class _Wires:
    """The edges from the units of one tier to the switches above them; unit u holds `span` devices."""

    first: int
    span: int
    tier: Tier
    edges: tuple[tuple[str, str, Link], ...]

    def up(self, ranks: Integers) -> Integers:
        """Id of the link up that a device uses; the one down is the next."""
        return 2 * (self.first + ranks // self.span)


def cluster(
    name: str, devices: int, accelerator: str | Accelerator, network: Sequence[Tier], scale_up: Tier | None = None
) -> Topology:
    """Servers of accelerators with a network card each, below tiers of switches.

    `network` lists the tiers that join servers, from the network cards up; the last one joins everything. `scale_up`
    is the switch inside a server: traffic within a server uses it alone, traffic between servers never does.
    Without it each device is its own host. Devices are nodes `gpu0` …, switches the tier's name and a number.

    >>> leaf, spine = Tier("leaf", 2, "port", 1e9, 0.0), Tier("spine", 6, "fabric", 1e9, 0.0, oversubscription=2)
    >>> [(link.kind, link.bandwidth) for link in cluster("toy", 6, "ideal", [leaf, spine]).route(0, 5)]
    [('port', 1000000000.0), ('fabric', 1000000000.0), ('fabric', 1000000000.0), ('port', 1000000000.0)]
    """
    chip = accelerators.build(accelerator)
    gpus = tuple(f"gpu{rank}" for rank in range(devices))
    ranks = np.arange(devices)
    hosts = sealed(ranks // scale_up.devices if scale_up else ranks)
    inside = list(_wire(gpus, [scale_up], 0)) if scale_up else []
    outside = list(_wire(gpus, network, sum(len(wires.edges) for wires in inside)))
    wires = [*inside, *outside]
    levels = [*_levels(inside, ranks), *_levels(outside, ranks)]
    links = Links.of_edges(edge for each in wires for edge in each.edges)
    return Topology(name, _graph(gpus, hosts, wires), gpus, (chip,) * devices, Hierarchy(links, tuple(levels), hosts))


def _wire(gpus: Sequence[str], tiers: Sequence[Tier], first: int) -> Iterator[_Wires]:
    """Join devices to the first tier's switches, those to the second's, and so on."""
    below, span = gpus, 1
    for tier in tiers:
        switches = [f"{tier.switch}{number}" for number in range(math.ceil(len(gpus) / tier.devices))]
        links = [tier.uplink(span)] * (len(below) - 1) + [tier.uplink(len(gpus) - span * (len(below) - 1))]
        fan = tier.devices // span
        ends = ((unit, switches[place // fan]) for place, unit in enumerate(below))
        edges = tuple((unit, switch, link) for (unit, switch), link in zip(ends, links, strict=True))
        yield _Wires(first, span, tier, edges)
        first, below, span = first + len(edges), switches, tier.devices


def _levels(wires: Sequence[_Wires], ranks: Integers) -> Iterator[Level]:
    """Where each device's way up ends, and by which links, for each tier of a chain."""
    ups = [each.up(ranks) for each in wires]
    for depth, each in enumerate(wires, start=1):
        up = np.stack(ups[:depth], axis=1)
        yield Level(ranks // each.tier.devices, up, up[:, ::-1] + 1)


def _graph(gpus: Sequence[str], hosts: Integers, wires: Sequence[_Wires]) -> "nx.Graph[str]":
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from((gpu, {"device": True, "host": host}) for gpu, host in zip(gpus, hosts.tolist(), strict=True))
    graph.add_edges_from((unit, switch, {"link": link}) for each in wires for unit, switch, link in each.edges)
    return graph


def check_size(option: str, value: int, limit: int, multiple: int = 1) -> int:
    """A size given by the user, if it is a whole multiple up to the limit.

    >>> check_size("gpus", 12, limit=2**20, multiple=8)
    Traceback (most recent call last):
    ValueError: gpus=12 is not a multiple of 8 from 8 to 1048576; nearest: 8, 16
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if whole and 0 < value <= limit and value % multiple == 0:
        return int(value)
    rule = f"a multiple of {multiple}" if multiple > 1 else "a whole number"
    near = f"; nearest: {_nearest(value, limit, multiple)}" if isinstance(value, Real) and math.isfinite(value) else ""
    raise ValueError(f"{option}={value} is not {rule} from {multiple} to {limit}{near}")


def _nearest(value: float, limit: int, multiple: int) -> str:
    steps = (math.floor(value / multiple), math.ceil(value / multiple))
    top = limit // multiple
    return ", ".join(map(str, sorted({multiple * min(max(step, 1), top) for step in steps})))
