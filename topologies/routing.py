"""Which directed links lie between two devices: level by level in a hierarchy, by shortest paths elsewhere.

Routes come as two arrays (pair, link): for each pair of devices, in order, every link id on its route, in route
order. A device reaches itself over no links.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from topologies.link import Floats, Integers, Links, Node, sealed

if TYPE_CHECKING:
    import networkx as nx

Routes = tuple[Integers, Integers]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Level:
    """One level of switches: device d hangs below `switch[d]`, over the links `up[d]`, and back over `down[d]`.

    `switch` has shape [devices], `up` and `down` [devices, links on the way]; both list links in the order in
    which a message crosses them.
    """

    switch: Integers
    up: Integers
    down: Integers

    def __post_init__(self) -> None:
        for array in (self.switch, self.up, self.down):
            sealed(array)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Hierarchy:
    """Levels of switches, lowest first: the lowest level at which two devices share a switch carries their traffic.

    `hosts` [devices] says which scale-up domain a device is in.
    """

    links: Links
    levels: tuple[Level, ...]
    hosts: Integers

    def routes(self, sources: Integers, destinations: Integers) -> Routes:
        """The links between each pair of devices; whole arrays at once, no search in the graph."""
        depth = max(level.up.shape[1] for level in self.levels)
        table = np.full((len(sources), 2 * depth), -1, np.int64)
        rows = np.flatnonzero(sources != destinations)
        for level in self.levels:
            shared = level.switch[sources[rows]] == level.switch[destinations[rows]]
            here, rows = rows[shared], rows[~shared]
            hops = np.hstack([level.up[sources[here]], level.down[destinations[here]]])
            table[here, : hops.shape[1]] = hops
        return _flatten(table)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShortestPaths:
    """Routes in any graph: fewest links, then least latency, then the neighbour that the graph lists first.

    Assumes one fixed path per pair of devices: equal paths do not share the load.
    Trees of routes are found per source when first asked for, and kept.
    """

    links: Links
    hosts: Integers
    places: Integers
    tails: Integers
    heads: Integers
    nodes: int
    trees: dict[int, Integers] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: "nx.Graph[Any]", devices: Sequence[Node]) -> Self:
        """Compile a graph whose edges carry `link=Link`; devices of one `host` attribute share a host."""
        links = Links.of_edges(graph.edges(data="link"), directed=graph.is_directed())
        order = {node: place for place, node in enumerate(graph)}
        return cls(
            links=links,
            hosts=_hosts([graph.nodes[device] for device in devices]),
            places=np.array([order[device] for device in devices], np.int64),
            tails=np.array([order[source] for source, _ in links.ends], np.int64),
            heads=np.array([order[destination] for _, destination in links.ends], np.int64),
            nodes=len(order),
        )

    def routes(self, sources: Integers, destinations: Integers) -> Routes:
        """The links between each pair of devices, walked back from the destinations, all pairs together."""
        unique, tree = np.unique(sources, return_inverse=True)
        into = np.stack([self.tree(int(source)) for source in unique]) if len(unique) else np.empty((0, self.nodes))
        start, here = self.places[sources], self.places[destinations]
        columns: list[Integers] = []
        while (moving := here != start).any():
            columns.append(np.where(moving, into[tree, here], -1))
            here = np.where(moving, self.tails[columns[-1]], here)
        return _flatten(np.stack(columns[::-1], axis=1) if columns else np.empty((len(here), 0), np.int64))

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
        into = np.full(self.nodes, -1, np.int64)
        latency = np.full(self.nodes, np.inf)
        hops = np.full(self.nodes, -1, np.int64)
        latency[root], hops[root] = 0.0, 0
        for hop in range(self.nodes):
            rim = np.flatnonzero((hops[self.tails] == hop) & (hops[self.heads] < 0))
            if not len(rim):
                break
            best = self._best(rim, latency)
            heads = self.heads[best]
            into[heads], hops[heads] = best, hop + 1
            latency[heads] = latency[self.tails[best]] + self.links.latency[best]
        return into

    def _best(self, rim: Integers, latency: Floats) -> Integers:
        """Of the links that reach new nodes, one per node: least latency, then the earliest tail."""
        tails, heads = self.tails[rim], self.heads[rim]
        ordered = rim[np.lexsort((tails, latency[tails] + self.links.latency[rim], heads))]
        return ordered[np.unique(self.heads[ordered], return_index=True)[1]]


def _flatten(table: Integers) -> Routes:
    """Rows of link ids, padded with -1, as (row, id) of the entries that are there."""
    rows, columns = np.nonzero(table >= 0)
    return rows, table[rows, columns]


def _hosts(attributes: Sequence[Mapping[str, Any]]) -> Integers:
    """Number the hosts in order of appearance; a device without the attribute is a host of its own."""
    keys = [("host", each["host"]) if "host" in each else ("alone", rank) for rank, each in enumerate(attributes)]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return sealed(np.array([numbers[key] for key in keys], np.int64))
