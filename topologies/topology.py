"""A cluster: a graph of devices, switches and links, compiled once to arrays."""

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from topologies.accelerator import Accelerator
from topologies.description import describe
from topologies.hosts import Hosts, edges, hosted
from topologies.link import Edge, Floats, Integers, Link, Links, Node, sealed
from topologies.plugins import unknown
from topologies.routing.hosted import Hosted
from topologies.routing.router import Router, Routes
from topologies.routing.shortest_paths import ShortestPaths

if TYPE_CHECKING:
    import networkx as nx

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Topology:
    """Devices in rank order, joined by the links of a graph.

    `name` is the text that builds it. In `graph`, each edge carries `link=Link`; an undirected edge is two directed
    links of equal data. `devices` are the graph's nodes that are ranks, `accelerators` one data sheet per device.
    Routes go by the `router` where the cluster family has one, else by shortest paths in the graph. `grid` is the shape
    of a torus, whose ranks are numbered in row-major order; empty elsewhere. `warnings` tell of options that change
    nothing. `host` says how devices reach their hosts, for which `with_hosts` adds nodes. Degradations lie beside the
    graph, which never changes: `speed_factors` {rank: factor} and `link_factors` {(from, to): factor}. `cache` keeps
    what is computed from the other fields; no copy or pickle takes it along.
    Two topologies are equal only if they are one object, so that caches can hang on it.

    >>> import topologies
    >>> cluster = topologies.build("dgx_h100", nodes=2)
    >>> cluster
    <Topology dgx_h100,nodes=2: 16 devices, 64 directed links>
    >>> [link.kind for link in cluster.route(0, 8)]
    ['infiniband', 'infiniband']
    """

    name: str
    graph: "nx.Graph[Any]"
    devices: tuple[Node, ...]
    accelerators: tuple[Accelerator, ...]
    router: Router | None = None
    grid: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    speed_factors: Mapping[int, float] = field(default_factory=dict)
    link_factors: Mapping[Edge, float] = field(default_factory=dict)
    host: Hosts = field(default_factory=Hosts)
    cache: dict[Hashable, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.devices:
            raise ValueError(f"{self.name} has no devices; a topology has at least 1")
        if len(self.accelerators) != len(self.devices):
            raise ValueError(f"{self.name}: {len(self.accelerators)} accelerators for {len(self.devices)} devices")
        if len(set(self.devices)) < len(self.devices):
            raise ValueError(f"{self.name}: a node is listed twice among its {len(self.devices)} devices")
        if self.grid and math.prod(self.grid) != len(self.devices):
            raise ValueError(f"{self.name}: a grid of {self.grid} for {len(self.devices)} devices")
        self._check_factors()

    def __repr__(self) -> str:
        return f"<Topology {self.name}: {self.size} devices, {len(self._routing.links)} directed links>"

    def __str__(self) -> str:
        return f"{self.name}: {self.description}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, each.name) for each in dataclasses.fields(self) if each.name != "cache")

    @property
    def size(self) -> int:
        """The number of devices."""
        return len(self.devices)

    @property
    def description(self) -> str:
        """One line: the devices, their nodes and what they are joined by, as built (degradations are in the name).

        >>> import topologies
        >>> topologies.build("dgx_h100", nodes=2).description
        '16 H100-SXM5 in 2 nodes; nvlink 450 GB/s; infiniband 8 × 400 Gb/s a node'
        """
        way = self._routing
        return self.once(
            "description", lambda: describe(self.devices, self.accelerators, way.hosts, way.links, self.grid)
        )

    @property
    def links(self) -> Links:
        """All directed links as arrays, with degraded bandwidths."""
        return self.once("links", self._degraded_links)

    @property
    def speeds(self) -> Floats:
        """Speed of each device relative to its data sheet, [devices]: 1.0 unless degraded."""
        return self.once("speeds", self._degraded_speeds)

    @property
    def hosts(self) -> Integers:
        """The host (scale-up domain) of each device, [devices].

        >>> import topologies
        >>> topologies.build("dgx_h100", nodes=2).hosts.tolist()
        [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
        """
        return self._routing.hosts

    def routes(self, sources: npt.ArrayLike, destinations: npt.ArrayLike) -> Routes:
        """Routes of many pairs of ranks as two arrays (pair, link): every link id on each pair's route, in order.

        `pair` indexes the given arrays and ascends; a rank reaches itself over no links.

        >>> import topologies
        >>> pair, link = topologies.build("flat", ranks=4).routes([0, 2, 3], [1, 2, 0])
        >>> pair.tolist(), link.tolist()
        ([0, 0, 2, 2], [0, 3, 6, 1])
        """
        start, end = self.ranks(sources), self.ranks(destinations)
        if len(start) != len(end):
            raise ValueError(f"{len(start)} sources but {len(end)} destinations; routes go pair by pair")
        return self._routing.routes(start, end)

    def route(self, source: int, destination: int) -> list[Link]:
        """The links from one rank to another, to read; the route's latency is the sum of theirs.

        >>> import topologies
        >>> [link.kind for link in topologies.build("llama3_cluster", gpus=32).route(3, 19)]
        ['roce', 'fabric', 'fabric', 'roce']
        """
        return [self.links[index] for index in self.routes([source], [destination])[1]]

    def with_hosts(self) -> "Topology":
        """The same devices and links, and behind them CPU memory and NVMe drives: nodes `cpu0`, `nvme0` … of each host.

        >>> import topologies
        >>> topologies.build("dgx_h100").with_hosts()
        <Topology dgx_h100,nodes=1: 8 devices, 51 directed links>
        """
        if isinstance(self.router, Hosted):
            return self
        return self.once("with hosts", lambda: hosted(self, self._routing))

    @property
    def bare(self) -> "Topology":
        """The topology that `with_hosts` was asked of, or itself."""
        return self.router.bare if isinstance(self.router, Hosted) else self

    def host_routes(self, ranks: npt.ArrayLike, kind: str, medium: str = "cpu") -> Routes:
        """The links that copies between ranks and their hosts cross, as two arrays like `routes`.

        They are links of `with_hosts()`; none where no way to the host is known. `kind` and `medium` as of a
        `workloads.ops.HostCopy`: `to_host` or `from_host`, with the memory (`cpu`) or the drives (`nvme`) of the host,
        and at the host `load`, `store` and `update`.

        >>> import topologies
        >>> box = topologies.build("pcie_box")
        >>> [box.with_hosts().links.ends[link] for link in box.host_routes([5], 'to_host')[1]]
        [('gpu5', 'pcieswitch1'), ('pcieswitch1', 'bridge0')]
        """
        router = self.with_hosts().router
        assert isinstance(router, Hosted)
        return router.ways(self.ranks(ranks), kind, medium)

    def replace(self, **changes: Any) -> Self:
        """The same topology with some fields changed; another graph or device order is routed anew.

        >>> import topologies
        >>> topologies.build("flat", ranks=2).replace(name="pair")
        <Topology pair: 2 devices, 4 directed links>
        """
        known = [each.name for each in dataclasses.fields(self)]
        for key in changes:
            if key not in known:
                raise ValueError(unknown("field of a topology", key, known))
        if isinstance(self.router, Hosted):
            return cast(Self, self.bare.replace(**changes).with_hosts())
        if {"graph", "devices"} & changes.keys():
            return dataclasses.replace(self, **{"router": None, "grid": (), "cache": {}, **changes})
        paths = {"paths": self.cache["paths"]} if "paths" in self.cache else {}
        return dataclasses.replace(self, **{"cache": paths, **changes})

    def degrade(
        self,
        *,
        rank: int | None = None,
        compute: float | None = None,
        link: Edge | None = None,
        bandwidth: float | None = None,
    ) -> Self:
        """A slower device (`rank=13, compute=0.8`) or a weaker link (`link=("gpu13", "nvswitch1"), bandwidth=0.5`).

        Factors are in (0, 1] and multiply what earlier degradations left. A link is the one direction from its first
        node to its second: degrade (v, u) as well for a cable that is weak both ways. Routes do not change.

        >>> import topologies
        >>> slow = topologies.build("dgx_h100").degrade(rank=3, compute=0.8).degrade(
        ...     link=("gpu3", "nvswitch0"), bandwidth=0.5)
        >>> slow.name
        'dgx_h100,nodes=1 [rank 3 compute 0.8] [gpu3->nvswitch0 bandwidth 0.5]'
        >>> float(slow.speeds[3]), slow.route(3, 0)[0].bandwidth
        (0.8, 225000000000.0)
        """
        pairs = ((rank, compute), (link, bandwidth))
        if any((what is None) != (factor is None) for what, factor in pairs) or (rank is None and link is None):
            raise ValueError("degrade takes rank= with compute=, or link= with bandwidth=, or both pairs")
        name, speeds, links = self.name, dict(self.speed_factors), dict(self.link_factors)
        if rank is not None and compute is not None:
            place = int(self.ranks([rank])[0])
            speeds[place] = speeds.get(place, 1.0) * _factor("compute", compute)
            name += f" [rank {place} compute {compute}]"
        if link is not None and bandwidth is not None:
            edge = self._edge(link)
            links[edge] = links.get(edge, 1.0) * _factor("bandwidth", bandwidth)
            name += f" [{edge[0]}->{edge[1]} bandwidth {bandwidth}]"
        return self.replace(name=name, speed_factors=speeds, link_factors=links)

    @property
    def _routing(self) -> Router:
        if self.router is not None:
            return self.router
        return self.once("paths", lambda: ShortestPaths.of(self.graph, self.devices))

    def once(self, key: str, make: Callable[[], Value]) -> Value:
        """A value that follows from the topology alone, made when first asked for."""
        if key not in self.cache:
            self.cache[key] = make()
        value: Value = self.cache[key]
        return value

    def _degraded_links(self) -> Links:
        links = self._routing.links
        own = [(edge, factor) for edge, factor in self.link_factors.items() if self.graph.has_edge(*edge)]
        return links.scaled(own) if own else links

    def _degraded_speeds(self) -> Floats:
        speeds = np.ones(self.size)
        for rank, factor in self.speed_factors.items():
            speeds[rank] = factor
        return sealed(speeds)

    def ranks(self, ranks: npt.ArrayLike) -> Integers:
        """The same numbers as an array, if all are ranks of this topology."""
        numbers = np.asarray(ranks)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise ValueError(f"ranks are a flat list of whole numbers, not {ranks!r}")
        wrong = numbers[(numbers < 0) | (numbers >= self.size)]
        if wrong.size:
            raise ValueError(f"rank {wrong[0]} is not on {self.name}: its ranks are 0 to {self.size - 1}")
        return numbers.astype(np.int64, copy=False)

    def _check_factors(self) -> None:
        """Degradations are of ranks and edges that are there, each by a factor."""
        self.ranks(list(self.speed_factors))
        for rank, factor in self.speed_factors.items():
            _factor(f"speed_factors[{rank}]", factor)
        for link, factor in self.link_factors.items():
            _factor("link_factors[{}->{}]".format(*self._edge(link)), factor)

    def _edge(self, link: Edge) -> Edge:
        pair = isinstance(link, tuple | list) and len(link) == 2
        if not pair or not (self.graph.has_edge(*link) or tuple(link) in self._host_edges):
            raise ValueError(f"{link!r} is no edge of {self.name}; {self._near_edges(link)}")
        return link[0], link[1]

    @property
    def _host_edges(self) -> Mapping[Edge, Link]:
        """The edges that `with_hosts` adds."""
        return self.once("host edges", lambda: {(tail, head): link for tail, head, link in edges(self.bare)})

    def _near_edges(self, link: Edge) -> str:
        if isinstance(link, tuple | list) and link and link[0] in self.graph:
            near = [*self.graph[link[0]], *(head for tail, head in self._host_edges if tail == link[0])]
            return f"links of {link[0]} lead to {', '.join(map(str, dict.fromkeys(near[:8])))}"
        return f"links lead from a node to its neighbour, such as {self._routing.links.ends[0]!r}"


def _factor(what: str, value: float) -> float:
    if not isinstance(value, Real) or not 0 < value <= 1:
        raise ValueError(f"{what}={value}: a degradation is a factor above 0 and at most 1")
    return value
