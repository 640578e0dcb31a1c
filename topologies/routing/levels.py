"""Routes level by level: the lowest level that joins two devices carries their traffic."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from topologies.link import Booleans, Integers, Links, sealed
from topologies.routing.planes import planes
from topologies.routing.router import Routes, flat, stacked


class Level(Protocol):
    """One way to join devices: a switch above them, a mesh of links between them, or the like."""

    def joins(self, sources: Integers, destinations: Integers) -> Booleans:
        """Which pairs this level joins."""
        ...

    def hops(self, sources: Integers, destinations: Integers) -> Integers:
        """A table of the links between pairs that it joins."""
        ...


def _one_plane() -> Integers:
    return np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SwitchLevel:
    """Devices below switches: device d hangs below `switch[d]`, over the links `up[d]`, and back over `down[d]`.

    `switch` has shape [devices], `up` and `down` [devices, links on the way]; both list links in the order in
    which a message crosses them. Of several parallel planes of switches they name the first; a link's counterpart
    in the next plane has an id larger by `step` [links on the way], and each pair of devices is hashed on one
    plane, with the `seed`.
    """

    switch: Integers
    up: Integers
    down: Integers
    planes: int = 1
    step: Integers = field(default_factory=_one_plane)
    seed: int = 0

    def __post_init__(self) -> None:
        for array in (self.switch, self.up, self.down, self.step):
            sealed(array)

    def joins(self, sources: Integers, destinations: Integers) -> Booleans:
        """Pairs below the same switch."""
        return np.equal(self.switch[sources], self.switch[destinations])

    def hops(self, sources: Integers, destinations: Integers) -> Integers:
        """Up to the switch and down from it."""
        up, down = self.up[sources], self.down[destinations]
        if self.planes > 1:
            plane = planes(sources, destinations, self.planes, self.seed)[:, None]
            up, down = up + plane * self.step, down + plane * self.step[::-1]
        return np.hstack([up, down])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MeshLevel:
    """Members of meshes with a link between every two: member d of mesh `mesh[d]` is number `place[d]` of `size[d]`.

    The pairs (low, high) of one mesh are edges `first[d]` onwards, in order of low, then high.

    >>> level = MeshLevel(np.zeros(3, int), np.arange(3), np.full(3, 3), np.zeros(3, int))
    >>> level.hops(np.array([0, 2, 1]), np.array([1, 0, 2])).ravel().tolist()
    [0, 3, 4]
    """

    mesh: Integers
    place: Integers
    size: Integers
    first: Integers

    def joins(self, sources: Integers, destinations: Integers) -> Booleans:
        """Pairs in the same mesh."""
        return np.equal(self.mesh[sources], self.mesh[destinations])

    def hops(self, sources: Integers, destinations: Integers) -> Integers:
        """The one direct link."""
        start, end = self.place[sources], self.place[destinations]
        low, high = np.minimum(start, end), np.maximum(start, end)
        before = low * self.size[sources] - low * (low + 1) // 2
        edge = self.first[sources] + before + high - low - 1
        return np.asarray(2 * edge + (start > end))[:, None]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Hierarchy:
    """Levels, lowest first, of which the last joins all devices; `hosts` [devices] are the scale-up domains."""

    links: Links
    levels: tuple[Level, ...]
    hosts: Integers

    def routes(self, sources: Integers, destinations: Integers) -> Routes:
        """The links between each pair of devices; whole arrays at once, no search in the graph."""
        return flat(self.table(sources, destinations))

    def table(self, sources: Integers, destinations: Integers) -> Integers:
        """The same as a table."""
        rows, parts = np.flatnonzero(sources != destinations), []
        for level in self.levels:
            joined = level.joins(sources[rows], destinations[rows])
            here, rows = rows[joined], rows[~joined]
            parts.append((here, level.hops(sources[here], destinations[here])))
        return stacked(len(sources), parts)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ByRail:
    """A hierarchy of rails in which messages change the rail inside the source's node, before they leave it.

    `rail` [devices] are the rails, `node` [devices] the nodes and `relay` [nodes, rails] the device of each rail in a
    node. Source: NCCL's PXN, "Doubling all2all performance with NCCL 2.12" (NVIDIA, 2022).
    """

    hierarchy: Hierarchy
    node: Integers
    rail: Integers
    relay: Integers

    @property
    def links(self) -> Links:
        """The hierarchy's links."""
        return self.hierarchy.links

    @property
    def hosts(self) -> Integers:
        """The hierarchy's hosts."""
        return self.hierarchy.hosts

    def routes(self, sources: Integers, destinations: Integers) -> Routes:
        """By the source's scale-up links to the device of the destination's rail, then by that device's card."""
        away = (self.node[sources] != self.node[destinations]) & (self.rail[sources] != self.rail[destinations])
        leaving = np.where(away, self.relay[self.node[sources], self.rail[destinations]], sources)
        inside, outside = self.hierarchy.table(sources, leaving), self.hierarchy.table(leaving, destinations)
        return flat(np.hstack([inside, outside]))
