"""Exact symmetry folding: the coarsest equitable partition of ranks, communicators and links.

Ranks with equal futures get one class; the simulator replays one of each. Colour refinement: nodes start
with a colour, and are split by the multiset of (neighbour's colour, code of the edge) until nothing
splits. Hashes only propose the partition; `refine` checks it exactly before it is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.demand import Ints

Hashes = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(values: npt.NDArray[np.generic]) -> Hashes:
    """A 64-bit hash of every element (the finaliser of splitmix64); floats count by their bits."""
    hashed = values.view(np.uint64) if values.dtype == np.float64 else values.astype(np.uint64)
    hashed = hashed + _GOLDEN
    hashed = (hashed ^ (hashed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashed = (hashed ^ (hashed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashed ^ (hashed >> np.uint64(31))


def blend(*columns: npt.NDArray[np.generic]) -> Hashes:
    """One hash per row of several columns, in order."""
    hashed = mix(columns[0])
    for column in columns[1:]:
        hashed = mix(hashed * np.uint64(3) + mix(column))
    return hashed


def dense(hashed: npt.NDArray[np.generic]) -> Ints:
    """Colours 0, 1, 2 … for distinct values."""
    colours: Ints = np.unique(hashed, return_inverse=True)[1].astype(np.int64)
    return colours


def _by_first_member(colours: Ints) -> tuple[Ints, Ints]:
    """Classes numbered in the order of their smallest members, and those members."""
    _, first, inverse = np.unique(colours, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number[inverse], first[order]


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Edges between two kinds of nodes: rows (left, right, code)."""

    left: Ints
    right: Ints
    code: npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """The class of every rank, communicator and link, and the smallest member of each class."""

    ranks: Ints
    communicators: Ints
    links: Ints
    rank_representatives: Ints
    communicator_representatives: Ints
    link_representatives: Ints

    @classmethod
    def of(cls, ranks: Ints, communicators: Ints, links: Ints) -> "Partition":
        """The partition with these classes, numbered anew by their smallest members."""
        numbered = [_by_first_member(each) for each in (ranks, communicators, links)]
        return cls(*(classes for classes, _ in numbered), *(firsts for _, firsts in numbered))

    @classmethod
    def trivial(cls, ranks: int, communicators: int, links: int) -> "Partition":
        """Every node in a class of its own: the unfolded system."""
        return cls.of(np.arange(ranks), np.arange(communicators), np.arange(links))


def refine(ranks: Hashes, communicators: Hashes, links: Hashes, members: Edges, crossings: Edges) -> Partition:
    """The coarsest equitable partition that respects the start colours.

    `members` joins communicators (left) to ranks (right), with slot and role as code; `crossings` joins
    communicators (left) to links (right), with op, phase and weight as code.
    """
    colours = [dense(ranks), dense(communicators), dense(links)]
    to_rank, to_link = _Side.of(members, len(communicators)), _Side.of(crossings, len(communicators))
    of_rank, of_link = _Side.reverse(members, len(ranks)), _Side.reverse(crossings, len(links))
    counts: tuple[int, ...] = ()
    while counts != (counts := tuple(int(each.max(initial=-1)) for each in colours)):
        signature = to_rank.signature(colours[0]), to_link.signature(colours[2])
        colours[1] = dense(blend(colours[1], *signature))
        colours[0] = dense(blend(colours[0], of_rank.signature(colours[1])))
        colours[2] = dense(blend(colours[2], of_link.signature(colours[1])))
    partition = Partition.of(*colours)
    ranked = _Classes(partition.ranks, partition.rank_representatives, ranks)
    joined = _Classes(partition.communicators, partition.communicator_representatives, communicators)
    linked = _Classes(partition.links, partition.link_representatives, links)
    sides = ((to_rank, joined, ranked), (to_link, joined, linked), (of_rank, ranked, joined), (of_link, linked, joined))
    respected = all((each.start[each.representative[each.of]] == each.start).all() for each in (ranked, joined, linked))
    if not respected or not all(side.equitable(own.of, own.representative, other.of) for side, own, other in sides):
        raise ArithmeticError("two different colours hashed to one value; the proposed folding is not exact")
    return partition


class _Classes(NamedTuple):
    """The classes of one kind of node, their representatives, and the start colours."""

    of: Ints
    representative: Ints
    start: Hashes


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Edges seen from one kind of node, sorted by it."""

    node: Ints
    neighbour: Ints
    code: npt.NDArray[np.generic]
    hashed: Hashes
    start: Ints
    degree: Ints

    @classmethod
    def of(cls, edges: Edges, nodes: int) -> "_Side":
        order = np.argsort(edges.left, kind="stable")
        degree = np.bincount(edges.left, minlength=nodes)
        start = np.concatenate(([0], np.cumsum(degree)[:-1])) if nodes else degree
        code = edges.code[order]
        return cls(edges.left[order], edges.right[order], code, mix(code), start.astype(np.int64), degree)

    @classmethod
    def reverse(cls, edges: Edges, nodes: int) -> "_Side":
        return cls.of(Edges(edges.right, edges.left, edges.code), nodes)

    def signature(self, colours: Ints) -> Hashes:
        """Per node the hash of its multiset of (neighbour's colour, code): a sum, so order is nothing."""
        signature = np.zeros(len(self.degree), np.uint64)
        if len(self.node):
            rows = mix(mix(colours)[self.neighbour] * np.uint64(3) + self.hashed)
            used = self.degree > 0
            signature[used] = np.add.reduceat(rows, self.start[used])
        return signature

    def equitable(self, own: Ints, representative: Ints, colours: Ints) -> bool:
        """Whether every node's sorted rows equal those of its class's representative."""
        like = representative[own]
        if not (self.degree == self.degree[like]).all():
            return False
        colour = colours[self.neighbour]
        order = np.lexsort((self.code, colour, self.node))
        colour, code = colour[order], self.code[order]
        row = np.arange(len(order)) - self.start[self.node] + self.start[like[self.node]]
        return bool((colour == colour[row]).all() and (code == code[row]).all())


def code(columns: Sequence[npt.NDArray[np.generic]]) -> Ints:
    """Exact dense codes of rows: equal rows, and only they, get equal codes."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values = dense(column)
        codes = dense(codes * (int(values.max(initial=0)) + 1) + values)
    return codes
