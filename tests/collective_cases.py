"""Ideal clusters for collectives, and what every algorithm moves by its definition."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import settings

import topologies
from simulator import collectives
from simulator.activity import Activity
from simulator.collective_time import time_collective
from topologies import Topology, accelerators
from topologies.hierarchy import Tier, blocks, chain, cluster, gpus, mesh
from topologies.link import Link
from topologies.routing.torus import Torus
from workloads.ops import Collective

PASSES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
RINGS = tuple(PASSES)

DOES = {
    "broadcast": ("broadcast", "reduce"),
    "direct": RINGS,
    "hierarchical": RINGS,
    "in_network": ("all_reduce",),
    "in_switch": ("all_reduce",),
    "in_switch_tree": ("all_reduce",),
    "pairwise": ("all_to_all",),
    "rail_local": ("all_to_all",),
    "recursive": RINGS,
    "ring": RINGS,
    "send_receive": ("send_receive",),
    "torus": RINGS,
    "tree": ("all_reduce",),
}
"""Kinds of collectives that each algorithm does."""


def servers(*counts, inside=400e9, card=25e9, above=None, pairs=False, leaf=None, planes=1, seed=0):
    """Hosts of so many devices on ideal links without latency: `inside` a switch, or `pairs` of devices joined.

    Every device has a card of its own. All cards are on one switch, or on one switch for each `leaf` devices and a
    spine, or `planes` of spines, above with `above` bytes/s a device.
    """
    hosts, size = np.repeat(np.arange(len(counts)), counts), sum(counts)
    link = Link("inside", inside)
    scale_up = mesh(gpus(size), hosts, link) if pairs else chain(gpus(size), [Tier("inner", hosts, link)])
    network = [Tier("leaf", blocks(size, leaf or size), Link("across", card))]
    if leaf:
        spine = Link("above", card if above is None else above)
        network.append(Tier("spine", blocks(size, size), spine, planes=planes, seed=seed))
    return cluster(f"servers {counts}", "ideal", network, hosts, scale_up)


def ideal_torus(*sides, bandwidth=50e9):
    """A torus of ideal links without latency."""
    devices = gpus(int(np.prod(sides)))
    router, edges = Torus.of(sides, devices, [Link("wire", bandwidth)] * len(sides))
    graph = nx.Graph()
    graph.add_nodes_from(devices, device=True, host=0)
    graph.add_edges_from((tail, head, {"link": link}) for tail, head, link in edges)
    return Topology("torus", graph, devices, (accelerators.build("ideal"),) * len(devices), router, sides)


def op(kind, size):
    """A collective of so many bytes."""
    return Collective(name=kind, stream="", kind=kind, axes=("ranks",), bytes=size)


def built(algorithm: str, kind: str, cluster: Topology, *, size: float = 1e9, ranks=None) -> Activity:
    """The activity among some ranks, or among all."""
    members = np.arange(cluster.size) if ranks is None else np.array(list(ranks))
    return collectives.build(algorithm, op(kind, size), members, cluster)


def seconds(*arguments, **options):
    """How long it takes."""
    return float(built(*arguments, **options).seconds(arguments[2])[0])


def bytes_on_links(activity, cluster):
    """What all phases together put on every link of the cluster."""
    carried = np.zeros(len(cluster.links))
    for phase in activity.phases:
        np.add.at(carried, phase.link, phase.work[phase.group] * phase.weight)
    return carried


@dataclass(frozen=True)
class Layout:
    """A group on a cluster: `hosts` lists its members host by host."""

    cluster: Topology
    hosts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, cluster, ranks=None):
        """All ranks of a cluster, or some."""
        ranks = range(cluster.size) if ranks is None else ranks
        found = {}
        for rank in ranks:
            found.setdefault(int(cluster.hosts[rank]), []).append(rank)
        return cls(cluster, tuple(tuple(each) for each in found.values()))

    @cached_property
    def members(self):
        """All members."""
        return [rank for host in self.hosts for rank in host]

    def hops(self, source, destination):
        """Links on the way."""
        return len(self.cluster.routes([source], [destination])[1])

    def neighbours(self, *, closed):
        """Links crossed on a walk host by host through every member once, and back to the first if `closed`."""
        if len(self.hosts) == 1:
            walk = self.members + self.members[:1] * closed
            return sum(self.hops(*pair) for pair in pairwise(walk))
        firsts = [host[0] for host in self.hosts]
        return self.inner() + sum(self.hops(*pair) for pair in pairwise(firsts + firsts[:1] * closed))

    def inner(self):
        """Links crossed on chains through the members of every host."""
        return sum(self.hops(*pair) for host in self.hosts for pair in pairwise(host))

    def pairs(self, groups):
        """Links between all ordered pairs of members of each of the groups."""
        return sum(self.hops(a, b) for group in groups for a in group for b in group if a != b)

    @property
    def rails(self):
        """The i-th members of all hosts."""
        return list(zip(*self.hosts, strict=True))


def _reduced_inside(layout):
    """Every member's whole buffer up and down, and once more its own part: 2·S·(1 + 1/g) each, 2·S·(g + 1) a host."""
    return sum(2 * (len(host) + 1) for host in layout.hosts)


def _tree_across(layout):
    """Two trees of N − 1 edges, half the buffer each, both ways; all hosts are equally far from each other."""
    firsts = [host[0] for host in layout.hosts]
    return 2 * (len(firsts) - 1) * layout.hops(*firsts[:2]) if len(firsts) > 1 else 0


def _joined_across(layout):
    """Up to where all hosts meet and down again, every link of the tree once each way for each part of the buffer."""
    links, firsts = layout.cluster.links, [host[0] for host in layout.hosts]
    switched = len({links.ends[link] for a in firsts for b in firsts for link in layout.cluster.routes([a], [b])[1]})
    inside = {len(host) for host in layout.hosts} - {1}
    direct = layout.hops(*layout.hosts[0][:2]) == 1 if inside else False
    rings = sum(2 * (len(host) - 1) for host in layout.hosts)
    return switched + (rings if direct else _reduced_inside(layout) if inside else 0)


def _recursive(layout, passes):
    """Partners at distances 1, 2, 4 … in the order of ranks exchange S/2, S/4, S/8 and so on."""
    members, distances = layout.members, [1 << k for k in range(len(layout.members).bit_length() - 1)]
    exchanged = ((d, rank, members[place ^ d]) for d in distances for place, rank in enumerate(members))
    return passes * sum(layout.hops(a, b) / (2 * d) for d, a, b in exchanged)


def _broadcast(layout: Layout) -> float:
    """Rings that drop the edge into the root: one enters the root's host there, the others elsewhere in it."""
    channels = min(map(len, layout.hosts)) if len(layout.hosts) > 1 else 1
    entering = layout.neighbours(closed=False)
    if channels == 1:
        return entering
    elsewhere = layout.neighbours(closed=True) - layout.hops(*layout.hosts[0][:2])
    return (entering + (channels - 1) * elsewhere) / channels


CROSSED: dict[str, Callable[[Layout, int], float]] = {
    "ring": lambda a, passes: passes * (len(a.members) - 1) / len(a.members) * a.neighbours(closed=True),
    "direct": lambda a, passes: passes / len(a.members) * a.pairs([a.members]),
    "pairwise": lambda a, _: a.pairs([a.members]) / len(a.members),
    "rail_local": lambda a, _: a.pairs(a.hosts) / len(a.hosts[0]) + a.pairs(a.rails) / len(a.hosts),
    "recursive": _recursive,
    "hierarchical": lambda a, passes: (
        passes
        * (
            (1 - 1 / len(a.hosts[0])) * sum(Layout(a.cluster, (host,)).neighbours(closed=True) for host in a.hosts)
            + (1 - 1 / len(a.hosts)) * Layout(a.cluster, tuple((h[0],) for h in a.hosts)).neighbours(closed=True)
        )
    ),
    "tree": lambda a, _: 2 * a.inner() + _tree_across(a),
    "in_switch": lambda a, _: 2 * (len(a.members) + 1),
    "in_switch_tree": lambda a, _: _reduced_inside(a) + _tree_across(a),
    "in_network": lambda a, _: _joined_across(a),
    "torus": lambda a, passes: passes * (len(a.members) - 1),
    "broadcast": lambda a, _: _broadcast(a),
    "send_receive": lambda a, _: sum(a.hops(x, y) for x, y in pairwise([*a.members, a.members[0]])),
}
"""Bytes times links crossed, over the buffer, by the definition of each algorithm: of a layout, and its passes."""

LAYOUTS = {
    "one host": Layout.of(servers(8)),
    "two hosts": Layout.of(servers(4, 4)),
    "half of two hosts": Layout.of(servers(4, 4), [1, 3, 4, 6]),
    "one of each host": Layout.of(servers(1, 1, 1, 1)),
    "uneven hosts": Layout.of(servers(4, 3, 2)),
    "mesh": Layout.of(servers(4, pairs=True)),
    "two meshes": Layout.of(servers(4, 4, pairs=True)),
    "two leaves": Layout.of(servers(2, 2, 2, 2, leaf=4)),
    "torus": Layout.of(ideal_torus(4, 4)),
    "part of a torus": Layout.of(ideal_torus(4, 4), [0, 1, 4, 5, 8, 9, 12, 13]),
}

ANYWHERE = set(LAYOUTS)
EVEN = {"two hosts", "half of two hosts", "two meshes", "two leaves"}
LEGAL = {
    **dict.fromkeys(("broadcast", "direct", "pairwise", "ring", "send_receive", "tree"), ANYWHERE),
    "hierarchical": EVEN,
    "rail_local": EVEN,
    "in_network": EVEN | {"uneven hosts", "one of each host"},
    "in_switch": {"one host", "one of each host"},
    "in_switch_tree": EVEN - {"two meshes"} | {"uneven hosts"},
    "recursive": ANYWHERE - {"uneven hosts"},
    "torus": {"torus", "part of a torus"},
}
"""On which of the layouts each algorithm works."""

OWN_PATHS = {("tree", "torus"), ("tree", "part of a torus"), ("tree", "two leaves"), ("in_switch_tree", "two leaves")}
"""Where links crossed depend on which member a tree puts where, of which the definition says nothing."""

S = 1e9
KIBI, GIBI = 2**10, 2**30
STEADY = settings(max_examples=25, derandomize=True, deadline=None)
RING_KINDS = list(PASSES.items())
ORDERED = ("recursive", "send_receive", "torus")
"""Algorithms whose partners follow from the order of ranks."""


def exactly(value):
    return pytest.approx(value, rel=1e-12)


def flat(ranks, bandwidth=50e9, latency=0.0):
    """One switch, every rank a host of its own."""
    return topologies.build("flat", ranks=ranks, bandwidth=bandwidth, latency=latency)


def timed(kind, size, topology, ranks=None, algorithm="auto"):
    """Among some ranks, or among all."""
    topology = topologies.build(topology) if isinstance(topology, str) else topology
    ranks = range(topology.size) if ranks is None else ranks
    return time_collective(kind, bytes=size, ranks=ranks, topology=topology, algorithm=algorithm)
