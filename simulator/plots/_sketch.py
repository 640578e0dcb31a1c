"""A picture of a cluster before it is painted: where its nodes are, which lines join them, what is written beside.

Coordinates are inches, y upwards. Nodes and links are places in the arrays of `topology.links`.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch, Rectangle

from simulator.plots._canvas import DEGRADED, GREY, kind_colour, rate
from topologies import Topology

DEVICE = "#3C4A57"
SWITCH = "#F4EBD0"
NARROWEST = 6.4
"""Inches that a picture is wide at least, for its title and legend."""
_INK = "#222222"
_FRAME = "#B9C0C7"
Point = tuple[float, float]


class Line(NamedTuple):
    """A straight stroke for a link; dashed if it leads on to something that is elsewhere in the picture."""

    points: tuple[Point, ...]
    link: int
    dashed: bool = False


class Box(NamedTuple):
    """A frame around what belongs together: left, bottom, width and height, and what is written beneath."""

    left: float
    bottom: float
    width: float
    height: float
    label: str


class Note(NamedTuple):
    """Words in the picture, centred where `align` does not say otherwise."""

    at: Point
    text: str
    size: float = 8.0
    align: str = "center"
    colour: str = GREY


class Tag(NamedTuple):
    """A switch: its middle, width, height and name."""

    at: Point
    width: float
    height: float
    name: str


@dataclass(slots=True, eq=False)
class Sketch:
    """Devices as squares of `side` inches, switches as tags, lines, boxes and notes.

    `upright`: lines come to switches from above and below.
    """

    side: float = 0.16
    devices: dict[int, Point] = field(default_factory=dict)
    numbered: bool = False
    upright: bool = False
    switches: dict[int, Tag] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def join(self, topology: Topology) -> None:
        """A straight line for every link between two nodes that are in the picture, one for both directions."""
        at = self.devices | {node: tag.at for node, tag in self.switches.items()}
        room = {node: max(0.0, tag.width / 2 - 0.1) for node, tag in self.switches.items()}
        for link, tail, head in joined(topology, at):
            x = at[min((tail, head), key=lambda node: room.get(node, 0.0))][0]
            ends = []
            for node, (_, other) in ((tail, at[head]), (head, at[tail])):
                middle, y = at[node]
                half = room.get(node, 0.0)
                if self.upright and node in room and other != y:
                    y += math.copysign(self.switches[node].height / 2, other - y)
                ends.append((min(max(x, middle - half), middle + half), y))
            self.lines.append(Line(tuple(ends), link))

    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top of all that is in the picture, with a margin."""
        half = self.side / 2
        xs, ys = [], []
        for x, y in self.devices.values():
            xs += [x - half, x + half]
            ys += [y - half, y + half]
        for tag in self.switches.values():
            xs += [tag.at[0] - tag.width / 2, tag.at[0] + tag.width / 2]
            ys += [tag.at[1] - tag.height / 2, tag.at[1] + tag.height / 2]
        for box in self.boxes:
            xs += [box.left, box.left + box.width]
            ys += [box.bottom - (0.2 if box.label else 0), box.bottom + box.height]
        for note in self.notes:
            width, lines = 0.0085 * note.size * max(map(len, note.text.split("\n"))), 1 + note.text.count("\n")
            left = {"center": 0.5, "left": 0.0, "right": 1.0}[note.align]
            xs += [note.at[0] - left * width, note.at[0] + (1 - left) * width]
            ys += [note.at[1] - 0.008 * note.size * lines, note.at[1] + 0.008 * note.size * lines]
        points = [point for line in self.lines for point in line.points]
        xs += [x for x, _ in points]
        ys += [y for _, y in points]
        return min(xs) - 0.1, max(xs) + 0.1, min(ys) - 0.1, max(ys) + 0.12


def joined(topology: Topology, nodes: Iterable[int]) -> Iterator[tuple[int, int, int]]:
    """(link, tail, head) of the links between some nodes, one for both directions: the weaker, or a degraded one."""
    links = topology.links
    there = np.zeros(len(links.nodes), np.bool_)
    there[list(nodes)] = True
    found = np.flatnonzero(there[links.tails] & there[links.heads])
    weak = weak_links(topology)
    best: dict[tuple[int, int], tuple[bool, float, int]] = {}
    for link in found.tolist():
        ends = int(links.tails[link]), int(links.heads[link])
        rank = link not in weak, float(links.bandwidth[link]), link
        pair = min(ends), max(ends)
        best[pair] = min(best.get(pair, rank), rank)
    for _, _, link in best.values():
        yield link, int(links.tails[link]), int(links.heads[link])


def named(node: object) -> str:
    """A node's name, short enough for a picture.

    >>> named("rack12"), named(("leaf", 3)), named("a switch with a long name")
    ('rack12', 'leaf 3', 'a switch with…')
    """
    name = " ".join(map(str, node)) if isinstance(node, tuple) else str(node)
    return name if len(name) <= 16 else name[:14].rstrip() + "…"


def weak_links(topology: Topology) -> frozenset[int]:
    """The links that are degraded."""
    edges = {edge for edge, factor in topology.link_factors.items() if factor < 1}
    if not edges:
        return frozenset()
    return frozenset(link for link, edge in enumerate(topology.links.ends) if edge in edges)


def paint(ax: Axes, sketch: Sketch, topology: Topology) -> None:
    """Paint a sketch; lines are as wide as their bandwidth lets them be, what is degraded is red."""
    left, right, bottom, top = sketch.extent()
    more = max(0.0, NARROWEST - (right - left)) / 2
    ax.set(xlim=(left - more, right + more), ylim=(bottom, top), aspect="equal")
    ax.axis("off")
    for box in sketch.boxes:
        ax.add_patch(Rectangle(box[:2], box.width, box.height, facecolor="#FAFAFA", edgecolor=_FRAME, zorder=0.4))
        middle = box.left + box.width / 2
        ax.text(middle, box.bottom - 0.06, box.label, size=8, color=GREY, ha="center", va="top")
    _paint_lines(ax, sketch, topology)
    _paint_devices(ax, sketch, topology)
    for tag in sketch.switches.values():
        _paint_switch(ax, tag)
    for note in sketch.notes:
        back = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
        ax.text(*note.at, note.text, size=note.size, color=note.colour, ha=note.align, va="center", zorder=4, bbox=back)


def widths(topology: Topology) -> np.ndarray:
    """Line widths of all links in points: from 0.7 for the slowest to 3.2 for the fastest, by the bandwidth's log."""
    logs = np.log(np.minimum(topology.links.bandwidth, 1e18))
    low, high = logs.min(initial=0.0), logs.max(initial=0.0)
    low = logs.min() if len(logs) else low
    return np.asarray(0.7 + 2.5 * (logs - low) / max(float(high - low), np.log(30.0)))


def _paint_lines(ax: Axes, sketch: Sketch, topology: Topology) -> None:
    links, wide, weak = topology.links, widths(topology), weak_links(topology)
    groups: dict[tuple[str, bool], list[Line]] = defaultdict(list)
    for line in sketch.lines:
        name = "degraded" if line.link in weak else links.kinds[links.codes[line.link]]
        groups[name, line.dashed].append(line)
    crowd = len(sketch.lines)
    for (name, dashed), lines in groups.items():
        red = name == "degraded"
        colour = to_rgba(DEGRADED if red else kind_colour(name), 1.0 if red or crowd < 60 else 0.75)
        ax.add_collection(
            LineCollection(
                [line.points for line in lines],
                colors=[colour],
                linewidths=[float(wide[line.link]) + (1.0 if red else 0.0) for line in lines],
                linestyles=[(0, (1.6, 1.2))] if dashed else ["solid"],
                zorder=1.5 if red else 1.0,
                gid=f"{name} links",
            )
        )


def _paint_devices(ax: Axes, sketch: Sketch, topology: Topology) -> None:
    side = sketch.side
    ranks = {node: rank for rank, node in enumerate(topology.devices)}
    numbers = {node: ranks[topology.links.nodes[node]] for node in sketch.devices}
    colours = [DEGRADED if topology.speeds[numbers[node]] < 1 else DEVICE for node in sketch.devices]
    squares = [Rectangle((x - side / 2, y - side / 2), side, side) for x, y in sketch.devices.values()]
    ax.add_collection(
        PatchCollection(squares, facecolors=colours, edgecolors="white", linewidths=0.6, zorder=2, gid="devices")
    )
    if sketch.numbered:
        size = min(8.0, 24 * side)
        for node, (x, y) in sketch.devices.items():
            ax.text(x, y, str(numbers[node]), size=size, color="white", ha="center", va="center_baseline", zorder=3)


def _paint_switch(ax: Axes, tag: Tag) -> None:
    x, y = tag.at
    ax.add_patch(
        FancyBboxPatch(
            (x - tag.width / 2 + 0.04, y - tag.height / 2 + 0.04),
            tag.width - 0.08,
            tag.height - 0.08,
            boxstyle="round,pad=0.04,rounding_size=0.06",
            facecolor=SWITCH,
            edgecolor="#8A7B52",
            linewidth=0.9,
            zorder=2,
            gid="switch",
        )
    )
    ax.text(x, y, tag.name, size=8, color=_INK, ha="center", va="center_baseline", zorder=3)


def legend(ax: Axes, sketch: Sketch, topology: Topology) -> None:
    """Beneath the picture: each kind of link with its bandwidth, one direction, and what red stands for."""
    links, weak, wide = topology.links, weak_links(topology), widths(topology)
    sturdy = np.ones(len(links), np.bool_)
    sturdy[list(weak)] = False
    handles: list[Line2D | Patch] = []
    codes = sorted({int(links.codes[line.link]) for line in sketch.lines})
    for code in codes:
        mine = links.codes == code
        sound = mine & sturdy if (mine & sturdy).any() else mine
        low, high = float(links.bandwidth[sound].min()), float(links.bandwidth[sound].max())
        span = rate(high) if rate(low) == rate(high) else f"{rate(low)} to {rate(high)}"
        colour, kind = kind_colour(links.kinds[code]), links.kinds[code]
        handles.append(Line2D([], [], color=colour, linewidth=float(wide[mine].max()), label=f"{kind} {span}"))
    if sketch.devices:
        chips = dict.fromkeys(chip.name for chip in topology.accelerators)
        handles.append(Patch(color=DEVICE, label=", ".join(list(chips)[:3])))
    if weak or (topology.speeds < 1).any():
        handles.append(Patch(color=DEGRADED, label="degraded"))
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=min(len(handles), 4),
        frameon=False,
        fontsize=9,
        handlelength=1.6,
        columnspacing=1.6,
    )
