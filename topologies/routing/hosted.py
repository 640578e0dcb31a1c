"""Ways between devices and their hosts, behind the routes that a topology has without hosts."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from topologies.link import Edge, Integers, Links, Node, sealed
from topologies.routing.router import NONE, Router, Routes, flat

if TYPE_CHECKING:
    import networkx as nx

    from topologies.topology import Topology

Ways = list[list[Edge]]
"""For each of some nodes the edges to another, in the order in which a copy crosses them; empty if none are known."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Hosted:
    """The router of a topology with hosts: that of the `bare` topology, whose links come first, and ways to hosts.

    Tables have a row for each device, padded with -1: the links `out` to its host's memory and `back` from it, those
    from there on to the drives, `write`, and back, `read`, and the one that stands for the `memory` itself.
    """

    bare: "Topology"
    router: Router
    links: Links
    out: Integers
    back: Integers
    write: Integers
    read: Integers
    memory: Integers

    @classmethod
    def of(cls, bare: "Topology", router: Router, links: Links, ways: Iterable[Ways]) -> Self:
        """The router with all links, given the ways of every device: out, back, write, read, memory."""
        place = {end: link for link, end in enumerate(links.ends)}
        return cls(bare, router, links, *(_table([[place[edge] for edge in way] for way in each]) for each in ways))

    @property
    def hosts(self) -> Integers:
        """The scale-up domain of each device, as without hosts."""
        return self.router.hosts

    def routes(self, sources: Integers, destinations: Integers) -> Routes:
        """The links between each pair of devices, as without hosts."""
        return self.router.routes(sources, destinations)

    def ways(self, ranks: Integers, kind: str, medium: str) -> Routes:
        """The links that copies of a kind cross for ranks."""
        tables = {
            ("to_host", "cpu"): [self.out],
            ("from_host", "cpu"): [self.back],
            ("to_host", "nvme"): [self.out, self.write],
            ("from_host", "nvme"): [self.read, self.back],
            ("load", "nvme"): [self.read],
            ("store", "nvme"): [self.write],
            ("update", "cpu"): [self.memory],
        }
        return flat(np.hstack([table[ranks] for table in tables[kind, medium]]))


def to_nearest(
    graph: "nx.Graph[Any]", roots: Sequence[Node], nodes: Sequence[Node]
) -> tuple[list[list[Edge]], list[list[Edge]]]:
    """Ways of nodes to the nearest of some roots, and from it; both empty where either is missing.

    >>> import networkx as nx
    >>> to_nearest(nx.path_graph(4), [0], [2, 0])
    ([[(2, 1), (1, 0)], []], [[(0, 1), (1, 2)], []])
    """
    if not roots:
        return [[] for _ in nodes], [[] for _ in nodes]
    directed = graph.is_directed()
    onwards = _grow(roots, graph.pred if directed else graph.adj)  # type: ignore[attr-defined]
    backwards = _grow(roots, graph.succ if directed else graph.adj)  # type: ignore[attr-defined]
    out = [_walk(node, onwards) for node in nodes]
    back = [[(head, tail) for tail, head in reversed(_walk(node, backwards))] for node in nodes]
    known = [bool(way and other) for way, other in zip(out, back, strict=True)]
    out, back = ([way if both else [] for way, both in zip(each, known, strict=True)] for each in (out, back))
    return out, back


def _grow(roots: Sequence[Node], neighbours: Mapping[Node, Iterable[Node]]) -> dict[Node, Node]:
    """For every node that is reached from the roots, its next node towards the nearest of them."""
    toward, queue = dict(zip(roots, roots, strict=True)), deque(roots)
    while queue:
        node = queue.popleft()
        for other in neighbours[node]:
            if other not in toward:
                toward[other] = node
                queue.append(other)
    return toward


def _walk(node: Node, toward: Mapping[Node, Node]) -> list[Edge]:
    way: list[Edge] = []
    while node in toward and toward[node] != node:
        way.append((node, toward[node]))
        node = toward[node]
    return way


def _table(ways: Sequence[Sequence[int]]) -> Integers:
    """Ways of different lengths as a table, padded with -1."""
    table = np.full((len(ways), max(map(len, ways), default=0)), NONE, np.int64)
    for row, way in enumerate(ways):
        table[row, : len(way)] = way
    return sealed(table)
