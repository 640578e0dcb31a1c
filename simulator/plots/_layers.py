"""Where the nodes of a layered cluster are in a picture: hosts in a row, the network's switches above, level by level.

What joins the devices of one host is within its frame: switches beneath its devices, or links in a circle of them.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from simulator.plots._levels import Gap, Layers, row
from simulator.plots._sketch import Box, Note, Point, Sketch, Tag, joined, named
from topologies import Topology

_MOST_HOSTS, _MOST_DEVICES = 8, 64
_RISE, _FALL = 0.95, 0.52
_TALL = 0.27


def layered(topology: Topology, found: Layers) -> Sketch:
    """The first hosts of a cluster and what is above them, with what is left out in words."""
    return _Drawing(topology, found).sketch


class _Drawing:
    """A sketch that grows host by host, then level by level."""

    def __init__(self, topology: Topology, found: Layers) -> None:
        self._topology, self._found = topology, found
        sizes = np.bincount(topology.hosts)
        most = int(sizes.max())
        cells = row(topology, found, _MOST_HOSTS if most >= 4 else min(24, _MOST_DEVICES // most))
        hosts = [each for each in cells if not isinstance(each, Gap)]
        self._each = most if most <= 16 or (len(sizes) == 1 and most <= 72) else max(8, _MOST_DEVICES // len(hosts))
        shown = sum(min(int(sizes[host]), self._each) for host in hosts)
        self.sketch = Sketch(side=0.28 if shown <= 20 else 0.19 if shown <= 40 else 0.115, upright=True)
        self.sketch.numbered = shown <= 20 and topology.size <= 1000
        self._framed, self._x = most > 1, 0.0
        self._nodes: dict[int, list[int]] = {host: [] for host in hosts}
        for node in np.flatnonzero(found.device >= 0)[np.argsort(found.device[found.device >= 0])].tolist():
            host = int(topology.hosts[found.device[node]])
            if host in self._nodes:
                self._nodes[host].append(node)
        for cell in cells:
            if isinstance(cell, Gap):
                self._gap(cell)
            else:
                self._host(cell)
        for level in sorted(found.names, key=lambda level: (level < 0, abs(level))):
            self._level(level)
        self.sketch.join(topology)

    def _gap(self, gap: Gap) -> None:
        """A place where hosts are left out."""
        name = self._found.names[gap.level] if gap.level else "node" if self._framed else "device"
        name = name if gap.alone else "group"
        if gap.left > 1:
            name += "es" if name.endswith(("ch", "s")) else "s"
        self.sketch.notes.append(Note((self._x + 0.33, 0.0), f"…\n{gap.left:,} more\n{name}", 8.5))
        self._x += 0.8

    def _host(self, host: int) -> None:
        """The devices of a host, in a frame with what joins them."""
        nodes, left = self._nodes[host], self._x
        shown, side = nodes[: self._each], self.sketch.side
        if any(True for _ in joined(self._topology, nodes)):
            width, bottom = self._circle(shown)
        else:
            pitch = side * 1.35
            width = max(len(shown) * pitch + 0.1, 0.6 if self._framed else 0.0)
            first = left + width / 2 - pitch * (len(shown) - 1) / 2
            self.sketch.devices.update({node: (first + pitch * place, 0.0) for place, node in enumerate(shown)})
            lowest = min([0, *self._found.names])
            bottom = self._height(lowest) - _TALL / 2 if lowest else -side / 2
        if len(nodes) > len(shown):
            beside = left + width + 0.18, (bottom + side / 2) / 2
            self.sketch.notes.append(Note(beside, f"…\n{len(nodes) - len(shown):,}\nmore", 8.0))
            width += 0.45
        if self._framed:
            box = Box(left, bottom - 0.1, width, side / 2 + 0.18 - bottom, f"node {host}")
            self.sketch.boxes.append(box)
        self._x += width + (0.14 if self._framed else 0.06)

    def _circle(self, nodes: Sequence[int]) -> tuple[float, float]:
        """Devices that are joined pairwise, in a circle; the width and the lowest point of that."""
        side = self.sketch.side
        radius = max(0.45, len(nodes) * side * 1.5 / (2 * math.pi))
        width = 2 * radius + side + 0.2
        for place, node in enumerate(nodes):
            angle = math.pi / 2 - 2 * math.pi * (place + 0.25) / len(nodes)
            x = self._x + width / 2 + radius * math.cos(angle)
            self.sketch.devices[node] = x, radius * (math.sin(angle) - 1)
        return width, -2 * radius - side / 2

    def _level(self, level: int) -> None:
        """The switches of a level that join something in the picture, as wide as what they join if there is room."""
        links, levels = self._topology.links, self._found.level
        below = level - 1 if level > 0 else level + 1
        at: dict[int, Point] = self.sketch.devices | {node: tag.at for node, tag in self.sketch.switches.items()}
        there = np.zeros(len(levels), np.bool_)
        there[[node for node in at if levels[node] == below]] = True
        up = np.flatnonzero(there[links.tails] & (levels[links.heads] == level))
        joins: dict[int, list[float]] = {}
        for tail, head in zip(links.tails[up].tolist(), links.heads[up].tolist(), strict=True):
            tag = self.sketch.switches.get(tail)
            x, half = at[tail][0], tag.width / 2 - 0.15 if tag else 0.0
            joins.setdefault(head, []).extend((x - half, x + half))
        y = self._height(level)
        total = int(((levels == level) & (self._found.device < 0)).sum())
        if joins:
            self._tags(joins, y, total)
            self.sketch.notes.append(Note((-0.2, y), f"{total:,} × {self._found.names[level]}", 8.5, "right"))

    def _height(self, level: int) -> float:
        """Where the switches of a level are."""
        return _RISE * level if level > 0 else _FALL * level - self.sketch.side / 2 + 0.08

    def _tags(self, joins: dict[int, list[float]], y: float, total: int) -> None:
        names = {node: named(self._topology.links.nodes[node]) for node in joins}
        least = max(0.075 * len(name) + 0.16 for name in names.values())
        spans = {node: (min(xs), max(xs)) for node, xs in joins.items()}
        order = sorted(spans, key=lambda node: (sum(spans[node]), node))
        apart = all(spans[one][1] < spans[other][0] for one, other in pairwise(order))
        width = max(self._x - 0.2, least)
        middles = [sum(spans[node]) / 2 for node in order]
        if apart and all(after - before >= least + 0.06 for before, after in pairwise(middles)):
            for node, middle in zip(order, middles, strict=True):
                wide = max(least, spans[node][1] - spans[node][0] + 0.2)
                self.sketch.switches[node] = Tag((middle, y), wide, _TALL, names[node])
            return
        room = max(1, int((width + 0.6) / (least + 0.1)))
        kept = sorted(order)[:room]
        pitch = min(max(width / len(kept), least + 0.1), 1.6)
        for place, node in enumerate(kept):
            x = width / 2 + pitch * (place - (len(kept) - 1) / 2)
            self.sketch.switches[node] = Tag((x, y), least, _TALL, names[node])
