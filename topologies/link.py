"""Links: what lies between two neighbouring nodes of a cluster, and all of a cluster's links as arrays."""

import dataclasses
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import chain
from numbers import Real
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from topologies.units import MICRO

Node = Hashable
Edge = tuple[Node, Node]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Array = TypeVar("Array", bound=npt.NDArray[Any])

# Latency of one passage, in seconds, within the ranges of data sheets and microbenchmarks: NVSwitch 0.3-0.9 µs,
# PCIe 0.5-1, network card about 1, InfiniBand switch 0.2-0.3, Ethernet switch 0.6-1.
# Assumes a switch's latency is shared evenly by the link in and the link out, and cables are short (fibre: 5 µs/km).
NVSWITCH_LATENCY = 0.6 * MICRO
PCIE_LATENCY = 0.5 * MICRO
CARD_LATENCY = 1.0 * MICRO
INFINIBAND_SWITCH_LATENCY = 0.25 * MICRO
ETHERNET_SWITCH_LATENCY = 0.8 * MICRO


SLOWEST = 1.0
"""Bytes/s below which a link is none."""
LONGEST = 1e6
"""Seconds above which a latency is absurd."""


@dataclass(frozen=True, slots=True)
class Link:
    """One direction between two nodes: bandwidth in bytes/s (infinite for a free link), latency in seconds.

    `kind` names the technology: nvlink, xgmi, pcie, ici, neuronlink; c2c, nvme and dram at hosts; a transport from a
    card to its first switch (infiniband, omnipath, roce, efa, tcpx, tcpxo, slingshot, ethernet); fabric (switch to
    switch); port (of an ideal switch).

    >>> Link("nvlink", bandwidth=450e9, latency=0.3e-6).bandwidth
    450000000000.0
    """

    kind: str
    bandwidth: float
    latency: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.bandwidth, Real) or not self.bandwidth >= SLOWEST:
            raise ValueError(
                f"link of kind {self.kind!r} with bandwidth={self.bandwidth}: bytes/s must be at least {SLOWEST:g}"
            )
        if not isinstance(self.latency, Real) or not 0 <= self.latency <= LONGEST:
            raise ValueError(
                f"link of kind {self.kind!r} with latency={self.latency}: seconds must be between 0 and {LONGEST:g}"
            )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Links:
    """All directed links of a topology; a link's id is its place in these read-only arrays.

    `bandwidth` [L] in bytes/s, `latency` [L] in seconds, `codes` [L] into the names `kinds`, `ends` [L] the nodes
    (from, to) in the graph, `tails` and `heads` [L] the same two nodes as their places in `nodes`, the graph's order.

    >>> links = Links.of_edges([("a", "b", Link("port", 1e9)), ("b", "c", Link("port", 2e9))])
    >>> links.ends
    (('a', 'b'), ('b', 'a'), ('b', 'c'), ('c', 'b'))
    >>> links.nodes, links.heads.tolist()
    (('a', 'b', 'c'), [1, 0, 2, 1])
    >>> links[3]
    Link(kind='port', bandwidth=2000000000.0, latency=0.0)
    """

    bandwidth: Floats
    latency: Floats
    codes: Integers
    kinds: tuple[str, ...]
    ends: tuple[Edge, ...]
    nodes: tuple[Node, ...]
    tails: Integers
    heads: Integers

    def __post_init__(self) -> None:
        for array in (self.bandwidth, self.latency, self.codes, self.tails, self.heads):
            sealed(array)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Link:
        return Link(self.kinds[self.codes[index]], float(self.bandwidth[index]), float(self.latency[index]))

    def __repr__(self) -> str:
        return f"<{len(self)} directed links: {', '.join(self.kinds)}>"

    @classmethod
    def of_edges(
        cls, edges: Iterable[tuple[Node, Node, Link]], nodes: Iterable[Node] = (), *, directed: bool = False
    ) -> Self:
        """Compile edges to arrays: edge j is link j, or if undirected links 2j (as given) and 2j + 1 (back).

        `nodes` come first in the order of nodes; those of the edges that it lacks follow as they appear.
        """
        edges = list(edges)
        ways = 1 if directed else 2
        codes = {kind: code for code, kind in enumerate(dict.fromkeys(link.kind for _, _, link in edges))}
        ends = [end for u, v, _ in edges for end in ((u, v), (v, u))[:ways]]
        order = {node: place for place, node in enumerate(dict.fromkeys(chain(nodes, chain.from_iterable(ends))))}
        places = np.array([(order[tail], order[head]) for tail, head in ends], np.int64).reshape(-1, 2)
        return cls(
            bandwidth=np.repeat(np.array([link.bandwidth for *_, link in edges], float), ways),
            latency=np.repeat(np.array([link.latency for *_, link in edges], float), ways),
            codes=np.repeat(np.array([codes[link.kind] for *_, link in edges], np.int64), ways),
            kinds=tuple(codes),
            ends=tuple(ends),
            nodes=tuple(order),
            tails=places[:, 0].copy(),
            heads=places[:, 1].copy(),
        )

    def joined(self, edges: Iterable[tuple[Node, Node, Link]]) -> Self:
        """These links, and behind them others of one direction each."""
        more = type(self).of_edges(edges, self.nodes, directed=True)
        kinds = tuple(dict.fromkeys((*self.kinds, *more.kinds)))
        codes = np.array([kinds.index(kind) for kind in more.kinds], np.int64)[more.codes]
        return dataclasses.replace(
            more,
            bandwidth=np.concatenate([self.bandwidth, more.bandwidth]),
            latency=np.concatenate([self.latency, more.latency]),
            codes=np.concatenate([self.codes, codes]),
            kinds=kinds,
            ends=self.ends + more.ends,
            tails=np.concatenate([self.tails, more.tails]),
            heads=np.concatenate([self.heads, more.heads]),
        )

    def scaled(self, factors: Iterable[tuple[Edge, float]]) -> Self:
        """The same links, some with their bandwidth multiplied by a factor."""
        bandwidth, places = self.bandwidth.copy(), {end: place for place, end in enumerate(self.ends)}
        for end, factor in factors:
            bandwidth[places[end]] *= factor
        return dataclasses.replace(self, bandwidth=bandwidth)


def sealed(array: Array) -> Array:
    """The array itself, read-only from now on."""
    array.setflags(write=False)
    return array
