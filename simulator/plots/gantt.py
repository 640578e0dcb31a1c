"""Gantt chart of a step: what each rank computes, what it communicates beneath, and where it waits.

A bar is one action on one stage, from its first compute op to its last op: what its tensor-parallel
communication exposes is inside. Every length is true to scale; nothing is widened to be seen. Two actions that overlap
are one bar of two halves, the forward above, each with its number. What of a bar is recomputation has a colour of its
own, where it ran if that is wide enough, or else in one piece at the bar's start. Of a schedule in which microbatches
enter at both ends of the pipeline, bars of the first direction are dark and those of the second pale.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerBase, HandlerTuple
from matplotlib.patches import Patch, Rectangle
from matplotlib.transforms import ScaledTranslation

from simulator.plots import Framed, _bars, _hops, _in_flight, _numbers, _recompute
from simulator.plots._actions import ACTIONS, AXES, IDLE, OTHER_AXES, STAGED, WAIT, tint
from simulator.plots._canvas import GREY, framed, new_axes, text_width, time_axis, time_unit
from simulator.plots._in_flight import Held
from simulator.plots._lanes import View

_WORDS = {"pp": "transfers", "host": "copies"}


def draw(
    result: Framed,
    ax: Axes | None = None,
    *,
    ranks: str | Sequence[int] = "pp",
    window: tuple[float, float] | None = None,
    arrows: bool = False,
    memory: bool | str = False,
    legend: bool = True,
) -> Axes:
    """Draw one lane per chosen rank, rank 0 on top, and return the axes; their x axis is in seconds.

    `ranks` is a mesh axis, for one representative (the smallest rank) of each of its coordinates, or a list of ranks
    that are in the result's frames. `window` is the time to show, in seconds; it may reach beyond the step's end, to
    compare several steps on one scale. `arrows` lead from the end of the action that sends a message to the start of
    the one that needs it. `memory` draws beneath each lane what its rank holds: True for bytes where the result knows
    them and else for chunks (microbatches in flight, counted on each stage), or one of "bytes" and "chunks".
    `legend=False` leaves out the legend.

    Virtual stages of a rank go from dark to pale; the number in a bar is its microbatch, where it fits.
    """
    result = framed("gantt", result)
    held = _in_flight.held(result, memory) if memory else None
    view = View.of(result, ranks, window, room=held is not None)
    if ax is None:
        ax = _new_axes(view)
    _frame(ax, view, result.title)
    if held is not None:
        _in_flight.draw(ax, view, held)
    if legend:
        _legend(ax, view, held)
    width = _settled_width(ax)
    _bars.background(ax, view)
    _bars.actions(ax, view, width)
    _bars.recompute(ax, view)
    _bars.communication(ax, view)
    if arrows:
        _hops.draw(ax, view, result)
    numbered = _numbers.write(ax, view, width)
    _write_subtitle(ax, view, result, numbered=numbered)
    return ax


def _new_axes(view: View) -> Axes:
    """Axes in a figure that grows with the lanes."""
    lanes = len(view.ranks)
    return new_axes(14.0, 1.7 + lanes * ((0.75 if lanes <= 8 else 0.5) + 0.25 * view.room))


def _frame(ax: Axes, view: View, title: str) -> None:
    time_axis(ax, *view.limits)
    ax.set_ylim(len(view.ranks) - 0.5, -0.5)
    ax.set_yticks([sum(view.bar(lane)) - view.bar_height / 2 for lane in range(len(view.ranks))], view.labels)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_title(title, loc="left", fontsize=11, pad=20, wrap=True)


def _write_subtitle(ax: Axes, view: View, result: Framed, *, numbered: bool) -> None:
    """How to read the picture, in grey beneath the title."""
    above = ax.transAxes + ScaledTranslation(0, 6 / 72, ax.figure.dpi_scale_trans)
    parts = list(_remarks(view, result, numbered=numbered))
    room = ax.figure.bbox.width - ax.get_window_extent().x0
    while parts and text_width(ax, " · ".join(parts), 9) > room:
        parts.pop()
    ax.text(0, 1, " · ".join(parts), size=9, color=GREY, transform=above, in_layout=False)


def _remarks(view: View, result: Framed, *, numbered: bool) -> Iterator[str]:
    """The most important ones first."""
    scale, unit = time_unit(result.step_time)
    yield f"step {result.step_time * scale:.4g} {unit}"
    bubble = getattr(result, "bubble_fraction", None)
    if bubble is not None and len(result.coordinates) > 1:
        yield f"bubble {bubble:.1%}"
    if numbered:
        yield "number: microbatch"
    if view.whole and len(view.recompute):
        yield "recompute: its share, at the start of a bar"
    if view.directions > 1:
        yield "dark: the first direction, pale: the second"
    elif view.stages > 1:
        yield f"dark to pale: the {view.stages} stages of a rank"
    if max(view.alike, default=1) > 1:
        counts = " to ".join(f"{count:,}" for count in sorted({view.alike[0], view.alike[-1]}))
        yield f"a lane stands for {counts} ranks"


def _legend(ax: Axes, view: View, held: Held | None) -> None:
    """Beneath the x axis, as wide as the axes, with an entry for each thing that is seen."""
    entries = list(_entries(view, held))
    beneath = ScaledTranslation(0, -36 / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        [handle for handle, _ in entries],
        [label for _, label in entries],
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0), _Pair: _PairHandler()},
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=ax.transAxes + beneath,
        ncols=_columns(ax, [label for _, label in entries]),
        frameon=False,
        fontsize=9,
        borderaxespad=0,
        borderpad=0,
        columnspacing=1.4,
        handlelength=1.8,
    )


def _columns(ax: Axes, labels: Sequence[str]) -> int:
    """How many columns make the fewest rows of a legend within the width of the axes."""
    around = 9 * (1.8 + 0.8 + 1.4)
    needed = [text_width(ax, label, 9) / ax.figure.dpi * 72 + around for label in labels]
    room = _settled_width(ax) + 9 * 1.4
    for rows in range(1, len(labels) + 1):
        columns = [needed[start : start + rows] for start in range(0, len(labels), rows)]
        if sum(map(max, columns)) <= room:
            return len(columns)
    return 1


def _entries(view: View, held: Held | None) -> Iterator[tuple[Artist | tuple[Artist, ...], str]]:
    kinds = view.actions["action"].unique()
    for action, (colour, label) in ACTIONS.items():
        if action in kinds:
            staged = view.stages > 1 and action in STAGED
            shades = numpy.linspace(0, 1, min(view.stages, 4)) if staged else [0]
            yield tuple(Patch(color=tint(colour, shade)) for shade in shades), label
    if (view.actions["half"] > 0).any():
        yield _Pair(), "F and B overlapped"
    if len(view.recompute):
        yield Patch(color=_recompute.COLOUR), "recompute"
    for axis in view.axes:
        yield Patch(color=AXES.get(axis, OTHER_AXES)), f"{axis} {_WORDS.get(axis, 'communication')}"
    if len(view.waits):
        yield Patch(facecolor=IDLE, edgecolor=WAIT, hatch="/////", linewidth=0), "waits"
    if view.idle:
        yield Patch(color=IDLE), "nothing left to do"
    if held is not None:
        words = "memory" if held.kind == "bytes" else "chunks in flight"
        yield Patch(facecolor=_in_flight.FILL, edgecolor=_in_flight.LINE, linewidth=0.8), words


class _Pair(Patch):
    """Stands for overlapped pairs in the legend."""


class _PairHandler(HandlerBase):
    """Draws a swatch of two halves."""

    def create_artists(self, legend: Any, orig_handle: Any, *place: Any) -> list[Artist]:
        """The half of F above that of B."""
        left, bottom, width, height, _, transform = place
        halves = (("F", bottom + height / 2), ("B", bottom))
        return [
            Rectangle((left, y), width, height / 2, color=ACTIONS[kind][0], linewidth=0, transform=transform)
            for kind, y in halves
        ]


def _settled_width(ax: Axes) -> float:
    """Width of the axes in points, once the figure's layout has made room for what is around them."""
    figure = ax.figure
    engine = figure.get_layout_engine()
    if engine is not None and isinstance(figure, Figure):
        engine.execute(figure)
    return float(ax.get_window_extent().width) / figure.dpi * 72
