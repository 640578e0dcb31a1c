"""Routes in any graph, by shortest paths, found per source when first asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from topologies.link import Floats, Integers, Links, Node, sealed
from topologies.routing.router import NONE, Routes, flat

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShortestPaths:
    """Routes in any graph: fewest links, then least latency, then the neighbour that the graph lists first.

    Assumes one fixed path per pair of devices: equal paths do not share the load.
    Trees of routes are found per source when first asked for, and kept.
    """

    links: Links
    hosts: Integers
    places: Integers
    trees: dict[int, Integers] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: "nx.Graph[Any]", devices: Sequence[Node]) -> Self:
        """Compile a graph whose edges carry `link=Link`; devices of one `host` attribute share a host."""
        order = {node: place for place, node in enumerate(graph)}
        return cls(
            links=Links.of_edges(graph.edges(data="link"), graph, directed=graph.is_directed()),
            hosts=_hosts([graph.nodes[device] for device in devices]),
            places=np.array([order[device] for device in devices], np.int64),
        )

    def routes(self, sources: Integers, destinations: Integers) -> Routes:
        """The links between each pair of devices, walked back from the destinations, all pairs together."""
        unique, tree = np.unique(sources, return_inverse=True)
        into = np.array([self.tree(int(source)) for source in unique])
        start, here = self.places[sources], self.places[destinations]
        columns: list[Integers] = []
        while (moving := here != start).any():
            columns.append(np.where(moving, into[tree, here], NONE))
            here = np.where(moving, self.links.tails[columns[-1]], here)
        return flat(np.stack(columns[::-1], axis=1) if columns else np.empty((len(here), 0), np.int64))

    def tree(self, source: int) -> Integers:
        """For each node the link by which routes from a device enter it; -1 at the device itself."""
        if source not in self.trees:
            into = self._grow(int(self.places[source]))
            lost = np.flatnonzero((into[self.places] < 0) & (self.places != self.places[source]))
            if lost.size:
                raise ValueError(f"no path leads from rank {source} to rank {lost[0]}; every pair needs one")
            self.trees[source] = into
        return self.trees[source]

    def _grow(self, root: int) -> Integers:
        nodes, tails, heads = len(self.links.nodes), self.links.tails, self.links.heads
        into = np.full(nodes, NONE, np.int64)
        latency = np.full(nodes, np.inf)
        hops = np.full(nodes, -1, np.int64)
        latency[root], hops[root] = 0.0, 0
        for hop in range(nodes):
            rim = np.flatnonzero((hops[tails] == hop) & (hops[heads] < 0))
            if not len(rim):
                break
            best = self._best(rim, latency)
            reached = heads[best]
            into[reached], hops[reached] = best, hop + 1
            latency[reached] = latency[tails[best]] + self.links.latency[best]
        return into

    def _best(self, rim: Integers, latency: Floats) -> Integers:
        """Of the links that reach new nodes, one per node: least latency, then the earliest tail."""
        tails, heads = self.links.tails[rim], self.links.heads[rim]
        ordered = rim[np.lexsort((tails, latency[tails] + self.links.latency[rim], heads))]
        return ordered[np.unique(self.links.heads[ordered], return_index=True)[1]]


def _hosts(attributes: Sequence[Mapping[str, Any]]) -> Integers:
    """Number the hosts in order of appearance; a device without the attribute is a host of its own."""
    keys = [("host", each["host"]) if "host" in each else ("alone", rank) for rank, each in enumerate(attributes)]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return sealed(np.array([numbers[key] for key in keys], np.int64))
