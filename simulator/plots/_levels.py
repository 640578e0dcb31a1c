"""The levels of a cluster for its picture: which switches are within a host, which above, and which hosts to show."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.demand import Ints
from simulator.placements import OUTSIDE, families
from simulator.plots._sketch import weak_links
from topologies import Topology

Bools = npt.NDArray[np.bool_]
_GROUPS = 2
"""How many groups of a level are shown where not all hosts can be."""
_UNREACHED = np.iinfo(np.int64).max


class Layers(NamedTuple):
    """A cluster's nodes by level; all arrays are over the nodes of its links.

    `device` gives the rank or -1. `level` is 0 for devices, 1 and up for the network's switches, and below 0 for
    switches within a host; `levels` names the families by level.
    """

    device: Ints
    level: Ints
    names: dict[int, str]


class Gap(NamedTuple):
    """Where hosts are left out: so many of the groups that a level makes, `alone` if each has one switch there."""

    level: int
    left: int
    alone: bool


def layers(topology: Topology) -> Layers | None:
    """The levels of a cluster; None where links join switches of one level, or devices of different hosts."""
    links, known = topology.links, families(topology)
    device = np.full(len(links.nodes), -1)
    ranks = {node: rank for rank, node in enumerate(topology.devices)}
    for place, node in enumerate(links.nodes):
        device[place] = ranks.get(node, -1)
    tails, heads = links.tails, links.heads
    peers = known.heights[tails] == known.heights[heads]
    between = (device[tails] >= 0) & (device[heads] >= 0)
    hosts = np.where(device >= 0, topology.hosts[device], -1)
    if (peers & ~between).any() or (between & (hosts[tails] != hosts[heads])).any():
        return None
    low, high = _span(topology, known.heights, hosts)
    inside = _inside(topology, known.heights, low == high)
    level = np.where(inside, -known.heights, known.heights)
    names = {int(number): known.names[order] for number, order in zip(level, known.orders, strict=True) if order >= 0}
    if sum(len(set(known.orders[(level == number) & (device < 0)].tolist())) > 1 for number in names):
        return None
    return Layers(device, level, names)


def _span(topology: Topology, heights: Ints, hosts: Ints) -> tuple[Ints, Ints]:
    """The first and the last host below each node."""
    links = topology.links
    low, high = np.where(hosts < 0, _UNREACHED, hosts), hosts.copy()
    for height in range(int(heights.max())):
        up = np.flatnonzero((heights[links.tails] == height) & (heights[links.heads] == height + 1))
        np.minimum.at(low, links.heads[up], low[links.tails[up]])
        np.maximum.at(high, links.heads[up], high[links.tails[up]])
    return low, high


def _inside(topology: Topology, heights: Ints, single: Bools) -> Bools:
    """Which nodes are switches within a host: no network reaches them, nor anything above them."""
    links = topology.links
    network = np.array([kind in OUTSIDE for kind in links.kinds])[links.codes]
    inside = single & (heights > 0)
    inside[links.heads[network]] = False
    inside[links.tails[network]] = False
    for height in range(int(heights.max()), 1, -1):
        up = (heights[links.heads] == height) & (heights[links.tails] == height - 1)
        inside[links.tails[up & ~inside[links.heads]]] = False
    return np.asarray(inside)


def row(topology: Topology, found: Layers, budget: int) -> list[int | Gap]:
    """The hosts to show, about so many, and gaps for the others: of each level the first, and one that is degraded."""
    chosen = _Choice(topology, found)
    return chosen.of(np.arange(len(chosen.weak)), max(chosen.reached, default=0), budget)


class _Choice:
    """Which hosts are shown; `reached[level]` is the first switch of a level above each host, [hosts]."""

    def __init__(self, topology: Topology, found: Layers) -> None:
        self.weak = _weak_hosts(topology, found)
        self.reached = {
            level: _reached(topology, found, level, len(self.weak))
            for level in range(1, int(found.level.max(initial=0)) + 1)
        }
        counts = {level: int(((found.level == level) & (found.device < 0)).sum()) for level in self.reached}
        self._alone = {level: len(np.unique(of)) == counts[level] for level, of in self.reached.items()}

    def of(self, hosts: Ints, level: int, budget: int) -> list[int | Gap]:
        """About so many of some hosts, of several groups on a level the first ones and a degraded one."""
        if len(hosts) <= budget:
            return [int(host) for host in hosts]
        if not level:
            parts = [hosts[place : place + 1] for place in range(len(hosts))]
            return self._some(parts, budget, lambda part: [int(part[0])], level)
        _, first, which = np.unique(self.reached[level][hosts], return_index=True, return_inverse=True)
        parts = [hosts[which == which[place]] for place in np.sort(first).tolist()] if len(first) <= 4096 else [hosts]
        if len(parts) == 1:
            return self.of(hosts, level - 1, budget)
        each = max(1, budget // min(len(parts), _GROUPS))
        return self._some(parts, _GROUPS, lambda part: self.of(part, level - 1, each), level)

    def _some(
        self, parts: list[Ints], most: int, show: Callable[[Ints], list[int | Gap]], level: int
    ) -> list[int | Gap]:
        weak = [part for part in parts[most:] if self.weak[part].any()][:1]
        left = len(parts) - most - len(weak)
        gap: list[int | Gap] = [Gap(level, left, self._alone.get(level, True))] if left > 0 else []
        return [
            *(each for part in parts[:most] for each in show(part)),
            *gap,
            *(e for part in weak for e in show(part)),
        ]


def _reached(topology: Topology, found: Layers, target: int, hosts: int) -> Ints:
    """The first switch of a level that each host reaches upwards, [hosts]."""
    links, level = topology.links, found.level
    first = np.where(level == target, np.arange(len(level)), _UNREACHED)
    for height in range(target - 1, -1, -1):
        up = np.flatnonzero((level[links.tails] == height) & (level[links.heads] == height + 1))
        np.minimum.at(first, links.tails[up], first[links.heads[up]])
    devices = np.flatnonzero(found.device >= 0)
    reached = np.full(hosts, _UNREACHED)
    np.minimum.at(reached, topology.hosts[found.device[devices]], first[devices])
    return reached


def _weak_hosts(topology: Topology, found: Layers) -> Bools:
    """Which hosts have a degraded device, or a degraded link at one of their devices, [hosts]."""
    weak = np.zeros(int(topology.hosts.max()) + 1, np.bool_)
    weak[topology.hosts[topology.speeds < 1]] = True
    for link in weak_links(topology):
        for end in (topology.links.tails[link], topology.links.heads[link]):
            if found.device[end] >= 0:
                weak[topology.hosts[found.device[end]]] = True
    return weak
