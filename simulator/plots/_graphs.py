"""Where the nodes of any other graph are in a picture: a spring layout, or groups of switches around a circle."""

import math
from collections.abc import Iterable, Mapping, Sequence

import networkx as nx
import numpy as np

from simulator.demand import Ints
from simulator.plots._sketch import Note, Point, Sketch, Tag, joined, named
from topologies import Topology

_MOST = 48
"""Nodes that are shown at most."""
_FEW_DEVICES = 40
"""Devices that are shown one by one where there are switches."""


def scattered(topology: Topology) -> Sketch:
    """All nodes, or the first ones; many devices are written beside their switch instead of drawn."""
    links = topology.links
    ranks = {node: rank for rank, node in enumerate(topology.devices)}
    device = np.array([ranks.get(node, -1) for node in links.nodes])
    nodes = np.arange(len(device))
    hidden = topology.size > _FEW_DEVICES and topology.size < len(device)
    if hidden:
        nodes = nodes[device < 0]
    shown = _first(topology, nodes, _MOST)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(shown)
    graph.add_edges_from((tail, head) for _, tail, head in joined(topology, shown))
    at = _places(graph)
    sketch = Sketch(side=0.24, numbered=topology.size <= 1000)
    below = _devices_below(topology, device) if hidden else {}
    for node in shown:
        if device[node] >= 0:
            sketch.devices[node] = at[node]
        else:
            name = named(links.nodes[node])
            sketch.switches[node] = Tag(at[node], 0.075 * len(name) + 0.18, 0.27, name)
    sketch.join(topology)
    _say_what_is_left(sketch, topology, below, len(nodes) - len(shown))
    return sketch


def _first(topology: Topology, nodes: Ints, most: int) -> list[int]:
    """The first nodes; where those do not hang together, the first ones from the first node on, near before far."""
    first = [int(node) for node in nodes[:most]]
    some: nx.Graph[int] = nx.Graph((tail, head) for _, tail, head in joined(topology, first))
    if len(nodes) <= most or (len(some) == most and nx.is_connected(some)):
        return first
    links, kept = topology.links, np.zeros(len(topology.links.nodes), np.bool_)
    kept[nodes] = True
    found, reached = [int(nodes[0])], np.zeros(len(kept), np.bool_)
    reached[found] = True
    front = np.array(found)
    while len(found) < most and len(front):
        at_front = np.zeros(len(kept), np.bool_)
        at_front[front] = True
        heads = np.unique(links.heads[at_front[links.tails]])
        front = heads[kept[heads] & ~reached[heads]]
        reached[front] = True
        found += front.tolist()
    return found[:most]


def _devices_below(topology: Topology, device: Ints) -> dict[int, int]:
    """How many devices each switch has."""
    links = topology.links
    heads = links.heads[(device[links.tails] >= 0) & (device[links.heads] < 0)]
    counts = np.bincount(heads, minlength=len(device))
    return {int(node): int(counts[node]) for node in np.flatnonzero(counts)}


def _say_what_is_left(sketch: Sketch, topology: Topology, below: Mapping[int, int], left: int) -> None:
    """What is not drawn, beneath the picture."""
    parts = []
    here = sorted({count for node, count in below.items() if node in sketch.switches})
    if here:
        counts = f"{here[0]:,}" if len(here) == 1 else f"{here[0]:,} to {here[-1]:,}"
        parts.append(f"{counts} of the {topology.size:,} devices at each switch")
    if left:
        parts.append(f"… {left:,} more {'switches' if below else 'nodes'}")
    if parts:
        low, high, bottom, _ = sketch.extent()
        sketch.notes.append(Note(((low + high) / 2, bottom - 0.2), " · ".join(parts), 9.0))


def _places(graph: "nx.Graph[int]") -> dict[int, Point]:
    """Inches for every node: groups that are densely joined around a circle, else where springs would pull them."""
    if len(graph) == 1:
        return dict.fromkeys(graph, (0.0, 0.0))
    groups = [sorted(group) for group in nx.community.louvain_communities(graph, seed=1)] if len(graph) >= 12 else []
    dense = [nx.density(graph.subgraph(group)) for group in groups if len(group) > 2]
    if 1 < len(groups) <= 12 and dense and min(dense) > 0.8:
        return _circles(graph, sorted(groups))
    layout = nx.kamada_kawai_layout(graph)
    scale = 0.62 * math.sqrt(len(graph))
    return {node: (1.4 * scale * float(x), scale * float(y)) for node, (x, y) in layout.items()}


def _circles(graph: "nx.Graph[int]", groups: Sequence[Sequence[int]]) -> dict[int, Point]:
    """Each group on a circle of its own, the groups around a large one, turned so that what leaves faces inwards."""
    radius = [max(0.75, 0.95 * len(group) / (2 * math.pi)) for group in groups]
    large = 1.25 * max(radius) / math.sin(math.pi / len(groups)) if len(groups) > 1 else 0.0
    at: dict[int, Point] = {}
    turn = 0.5 if len(groups) % 2 == 0 else 0.0
    for group, own, (x, y) in zip(groups, radius, _around(len(groups), 1.25 * large, large, turn), strict=True):
        leaving = [place for place, node in enumerate(group) if any(each not in group for each in graph[node])]
        mean = sum(np.exp(2j * math.pi * place / len(group)) for place in leaving)
        inwards = len(group) * (0.25 - math.atan2(-y, -x) / (2 * math.pi))
        shift = float(np.angle(mean)) * len(group) / (2 * math.pi) - inwards if abs(mean) > 0.1 else 0.0
        circle = _around(len(group), 1.15 * own, own, shift)
        at |= {node: (x + dx, y + dy) for node, (dx, dy) in zip(group, circle, strict=True)}
    return at


def _around(count: int, wide: float, tall: float, turn: float) -> Iterable[Point]:
    for place in range(count):
        angle = math.pi / 2 - 2 * math.pi * (place - turn) / count
        yield wide * math.cos(angle), tall * math.sin(angle)
