"""Bars of a Gantt chart: thousands of rectangles, true to scale, that stay small and quick as PNG and as SVG alike."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas
from matplotlib.artist import allow_rasterization
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.collections import PolyCollection
from matplotlib.path import Path
from matplotlib.transforms import IdentityTransform
from matplotlib.typing import ColorType

from simulator.plots import _recompute
from simulator.plots._actions import AXES, IDLE, OTHER_AXES, WAIT, colours
from simulator.plots._lanes import View
from simulator.plots._svg import RGBA, Floats, is_svg, rectangles

_AT_ONCE = 500
"""Bars in one piece: Agg has a limit for what it fills at once."""
_FINE = 1000
"""With more thin bars than this, vector formats have them as an image: one by one they are not seen anyway."""
_NARROW = 3.0
"""Points; bars that are narrower have no white edges, which would hide them."""


class Bars(PolyCollection):
    """Rectangles (left, width), each at its place (top, height); those of one colour are drawn in one piece."""

    def __init__(
        self,
        extents: Sequence[tuple[float, float]],
        places: Sequence[tuple[float, float]],
        colours: ColorType | Sequence[ColorType],
        **style: Any,
    ) -> None:
        corners = [
            ((left, top), (left, top + height), (left + width, top + height), (left + width, top))
            for (left, width), (top, height) in zip(extents, places, strict=True)
        ]
        super().__init__(corners, facecolors=colours, **{"linewidth": 0, **style})

    @allow_rasterization  # type: ignore[untyped-decorator, misc, unused-ignore]
    def draw(self, renderer: RendererBase) -> None:
        """Draw what of the bars is within the axes."""
        if not self.get_visible() or self.axes is None or not self.get_paths():
            return
        renderer.open_group("Bars", self.get_gid())
        corners = np.concatenate([np.asarray(path.vertices)[:4] for path in self.get_paths()])
        seen = self.get_transform().transform(corners).clip(self.axes.bbox.min, self.axes.bbox.max)
        for face, some in _by_colour(np.asarray(self.get_facecolor()), seen.reshape(-1, 4, 2)):
            for start in range(0, len(some), _AT_ONCE):
                self._piece(renderer, some[start : start + _AT_ONCE], face)
        renderer.close_group("Bars")

    def _piece(self, renderer: RendererBase, corners: Floats, face: RGBA | None) -> None:
        (width,), edges = np.atleast_1d(self.get_linewidth()), np.asarray(self.get_edgecolor()).tolist()
        edge: RGBA = tuple(edges[0]) if edges else (0.0, 0.0, 0.0, 0.0)
        if is_svg(renderer) and not self.get_hatch():
            rectangles(renderer, corners, face, edge, width)
            return
        gc = renderer.new_gc()
        gc.set_snap(self.get_snap())
        gc.set_linewidth(width)
        gc.set_foreground(edge, isRGBA=True)
        if self.get_hatch():
            gc.set_hatch(self.get_hatch())
            gc.set_hatch_color(edge)
        renderer.draw_path(gc, _outline(corners), IdentityTransform(), face)
        gc.restore()


def _by_colour(faces: Floats, corners: Floats) -> Iterator[tuple[RGBA | None, Floats]]:
    """Rectangles of one colour each, None for none; the colours are given for each rectangle, or one for all."""
    if not len(faces):
        yield None, corners
        return
    found, which = np.unique(np.resize(faces, (len(corners), 4)), axis=0, return_inverse=True)
    for place, face in enumerate(found.tolist()):
        yield tuple(face), corners[which.reshape(-1) == place]


def _outline(corners: Floats) -> Path:
    """Closed rectangles as one path; its codes keep it from being simplified."""
    closed = np.concatenate([corners, corners[:, :1]], axis=1)
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(corners))
    return Path(closed.reshape(-1, 2), codes.astype(Path.code_type))


def background(ax: Axes, view: View) -> None:
    """Where a lane has nothing to do, until the step ends, and where it waits."""
    start, end = view.limits[0], min(view.limits[1], view.end)
    for lane, rank in enumerate(view.ranks):
        place = view.bar(lane)
        _add(ax, Bars([(start, end - start)], [place], IDLE, zorder=0.5, gid=f"rank {rank} idle"))
        waits = view.waits[view.waits["lane"] == lane]
        if len(waits):
            style = {"edgecolor": WAIT, "hatch": "/////", "zorder": 0.6, "gid": f"rank {rank} waits"}
            _add(ax, Bars(_extents(waits), [place] * len(waits), IDLE, **style))


def actions(ax: Axes, view: View, width: float) -> None:
    """One bar for each action, and one of two halves for an overlapped pair; the axes are so many points wide."""
    lengths = view.actions["right"] - view.actions["left"]
    start, end = view.limits
    narrow = not len(lengths) or lengths.median() / (end - start) * width < _NARROW
    edges = {"edgecolor": "white", "linewidth": 0 if narrow else 0.5, "snap": not narrow}
    for lane, rank in enumerate(view.ranks):
        rows = view.actions[view.actions["lane"] == lane]
        whole, pairs = rows[rows["half"] == 0], rows[rows["half"] > 0]
        _add(
            ax,
            Bars(_extents(whole), [view.bar(lane)] * len(whole), colours(whole), gid=f"rank {rank} actions", **edges),
        )
        if len(pairs):
            places = [view.bar(lane, half) for half in pairs["half"].tolist()]
            gid = f"rank {rank} overlapped"
            _add(ax, Bars(_extents(pairs), places, colours(pairs), gid=gid, snap=not narrow))
            upper = pairs[pairs["half"] == 1]
            _add(ax, Bars(_extents(upper), [view.bar(lane)] * len(upper), "none", zorder=1.1, **edges))


def recompute(ax: Axes, view: View) -> None:
    """What of the bars is recomputation."""
    for lane, rank in enumerate(view.ranks):
        rows = view.recompute[view.recompute["lane"] == lane]
        if len(rows):
            places, colour = [view.bar(lane)] * len(rows), _recompute.COLOUR
            _add(ax, Bars(_extents(rows), places, colour, snap=True, zorder=1.05, gid=f"rank {rank} recompute"))


def communication(ax: Axes, view: View) -> None:
    """Thin bars, not snapped to pixels: where they are narrower than one, their shade is the share of time."""
    fine = len(view.transfers) > _FINE
    for (lane, rank), axis in product(enumerate(view.ranks), view.axes):
        rows = view.transfers[(view.transfers["lane"] == lane) & (view.transfers["axis"] == axis)]
        places, colour = [view.strip(lane, axis)] * len(rows), AXES.get(axis, OTHER_AXES)
        bars = Bars(_extents(rows), places, colour, snap=False, gid=f"rank {rank} {axis}", rasterized=fine)
        _add(ax, bars)


def _add(ax: Axes, bars: Bars) -> None:
    ax.add_collection(bars, autolim=False)


def _extents(rows: pandas.DataFrame) -> list[tuple[float, float]]:
    return list(zip(rows["begin"], rows["end_seconds"] - rows["begin"], strict=True))
