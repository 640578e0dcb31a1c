"""Arrows of a Gantt chart: which action each message comes from, and which one it lets start."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.collections import LineCollection
from matplotlib.path import Path
from matplotlib.transforms import IdentityTransform

from simulator.plots import Framed
from simulator.plots._actions import ACTIONS, Colour, darkened
from simulator.plots._canvas import pixels
from simulator.plots._lanes import View, on_lanes
from simulator.plots._svg import Floats

_HEAD = 5.0, 4.0
"""Length and width of a head in points."""
_WIDTH, _OPACITY = 0.8, 0.75
_ACTION = ["rank", "stage", "action", "microbatch"]


class Arrows(LineCollection):
    """Straight lines in one colour with heads of one size, whatever the scale of the axes, drawn in one piece."""

    def __init__(self, segments: Sequence[Sequence[tuple[float, float]]], colour: Colour, **style: Any) -> None:
        super().__init__(segments, colors=[colour], linewidths=[_WIDTH], **style)
        self._colour = colour

    def draw(self, renderer: RendererBase) -> None:
        """Draw the lines as one path, and the heads as another."""
        if not self.get_visible() or self.axes is None:
            return
        renderer.open_group("Arrows", self.get_gid())
        ends = np.asarray(self.get_segments())
        tails, tips = (self.get_transform().transform(ends[:, place]) for place in (0, 1))
        length, width = (pixels(renderer, each) for each in _HEAD)
        distance = np.hypot(*(tips - tails).T)[:, None].clip(min=1e-9)
        along = (tips - tails) / distance
        necks = tips - along * np.minimum(length, 0.7 * distance)
        across = along[:, ::-1] * (1, -1) * width / 2
        gc = renderer.new_gc()
        gc.set_clip_rectangle(self.axes.bbox)
        gc.set_foreground(self._colour)
        gc.set_alpha(_OPACITY)
        gc.set_linewidth(_WIDTH)
        renderer.draw_path(gc, _joined(tails, necks), IdentityTransform())
        gc.set_linewidth(0)
        renderer.draw_path(gc, _joined(tips, necks + across, necks - across), IdentityTransform(), self._colour)
        gc.restore()
        renderer.close_group("Arrows")


def _joined(*points: Floats) -> Path:
    """One path through the points at each place of the arrays."""
    vertices = np.stack(points, axis=1).round(2)
    codes = np.tile([Path.MOVETO] + [Path.LINETO] * (len(points) - 1), len(vertices))
    return Path(vertices.reshape(-1, 2), codes.astype(Path.code_type))


def hops(result: Framed, ranks: tuple[int, ...]) -> pandas.DataFrame:
    """One row for each message between two of the ranks: the action that it ends, and the one that begins with it.

    Columns `action`, `source` and `target` (lanes), `left` (the end of the one) and `right` (the start of the other).
    """
    spans, actions = result.to_frame("spans"), on_lanes(result.to_frame("actions"), ranks)
    messages = spans[(spans["message"] >= 0) & spans["rank"].isin(ranks)]
    sends = messages.loc[messages["kind"] == "send", [*_ACTION, "message"]].drop_duplicates("message")
    receives = messages.loc[messages["kind"] == "recv", [*_ACTION, "message"]]
    ends = actions[[*_ACTION, "lane", "end_seconds"]].rename(columns={"lane": "source", "end_seconds": "left"})
    starts = actions[[*_ACTION, "lane", "start_seconds"]].rename(columns={"lane": "target", "start_seconds": "right"})
    sent = sends.merge(ends, on=_ACTION)[["message", "action", "source", "left"]]
    received = receives.merge(starts, on=_ACTION)[["message", "target", "right"]]
    found = sent.merge(received, on="message")
    return found[found["source"] != found["target"]].drop(columns="message").reset_index(drop=True)


def draw(ax: Axes, view: View, result: Framed) -> None:
    """An arrow for each hop that is seen, from the producer's bar to the consumer's, in the colour of its action.

    Those between lanes that are not neighbours pass behind the bars in between.
    """
    found = hops(result, view.ranks)
    start, end = view.limits
    found = found[(found["right"] >= start) & (found["left"] <= end)]
    near = (found["source"] - found["target"]).abs() == 1
    for (action, beside), rows in found.groupby(["action", near]):
        columns = (rows[name].tolist() for name in ("left", "source", "right", "target"))
        segments = [_ends(view, *each) for each in zip(*columns, strict=True)]
        colour = darkened(ACTIONS[str(action)][0])
        arrows = Arrows(segments, colour, zorder=2.5 if beside else 0.9, gid=f"hops {action}")
        ax.add_collection(arrows, autolim=False)


def _ends(view: View, left: float, source: int, right: float, target: int) -> list[tuple[float, float]]:
    """From the edge of the producer's bar that faces the consumer's to that one's nearest edge."""
    (top, height), (other, _) = view.bar(source), view.bar(target)
    if target > source:
        return [(left, top + height), (right, other)]
    return [(left, top), (right, other + height)]
