"""How the members of groups lie over the hosts of a topology, and the rings and trees that follow from it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.collectives._messages import Messages
from simulator.demand import Ints, accelerators, chips
from simulator.fabrics import published
from topologies import Topology

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups whose members lie over hosts in one pattern: `counts` members on each host in turn.

    `members` has shape (groups, members), host by host.
    """

    members: Ints
    counts: tuple[int, ...]

    @property
    def channels(self) -> int:
        """Rings or trees side by side, each entering a host at a member of its own."""
        return min(self.counts) if len(self.counts) > 1 else 1

    @property
    def share(self) -> str:
        """Which share of a line rate rings and trees reach: a single one across hosts is a single stream."""
        return "lone_share" if len(self.counts) > 1 and self.channels == 1 else "share"

    @property
    def even(self) -> bool:
        """Whether every host has equally many."""
        return len(set(self.counts)) == 1

    def hosts(self) -> list[Ints]:
        """The members of each host, (groups, members of that host)."""
        return np.split(self.members, np.cumsum(self.counts)[:-1], axis=1)

    def by_host(self) -> Ints:
        """Members of shape (groups, hosts, members of a host), where every host has equally many."""
        return self.members.reshape(len(self.members), len(self.counts), -1)

    def ports(self) -> Ints:
        """By which member each channel enters each host: places in `members`, (channels, hosts)."""
        return np.stack([self._walk(host, np.arange(self.channels))[:, 0] for host in range(len(self.counts))], axis=1)

    def rings(self) -> Ints:
        """Places in `members` in the order of each channel's ring, (channels, members).

        A ring zigzags through a host, so that all rings together use every pair of members alike, and leaves the next
        host by where it entered the last, so that with an even number of hosts every hop between them stays on a rail.
        """
        if len(self.counts) == 1:
            return np.arange(self.counts[0])[None]
        channel = np.arange(self.channels)
        walks = [self._walk(host, channel)[:, :: -1 if host % 2 else 1] for host in range(len(self.counts))]
        return np.concatenate(walks, axis=1)

    def chains(self) -> Ints:
        """Neighbours on each channel's way through its hosts, nearest its port first: places, (links of chains, 2)."""
        walks = [self._walk(host, np.arange(self.channels)) for host in range(len(self.counts))]
        pairs = [np.stack([walk[:, :-1], walk[:, 1:]], axis=-1).reshape(-1, 2) for walk in walks]
        return np.concatenate(pairs)

    def between(self, places: Ints) -> tuple[Ints, Ints]:
        """Sources and destinations (groups, messages) of pairs of places."""
        return self.members[:, places[:, 0]], self.members[:, places[:, 1]]

    def _walk(self, host: int, channel: Ints) -> Ints:
        """A zigzag through a host from the member of each channel, (channels, members); a single one goes straight."""
        count, first = self.counts[host], sum(self.counts[:host])
        turn = np.arange(count)
        step = np.where(turn % 2, (turn + 1) // 2, -(turn // 2)) if self.channels > 1 else turn
        return first + (channel[:, None] + step) % count


def arranged(ranks: Ints, topology: Topology) -> Iterator[tuple[Ints, Groups]]:
    """Groups (rows of `ranks`) by how they lie over hosts: which rows, and the rows by host."""
    hosts = topology.hosts[ranks]
    order = np.argsort(hosts, axis=1, kind="stable")
    members, sorted_hosts = np.take_along_axis(ranks, order, axis=1), np.take_along_axis(hosts, order, axis=1)
    patterns, which = np.unique(np.diff(sorted_hosts, axis=1) != 0, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        starts = np.flatnonzero(np.concatenate([[True], pattern, [True]]))
        rows = np.flatnonzero(which.ravel() == number)
        yield rows, Groups(members[rows], tuple(np.diff(starts).tolist()))


def in_one_pattern(ranks: Ints, topology: Topology) -> Groups:
    """The groups, which all lie over hosts in one pattern."""
    found = [groups for _, groups in arranged(ranks, topology)]
    if len(found) > 1:
        raise ValueError(f"groups that lie over hosts in {len(found)} patterns; one activity takes groups of one")
    return found[0]


def double_tree(nodes: int) -> tuple[Ints, Ints, int]:
    """Two binary trees over nodes: (child, parent) rows of each, and their depth.

    The inner nodes of one are leaves of the other (Sanders, Speck, Träff 2009). A node that is an odd multiple of 2^k
    hangs below a neighbouring multiple of 2^(k+1); the second tree is the mirror image, or shifted by one where the
    number of nodes is odd.
    """
    child = np.arange(1, nodes)
    bit = child & -child
    above = (child ^ bit) | (bit << 1)
    parent = np.where(above < nodes, above, child ^ bit)
    depth = np.zeros(nodes, np.int64)
    for node in sorted(child.tolist(), key=lambda each: -(each & -each)):
        depth[node] = depth[parent[node - 1]] + 1
    tree = np.stack([child, parent], axis=1)
    other = (tree + 1) % nodes if nodes % 2 else nodes - 1 - tree
    return tree, other, int(depth.max())


def tree_messages(size: float, groups: Groups) -> Messages:
    """An all-reduce up and down double trees over the hosts, one for each channel, each half of its part."""
    ports = groups.ports()
    first, second, depth = double_tree(len(groups.counts))
    up = ports[:, np.concatenate([first, second])].reshape(-1, 2)
    sources, destinations = groups.between(np.concatenate([up, up[:, ::-1]]))
    return Messages(size / (2 * len(ports)), 2 * depth, sources, destinations)


def one_switch(ranks: Ints, topology: Topology) -> Bools:
    """Which groups (rows of `ranks`) hang below a single switch, two links from member to member."""
    return _switched(ranks, topology)[0]


def reduces_in_switch(ranks: Ints, topology: Topology, *, ideal: bool = True) -> Bools:
    """Which groups hang below a single switch that can reduce for all of them; `ideal` ones can if they are to."""
    below, code = _switched(ranks, topology)
    table = [
        [published().reduces(kind, chip) and (ideal or published().known(kind)) for kind in topology.links.kinds]
        for chip in accelerators(topology)
    ]
    able = np.array(table)[:, code] | ~chips(topology, ranks)
    return np.asarray(below & able.all(axis=0))


def _switched(ranks: Ints, topology: Topology) -> tuple[Bools, Ints]:
    """Which groups hang below a single switch, and by which kind of link their first members do."""
    groups, members = ranks.shape
    pair, link = topology.routes(ranks.ravel(), np.roll(ranks, -1, axis=1).ravel())
    length = np.bincount(pair, minlength=groups * members).reshape(groups, members)
    first = np.zeros(groups * members, np.int64)
    first[pair[::-1]] = link[::-1]
    middle = topology.links.heads[first].reshape(groups, members)
    below = (length == 2).all(axis=1) & (middle == middle[:, :1]).all(axis=1)
    return np.asarray(below), topology.links.codes[first.reshape(groups, members)[:, 0]]
