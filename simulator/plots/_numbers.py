"""Microbatch numbers of a Gantt chart, in the bars that have room for them."""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

import pandas
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_rgb
from matplotlib.font_manager import FontProperties

from simulator.plots import _recompute
from simulator.plots._actions import STAGED, colours
from simulator.plots._canvas import ink, pixels, text_width
from simulator.plots._lanes import View
from simulator.plots._svg import is_svg, texts

_SIZES = (9, 8, 7, 6, 5)
_MARGIN = 1.5
"""Points to the left and right of a number, together, and above and beneath it."""
_DIGIT = 0.73
"""Height of a digit over the size of the font: DejaVu Sans, which comes with matplotlib."""
_FONT = "DejaVu Sans"


class Number(NamedTuple):
    """A microbatch, where it is written in data coordinates, and the colour of its ink."""

    x: float
    y: float
    text: str
    colour: str


class Numbers(Artist):
    """All numbers of a picture in one size, `entries`, each centred on its place."""

    def __init__(self, entries: Iterable[Number], size: float) -> None:
        super().__init__()
        self.entries, self.size = tuple(entries), size
        self.set_zorder(3)
        self.set_gid("microbatches")

    def draw(self, renderer: RendererBase) -> None:
        """Draw the numbers; an SVG has one element of text for all of a colour."""
        if not (self.get_visible() and self.entries and self.axes):
            return
        renderer.open_group("text", self.get_gid())
        places = self.axes.transData.transform([(each.x, each.y) for each in self.entries]).tolist()
        drop = pixels(renderer, _DIGIT / 2 * self.size)
        lowered = [(each, x, y - drop) for each, (x, y) in zip(self.entries, places, strict=True)]
        lowered.sort(key=lambda item: item[0].colour)
        for colour, same in groupby(lowered, key=lambda item: item[0].colour):
            if is_svg(renderer):
                font = {"font-family": f"'{_FONT}', sans-serif", "font-size": f"{self.size}px"}
                style = {**font, "text-anchor": "middle", "fill": colour}
                texts(renderer, [(each.text, x, y) for each, x, y in same], style)
            else:
                self._stamp(renderer, same, colour)
        renderer.close_group("text")

    def _stamp(self, renderer: RendererBase, same: Iterable[tuple[Number, float, float]], colour: str) -> None:
        gc = renderer.new_gc()
        gc.set_foreground(colour)
        font = FontProperties(family=_FONT, size=self.size)
        height = renderer.get_canvas_width_height()[1] if renderer.flipy() else None
        for each, x, y in same:
            width = renderer.get_text_width_height_descent(each.text, font, ismath=False)[0]
            renderer.draw_text(gc, x - width / 2, y if height is None else height - y, each.text, font, 0)
        gc.restore()


def write(ax: Axes, view: View, width: float) -> bool:
    """Write the numbers in the largest size in which most of them fit into their bars; whether any did.

    `width` is that of the axes in points.
    """
    rows = _recompute.remaining(view.actions, view.recompute) if view.whole else view.actions
    rows = rows[rows["action"].isin(STAGED)]
    start, end = view.limits
    room = (rows["right"] - rows["left"]) / (end - start) * width - _MARGIN
    lane = ax.get_window_extent().height / ax.figure.dpi * 72 / len(view.ranks)
    tall = lane * view.bar_height / (1 + (rows["half"] > 0)) - _MARGIN
    size, fit = _size(ax, rows["microbatch"].astype(int).astype(str), room, tall)
    ax.add_artist(Numbers(_numbers(view, rows[fit]), size))
    return bool(fit.any())


def _size(
    ax: Axes, numbers: "pandas.Series[str]", room: "pandas.Series[float]", tall: "pandas.Series[float]"
) -> tuple[int, "pandas.Series[bool]"]:
    """The largest size in which nine in ten numbers fit, or the smallest, and which of them do; all in points."""
    for size in _SIZES:
        each = {text: text_width(ax, text, size, _FONT) * 72 / ax.figure.dpi for text in numbers.unique()}
        fit = (numbers.map(each).astype(float) <= room) & (_DIGIT * size <= tall)
        if size == _SIZES[-1] or (len(fit) and fit.mean() > 0.9):
            break
    return size, fit


def _numbers(view: View, rows: pandas.DataFrame) -> Iterable[Number]:
    columns = ("left", "right", "lane", "half", "microbatch")
    places = zip(*(rows[column].tolist() for column in columns), colours(rows), strict=True)
    for left, right, lane, half, microbatch, colour in places:
        top, height = view.bar(lane, half)
        yield Number((left + right) / 2, top + height / 2, str(int(microbatch)), ink(to_rgb(colour)))
