"""Routes in a torus: one dimension after the other, the shorter way round its ring, by arithmetic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from topologies.link import Booleans, Integers, Link, Links, Node, sealed
from topologies.routing.router import NONE, Routes, flat

Edges = list[tuple[Node, Node, Link]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Torus:
    """Chips in row-major order of a grid `shape`, joined to their neighbours in rings.

    `upward` and `downward` [dimensions, chips] are the links by which a chip reaches the next and the previous one in
    a dimension, -1 where that has one chip. Both are the same link where it has two. `hosts` is one scale-up domain.
    Routes go by the first dimension first; with two equally short ways round a ring, every other chip takes the upward
    one, so that both carry alike.
    """

    links: Links
    hosts: Integers
    shape: tuple[int, ...]
    upward: Integers
    downward: Integers

    @classmethod
    def of(cls, shape: tuple[int, ...], devices: Sequence[Node], wires: Sequence[Link | None]) -> tuple[Self, Edges]:
        """The router and the edges of a torus with one wire per dimension; where it is None, chips are not joined.

        >>> torus, edges = Torus.of((2, 3), "abcdef", [Link("ici", 1e9)] * 2)
        >>> len(edges), [torus.links.ends[link] for link in torus.routes(np.array([0]), np.array([5]))[1]]
        (9, [('a', 'd'), ('d', 'f')])
        """
        ranks = np.arange(len(devices)).reshape(shape)
        edges: Edges = []
        upward, downward = np.full((2, len(shape), len(devices)), NONE, np.int64)
        for dimension, (size, wire) in enumerate(zip(shape, wires, strict=True)):
            if size == 1 or wire is None:
                continue
            tails = (ranks if size > 2 else np.take(ranks, [0], dimension)).ravel()
            heads = np.roll(ranks, -1, dimension).ravel()[tails]
            ids = 2 * (len(edges) + np.arange(len(tails)))
            upward[dimension, tails], downward[dimension, heads] = ids, ids + 1
            if size == 2:
                upward[dimension, heads], downward[dimension, tails] = ids + 1, ids
            edges += (
                (devices[tail], devices[head], wire) for tail, head in zip(tails.tolist(), heads.tolist(), strict=True)
            )
        hosts = sealed(np.zeros(len(devices), np.int64))
        return cls(Links.of_edges(edges, devices), hosts, shape, sealed(upward), sealed(downward)), edges

    def routes(self, sources: Integers, destinations: Integers) -> Routes:
        """The links between each pair of chips, all pairs a step at a time."""
        return flat(self.table(sources, destinations))

    def table(self, sources: Integers, destinations: Integers) -> Integers:
        """The same as a table."""
        columns = list(self._steps(sources, destinations))
        return np.stack(columns, axis=1) if columns else np.empty((len(sources), 0), np.int64)

    def _steps(self, sources: Integers, destinations: Integers) -> Iterator[Integers]:
        here, odd = sources, np.sum(np.unravel_index(sources, self.shape), axis=0) % 2
        strides = np.append(np.cumprod(self.shape[:0:-1])[::-1], 1).astype(np.int64)
        for dimension, (size, stride) in enumerate(zip(self.shape, strides.tolist(), strict=True)):
            if (self.upward[dimension] == NONE).all():
                continue
            place = here // stride % size
            ahead = (destinations // stride % size - place) % size
            up = (2 * ahead < size) | ((2 * ahead == size) & (odd == 0))
            left = np.where(up, ahead, size - ahead)
            turn = np.where(up, 1, -1)
            for step in range(size // 2):
                moving = step < left
                ways = np.where(up, self.upward[dimension, here], self.downward[dimension, here])
                yield np.where(moving, ways, NONE)
                following = np.where(moving, (place + turn) % size, place)
                here, place = here + (following - place) * stride, following


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SliceLevel:
    """Slices of chips, each of them a torus: chip d is in `slice[d]`; the first dimension of `torus` joins nothing."""

    torus: Torus
    slice: Integers

    def joins(self, sources: Integers, destinations: Integers) -> Booleans:
        """Pairs in one slice."""
        return np.equal(self.slice[sources], self.slice[destinations])

    def hops(self, sources: Integers, destinations: Integers) -> Integers:
        """The links between them, padded with -1."""
        return self.torus.table(sources, destinations)
