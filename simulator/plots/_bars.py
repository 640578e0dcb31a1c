"""Bars of a Gantt chart: thousands of rectangles, true to scale, that stay small and quick as PNG and as SVG alike."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
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

_AT_ONCE = 500
"""Bars in one piece: Agg has a limit for what it fills at once."""
_FINE = 1000
"""With more thin bars than this, vector formats have them as an image: one by one they are not seen anyway."""
_NARROW = 3.0
"""Points; bars that are narrower have no white edges, which would hide them."""


class Bars(PolyCollection):
    """Rectangles (left, width) of one top and height, or of one each; those of one colour are drawn in one piece."""

    def __init__(
        self,
        extents: Sequence[tuple[float, float]],
        places: Sequence[tuple[float, float]],
        facecolors: ColorType | Sequence[ColorType],
        **style: object,
    ) -> None:
        corners = [
            ((left, top), (left, top + height), (left + width, top + height), (left + width, top))
            for (left, width), (top, height) in zip(extents, places, strict=True)
        ]
        super().__init__(corners, facecolors=facecolors, **{"linewidth": 0, **style})

    @allow_rasterization  # type: ignore[no-untyped-call, misc, unused-ignore]
    def draw(self, renderer: RendererBase) -> None:
        """Draw the bars of each colour as one path."""
        if not self.get_visible():
            return
        renderer.open_group("Bars", self.get_gid())
        corners = np.array([path.vertices[:4] for path in self.get_paths()]).reshape(-1, 4, 2)
        # Hundredths of a point are never seen, but halve the size of an SVG.
        corners = self.get_transform().transform(corners.reshape(-1, 2)).round(2).reshape(-1, 4, 2)
        faces = np.resize(self.get_facecolor(), (len(corners), 4)) if len(self.get_facecolor()) else None
        groups = [(None, corners)] if faces is None else _by_colour(faces, corners)
        for face, some in groups:
            for start in range(0, len(some), _AT_ONCE):
                self._piece(renderer, some[start : start + _AT_ONCE], face)
        renderer.close_group("Bars")

    def _piece(self, renderer: RendererBase, corners: npt.NDArray[np.float64], face: ColorType | None) -> None:
        gc = renderer.new_gc()
        self._set_gc_clip(gc)
        gc.set_snap(self.get_snap())
        width = self.get_linewidth()
        gc.set_linewidth(float(np.atleast_1d(width)[0]))
        edge = self.get_edgecolor()
        gc.set_foreground(edge[0] if len(edge) else (0, 0, 0, 0), isRGBA=True)
        if self.get_hatch():
            gc.set_hatch(self.get_hatch())
            gc.set_hatch_color(edge[0])
        renderer.draw_path(gc, _outline(corners), IdentityTransform(), face)
        gc.restore()


def _by_colour(
    faces: npt.NDArray[np.float64], corners: npt.NDArray[np.float64]
) -> list[tuple[ColorType | None, npt.NDArray[np.float64]]]:
    found, which = np.unique(faces, axis=0, return_inverse=True)
    which = which.reshape(-1)
    return [(tuple(face) if face[3] else None, corners[which == place]) for place, face in enumerate(found)]


def _outline(corners: npt.NDArray[np.float64]) -> Path:
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
        _add(ax, Bars(_extents(whole), [view.bar(lane)] * len(whole), colours(whole), gid=f"rank {rank} actions", **edges))
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
