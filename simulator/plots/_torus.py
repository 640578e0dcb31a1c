"""Where the chips of a torus are in a picture: planes of its last two dimensions, side by side and above each other."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from simulator.demand import Ints
from simulator.plots._sketch import Box, Line, Note, Sketch, weak_links
from topologies import Topology

_PITCH, _STUB, _BETWEEN = 0.44, 0.3, 0.5
_EDGE = 0.38
"""From the middle of a plane's outer chips to its frame."""


def torus(topology: Topology) -> Sketch:
    """Rows and columns; dashed ends are links that go on, or around; planes are joined chip by chip, in bundles."""
    sizes = (1,) * (4 - len(topology.grid)) + topology.grid
    most = (3, 4, 6, 6) if sizes[-3] > 1 else (1, 1, 10, 24)
    sketch = _Planes(topology, sizes, most).sketch
    sketch.numbered = topology.size <= 10_000
    return sketch


class _Planes:
    """Draws the first planes of a torus of so many blocks of planes, down, across, each of rows and columns."""

    def __init__(self, topology: Topology, sizes: tuple[int, ...], most: Sequence[int]) -> None:
        self.sketch = Sketch(side=0.3)
        self._sizes = sizes[-4:]
        self._shown = [min(pair) for pair in zip(self._sizes, most, strict=True)]
        self._ranks = np.arange(topology.size).reshape(-1, *self._sizes)[0]
        places = {node: place for place, node in enumerate(topology.links.nodes)}
        self._nodes = np.array([places[node] for node in topology.devices])
        ends = zip(topology.links.tails.tolist(), topology.links.heads.tolist(), strict=True)
        self._links = {pair: link for link, pair in enumerate(ends)}
        self._weak = weak_links(topology)
        for down, across in product(*map(range, self._shown[:2])):
            self._plane(down, across)
        self._say_what_is_left(sizes[:-4])

    def _plane(self, down: int, across: int) -> None:
        """One plane, in a frame if there are others, with its bundles to the next ones."""
        rows, columns = self._shown[2:]
        width, height = (columns - 1) * _PITCH, (rows - 1) * _PITCH
        x, y = across * (width + 2 * _EDGE + _BETWEEN), -down * (height + 2 * _EDGE + _BETWEEN + 0.15)
        for row, column in product(range(rows), range(columns)):
            node = int(self._nodes[self._ranks[down, across, row, column]])
            self.sketch.devices[node] = (x + column * _PITCH, y - row * _PITCH)
        for row in range(rows):
            self._line(self._ranks[down, across, row], columns, (x, y - row * _PITCH), (1, 0))
        for column in range(columns):
            self._line(self._ranks[down, across, :, column], rows, (x + column * _PITCH, y), (0, -1))
        if self._sizes[0] * self._sizes[1] == 1:
            return
        place = f"plane {across}" if self._sizes[0] == 1 else f"plane {down}, {across}"
        box = Box(x - _EDGE, y - height - _EDGE, width + 2 * _EDGE, height + 2 * _EDGE, place)
        self.sketch.boxes.append(box)
        middle = box.bottom + (0.5 + 0.5 / max(rows, 2)) * box.height if rows % 2 else box.bottom + box.height / 2
        self._bundle(self._ranks[down], across, 1, ((box.left + box.width, middle), (box.left, middle)))
        beside = box.left + box.width - 0.12
        self._bundle(self._ranks[:, across], down, 0, ((beside, box.bottom), (beside, box.bottom + box.height)))

    def _line(self, ranks: Ints, shown: int, start: tuple[float, float], step: tuple[int, int]) -> None:
        """The links along a row or a column: between its chips, and ends on both sides of those that go on."""
        (x, y), (right, up) = start, step
        at = [(x + right * _PITCH * place, y + up * _PITCH * place) for place in range(shown)]
        for place in range(shown - 1):
            link = self._between(ranks[place], ranks[place + 1])
            self.sketch.lines.append(Line((at[place], at[place + 1]), link))
        if len(ranks) > 2:
            for place, sign, other in ((0, -1, -1), (shown - 1, 1, shown % len(ranks))):
                end = (at[place][0] + sign * right * _STUB, at[place][1] + sign * up * _STUB)
                self.sketch.lines.append(Line((at[place], end), self._between(ranks[place], ranks[other]), dashed=True))

    def _bundle(
        self, ranks: Ints, place: int, axis: int, ends: tuple[tuple[float, float], tuple[float, float]]
    ) -> None:
        """The links from plane `place` of some to the next, from its one end on, and around to the last."""
        size, shown = self._sizes[axis], self._shown[axis]
        (x, y), (back_x, back_y) = ends
        right, up = (1, 0) if axis else (0, -1)
        if size == 1 or (size == 2 and place):
            return
        last = place == shown - 1
        link = self._bundled(ranks[place], ranks[(place + 1) % size])
        long = _STUB if last else _BETWEEN + (0 if axis else 0.15)
        self.sketch.lines.append(Line(((x, y), (x + right * long, y + up * long)), link, dashed=last))
        if not last:
            at = (x + _BETWEEN / 2, y + 0.13) if axis else (x + 0.2, y - 0.45)
            self.sketch.notes.append(Note(at, f"×{ranks[place].size:,}"))
        if not place and size > 2:
            link = self._bundled(ranks[0], ranks[-1])
            end = (back_x - right * _STUB, back_y - up * _STUB)
            self.sketch.lines.append(Line(((back_x, back_y), end), link, dashed=True))

    def _between(self, one: int, other: int) -> int:
        """The link between two ranks, in the direction that is degraded if one is."""
        ends = int(self._nodes[one]), int(self._nodes[other])
        there, back = self._links[ends], self._links[ends[::-1]]
        return back if back in self._weak else there

    def _bundled(self, plane: Ints, other: Ints) -> int:
        """A link between two planes, a degraded one if there is one."""
        links = [self._between(*pair) for pair in zip(plane.ravel().tolist(), other.ravel().tolist(), strict=True)]
        return min(links, key=lambda link: (link not in self._weak, link))

    def _say_what_is_left(self, outer: tuple[int, ...]) -> None:
        across = "planes" if self._sizes[0] == 1 else "planes across"
        names = ("planes down", across, "rows", "columns" if self._sizes[2] > 1 else "chips")
        parts = [
            f"{shown} of {size} {name}"
            for name, shown, size in zip(names, self._shown, self._sizes, strict=True)
            if shown < size
        ]
        blocks = int(np.prod(outer, dtype=np.int64))
        if blocks > 1:
            parts.append(f"1 of {blocks:,} blocks")
        if parts:
            left, _, bottom, _ = self.sketch.extent()
            self.sketch.notes.append(Note((left + 0.1, bottom - 0.15), "shown: " + ", ".join(parts), 9.0, "left"))
