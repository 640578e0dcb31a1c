"""Gantt chart of a step: what each rank computes, what it communicates beneath, and where it waits.

A bar is one action on one stage, from its first compute op to its last op: what its tensor-parallel
communication exposes is inside. Every length is true to scale; nothing is widened to be seen. What of a bar is
recomputation has a colour of its own, where it ran if that is wide enough, or else in one piece at the bar's start.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy
import pandas
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

from simulator.plots import Framed, _recompute
from simulator.plots._canvas import framed, ink, new_axes, text_width, time_axis, time_unit
from simulator.plots._ranks import by_coordinate, by_number

# Dark or pale, all stay at least 15 CIELAB units apart under protanopia and deuteranopia (Machado et al. 2009) too.
_ACTIONS = {
    "F": ("#2F5FA8", "F forward"),
    "B": ("#148F77", "B backward"),
    "I": ("#E3C62F", "I input gradient"),
    "W": ("#B5651D", "W weight gradient"),
    "open": ("#8C7AA9", "opening"),
    "optimizer": ("#333333", "optimizer"),
}
_STAGED = ("F", "B", "I", "W")
_AXES = {"tp": "#EE7733", "cp": "#DDCC44", "ep": "#33BBEE", "fsdp": "#CC3311", "dp": "#AA3377", "pp": "#332288"}
_OTHER_AXES = "#777777"
_WORDS = {"pp": "transfers", "host": "copies"}
_IDLE = "#ECECEC"
_WAIT = "#A8A8A8"
_PALEST = 0.5
_SIZES = (9, 8, 7, 6)


def draw(
    result: Framed,
    ax: Axes | None = None,
    *,
    ranks: str | Sequence[int] = "pp",
    window: tuple[float, float] | None = None,
) -> Axes:
    """Draw one lane per chosen rank, rank 0 on top, and return the axes; their x axis is in seconds.

    `ranks` is a mesh axis, for one representative (the smallest rank) of each of its coordinates, or a list
    of ranks that are in the result's frames. `window` is the part of the step to show, in seconds. Virtual
    stages of a rank go from dark to pale; the number in a bar is its microbatch, where it fits.
    """
    view = _View.of(framed("gantt", result), ranks, window)
    if ax is None:
        ax = _new_axes(view)
    _frame(ax, view, result.title)
    _legend(ax, view)
    _paint_background(ax, view)
    _paint_actions(ax, view)
    _paint_recompute(ax, view)
    _paint_communication(ax, view)
    _write_microbatches(ax, view)
    _write_subtitle(ax, view, result.step_time)
    return ax


@dataclass(frozen=True, slots=True)
class _View:
    """What is shown: the lanes' ranks, top first, the visible rows of the frames, and the limits in seconds.

    All rows have a `lane`; those of `actions` a `shade`, from 0 (a rank's first stage) to 1 (its last).
    `transfers` has a row for each rank that takes part: a message is beneath its sender and its receiver. `recompute`
    are the parts of bars that are so, `whole` if those of an action are in one piece at its start.
    """

    ranks: tuple[int, ...]
    labels: tuple[str, ...]
    actions: pandas.DataFrame
    transfers: pandas.DataFrame
    waits: pandas.DataFrame
    recompute: pandas.DataFrame
    whole: bool
    limits: tuple[float, float]
    stages: int
    alike: tuple[int, ...]

    @classmethod
    def of(cls, result: Framed, ranks: str | Sequence[int], window: tuple[float, float] | None) -> "_View":
        """What the chosen ranks do within the window."""
        chosen = _chosen(result, ranks)
        everywhere = result.to_frame("spans")
        spans = _on_lanes(everywhere, chosen)
        actions = _shaded(_on_lanes(result.to_frame("actions"), chosen))
        limits = _limits(result, actions, window)
        recompute = _recompute.stretches(spans)
        whole = _recompute.too_fine(recompute, limits)
        if whole:
            recompute = _recompute.gathered(recompute, actions)
        return cls(
            ranks=chosen,
            labels=tuple(_label(result, rank) for rank in chosen),
            actions=_visible(actions, limits, "start_seconds"),
            transfers=_visible(_transfers(everywhere, spans), limits, "began_seconds"),
            waits=_visible(_waits(actions), limits, "start_seconds"),
            recompute=_visible(recompute, limits, "start_seconds"),
            whole=whole,
            limits=limits,
            stages=max(actions["stages"].tolist(), default=1),
            alike=tuple(sorted(set(actions["ranks_in_class"].tolist()))),
        )

    @property
    def axes(self) -> list[str]:
        """The axes whose communication is seen, the innermost first."""
        order = list(_AXES)
        seen = self.transfers["axis"].unique().tolist()
        return sorted(seen, key=lambda axis: (order.index(axis) if axis in order else len(order), axis))

    @property
    def idle(self) -> bool:
        """Whether a lane has a gap that is neither action nor wait."""
        start, end = self.limits
        rows = pandas.concat([self.actions, self.waits])[["lane", "left", "right"]]
        edges = pandas.DataFrame({"lane": range(len(self.ranks)), "left": end, "right": end})
        rows = pandas.concat([rows, edges]).sort_values(["lane", "left"], ignore_index=True)
        reached = rows.groupby("lane")["right"].cummax().groupby(rows["lane"]).shift(fill_value=start)
        return bool((rows["left"] - reached > 1e-6 * (end - start)).any())

    @property
    def bar_height(self) -> float:
        """Height of an action's bar, the distance between lanes being 1."""
        return 0.84 - min(0.1 * len(self.axes), 0.32) if self.axes else 0.76

    def bar(self, lane: int) -> tuple[float, float]:
        """Top and height of a lane's bars."""
        return lane - 0.42, self.bar_height

    def strip(self, lane: int, axis: str) -> tuple[float, float]:
        """Top and height of the thin bars of an axis, beneath those of the actions."""
        height = (0.84 - self.bar_height) / len(self.axes)
        return lane - 0.42 + self.bar_height + self.axes.index(axis) * height + 0.1 * height, 0.8 * height


def _chosen(result: Framed, ranks: str | Sequence[int]) -> tuple[int, ...]:
    if not isinstance(ranks, str):
        return by_number(result, ranks)
    return tuple(alike[0] for alike in by_coordinate(result, ranks).values())


def _label(result: Framed, rank: int) -> str:
    place = result.coordinates[rank].get("pp")
    return f"rank {rank}" if place in (None, rank) else f"pp {place} · rank {rank}"


def _on_lanes(frame: pandas.DataFrame, ranks: tuple[int, ...]) -> pandas.DataFrame:
    lanes = {rank: lane for lane, rank in enumerate(ranks)}
    frame = frame[frame["rank"].isin(lanes)]
    return frame.assign(lane=frame["rank"].map(lanes))


def _shaded(actions: pandas.DataFrame) -> pandas.DataFrame:
    """With `shade`, where the action's stage lies among those of its rank, and `stages`, how many they are."""
    stages = actions["stage"].where(actions["action"].isin(_STAGED)).astype(float).groupby(actions["rank"])
    count = stages.transform("nunique")
    shade = (stages.rank(method="dense") - 1) / (count - 1).clip(lower=1)
    return actions.assign(shade=shade.fillna(0.0), stages=count)


def _limits(result: Framed, actions: pandas.DataFrame, window: tuple[float, float] | None) -> tuple[float, float]:
    last = max([result.step_time, *actions["end_seconds"]])
    if window is None:
        return 0.0, last
    start, end = map(float, window)
    if not (math.isfinite(start) and math.isfinite(end) and max(start, 0) < min(end, last)):
        raise ValueError(
            f"window=({start:g}, {end:g}) shows nothing: give (start, end) in seconds within 0 to {last:g}"
        )
    return start, end


def _waits(actions: pandas.DataFrame) -> pandas.DataFrame:
    """The gaps before actions, from the step's start on: until the last one, a rank without one waits for something."""
    actions = actions.sort_values(["lane", "start_seconds"], ignore_index=True)
    reached = actions.groupby("lane")["end_seconds"].cummax().groupby(actions["lane"]).shift(fill_value=0.0)
    gaps = actions[["lane"]].assign(start_seconds=reached, end_seconds=actions["start_seconds"])
    return gaps[gaps["end_seconds"] > gaps["start_seconds"]]


def _transfers(spans: pandas.DataFrame, own: pandas.DataFrame) -> pandas.DataFrame:
    """Collectives and messages of the ranks on lanes; what a receive waited for ran when its send says."""
    sent = (spans["kind"] == "send") & (spans["message"] >= 0)
    sends = spans.loc[sent, ["message", "began_seconds", "end_seconds"]].drop_duplicates("message")
    received = own.loc[own["kind"] == "recv", ["lane", "axis", "message"]].merge(sends, on="message")
    columns = ["lane", "axis", "began_seconds", "end_seconds"]
    there = own.loc[(own["work"] != "compute") & (own["kind"] != "recv"), columns]
    return pandas.concat([there, received[columns]])


def _visible(frame: pandas.DataFrame, limits: tuple[float, float], start: str) -> pandas.DataFrame:
    """The rows that take time within the limits, in order of start; `left` and `right` are what is seen of them."""
    begin, end = frame[start].astype(float), frame["end_seconds"].astype(float)
    frame = frame.assign(begin=begin, left=begin.clip(*limits), right=end.clip(*limits))
    return frame[frame["right"] > frame["left"]].sort_values("begin", kind="stable", ignore_index=True)


def _new_axes(view: _View) -> Axes:
    """Axes in a figure that grows with the lanes."""
    lanes = len(view.ranks)
    return new_axes(14.0, 1.7 + lanes * (0.75 if lanes <= 8 else 0.5))


def _frame(ax: Axes, view: _View, title: str) -> None:
    time_axis(ax, *view.limits)
    ax.set_ylim(len(view.ranks) - 0.5, -0.5)
    ax.set_yticks([sum(view.bar(lane)) - view.bar_height / 2 for lane in range(len(view.ranks))], view.labels)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_title(title, loc="left", fontsize=11, pad=20, wrap=True)


def _write_subtitle(ax: Axes, view: _View, step_time: float) -> None:
    """How to read the picture, in grey beneath the title."""
    scale, unit = time_unit(step_time)
    parts = [f"step {step_time * scale:.4g} {unit}"]
    if ax.texts:
        parts.append("number: microbatch")
    if view.whole and len(view.recompute):
        parts.append("recompute: its share, at the start of a bar")
    if view.stages > 1:
        parts.append(f"dark to pale: the {view.stages} stages of a rank")
    if max(view.alike, default=1) > 1:
        counts = " to ".join(f"{count:,}" for count in sorted({view.alike[0], view.alike[-1]}))
        parts.append(f"a lane stands for {counts} ranks")
    above = ax.transAxes + ScaledTranslation(0, 6 / 72, ax.figure.dpi_scale_trans)
    room = ax.figure.bbox.width - ax.get_window_extent().x0
    while parts and text_width(ax, " · ".join(parts), 9) > room:
        parts.pop()
    ax.text(0, 1, " · ".join(parts), size=9, color="#555555", transform=above, in_layout=False)


def _legend(ax: Axes, view: _View) -> None:
    """Beneath the x axis, as wide as the axes, with an entry for each thing that is seen."""
    entries = list(_entries(view))
    beneath = ScaledTranslation(0, -36 / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        [handle for handle, _ in entries],
        [label for _, label in entries],
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=ax.transAxes + beneath,
        ncols=max(1, min(len(entries), int(_settled_width(ax) / ax.figure.dpi / 1.5))),
        frameon=False,
        fontsize=9,
        borderaxespad=0,
        borderpad=0,
        columnspacing=1.4,
        handlelength=1.8,
    )


def _entries(view: _View) -> Iterator[tuple[Patch | tuple[Patch, ...], str]]:
    kinds = view.actions["action"].unique()
    for action, (colour, label) in _ACTIONS.items():
        if action in kinds:
            staged = view.stages > 1 and action in _STAGED
            shades = numpy.linspace(0, 1, 3) if staged else [0]
            yield tuple(Patch(color=_tint(colour, shade)) for shade in shades), label
    if len(view.recompute):
        yield Patch(color=_recompute.COLOUR), "recompute"
    for axis in view.axes:
        yield Patch(color=_AXES.get(axis, _OTHER_AXES)), f"{axis} {_WORDS.get(axis, 'communication')}"
    if len(view.waits):
        yield Patch(facecolor=_IDLE, edgecolor=_WAIT, hatch="/////", linewidth=0), "waits"
    if view.idle:
        yield Patch(color=_IDLE), "nothing left to do"


def _settled_width(ax: Axes) -> float:
    """Width of the axes in pixels, once the figure's layout has made room for what is around them."""
    figure = ax.figure
    engine = figure.get_layout_engine()
    if engine is not None and isinstance(figure, Figure):
        engine.execute(figure)
    return float(ax.get_window_extent().width)


def _paint_background(ax: Axes, view: _View) -> None:
    start, end = view.limits
    for lane, rank in enumerate(view.ranks):
        ax.broken_barh([(start, end - start)], view.bar(lane), facecolor=_IDLE, zorder=0.5, gid=f"rank {rank} idle")
        waits = view.waits[view.waits["lane"] == lane]
        if len(waits):
            ax.broken_barh(
                _extents(waits),
                view.bar(lane),
                facecolor=_IDLE,
                edgecolor=_WAIT,
                hatch="/////",
                linewidth=0,
                zorder=0.6,
                gid=f"rank {rank} waits",
            )


def _paint_actions(ax: Axes, view: _View) -> None:
    narrow = not len(view.actions) or _pixels(ax, view.actions).median() < 6
    for lane, rank in enumerate(view.ranks):
        rows = view.actions[view.actions["lane"] == lane]
        bars = ax.broken_barh(_extents(rows), view.bar(lane), facecolors=_colours(rows), gid=f"rank {rank} actions")
        bars.set(edgecolor="white", linewidth=0 if narrow else 0.5, snap=not narrow)


def _paint_recompute(ax: Axes, view: _View) -> None:
    for lane, rank in enumerate(view.ranks):
        rows = view.recompute[view.recompute["lane"] == lane]
        if len(rows):
            bars = ax.broken_barh(
                _extents(rows), view.bar(lane), facecolor=_recompute.COLOUR, gid=f"rank {rank} recompute"
            )
            bars.set(linewidth=0, snap=True)


def _paint_communication(ax: Axes, view: _View) -> None:
    """Thin bars, not snapped to pixels: where they are narrower than one, their shade is the share of time."""
    for (lane, rank), axis in product(enumerate(view.ranks), view.axes):
        rows = view.transfers[(view.transfers["lane"] == lane) & (view.transfers["axis"] == axis)]
        colour = _AXES.get(axis, _OTHER_AXES)
        place = view.strip(lane, axis)
        ax.broken_barh(_extents(rows), place, facecolor=colour, linewidth=0, snap=False, gid=f"rank {rank} {axis}")


def _write_microbatches(ax: Axes, view: _View) -> None:
    """Numbers in the bars that have room for them, in the largest size in which most of the bars do."""
    rows = _recompute.remaining(view.actions, view.recompute) if view.whole else view.actions
    rows = rows[rows["action"].isin(_STAGED)]
    room = _pixels(ax, rows) - 4
    texts = rows["microbatch"].astype(int).astype(str)
    widths = {size: texts.map({text: text_width(ax, text, size) for text in texts.unique()}) for size in _SIZES}
    size = next((size for size in _SIZES if len(rows) and (widths[size] <= room).mean() > 0.9), _SIZES[-1])
    tall = view.bar_height / len(view.ranks) * ax.get_window_extent().height
    fits = (widths[size] <= room) & (size * ax.figure.dpi / 72 <= tall)
    middles = (rows["left"] + rows["right"]) / 2
    columns = (middles[fits], rows["lane"][fits], texts[fits], _colours(rows[fits]))
    for middle, lane, text, colour in zip(*columns, strict=True):
        top, height = view.bar(lane)
        where = middle, top + height / 2
        ax.text(*where, text, size=size, color=ink(colour), ha="center", va="center_baseline", clip_on=True)


def _pixels(ax: Axes, rows: pandas.DataFrame) -> "pandas.Series[float]":
    start, end = ax.get_xlim()
    return (rows["right"] - rows["left"]) / (end - start) * _settled_width(ax)


def _extents(rows: pandas.DataFrame) -> list[tuple[float, float]]:
    return list(zip(rows["begin"], rows["end_seconds"] - rows["begin"], strict=True))


def _colours(rows: pandas.DataFrame) -> list[tuple[float, float, float]]:
    kinds = zip(rows["action"].tolist(), rows["shade"].tolist(), strict=True)
    return [_tint(_ACTIONS[action][0], shade) for action, shade in kinds]


def _tint(colour: str, shade: float) -> tuple[float, float, float]:
    """The colour mixed with white: as it is at shade 0, palest at 1."""
    red, green, blue = (part + (1 - part) * _PALEST * shade for part in to_rgb(colour))
    return red, green, blue
