"""Memory of the pipeline's ranks at their peaks, a stacked bar each."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from simulator.plots import Framed
from simulator.plots._canvas import headline, ink, legend_beneath, new_axes, text_width
from simulator.plots._memory import limits, patches, rows_of, with_memory, write_above
from simulator.plots._ranks import by_coordinate, by_number
from topologies.units import GIGA

_RESERVED: dict[str, Any] = {"facecolor": "white", "edgecolor": "#8A8A8A", "hatch": "//////", "linewidth": 0.6}


def draw(result: Framed, ax: Axes | None = None, *, ranks: str | Sequence[int] = "pp") -> Axes:
    """Draw a bar per chosen rank: the rows at its peak, what is reserved beyond, what there is; return the axes.

    `ranks` is a mesh axis, for the fullest rank of each of its coordinates, or a list of ranks that are in the result's
    frames. Numbers are GB: in a bar those of its rows, above it their sum.
    """
    result, memory = with_memory("memory_bars", result)
    chosen = _chosen(result, memory, ranks)
    bars = memory.set_index("rank").loc[list(chosen)].reset_index()
    if ax is None:
        ax = new_axes(min(max(7.0, 2.0 + 0.8 * len(bars)), 14.0), 5.2)
    colours = rows_of(bars)
    middle, half = (len(bars) - 1) / 2, max(len(bars), 3) / 2 + 0.1
    ax.set_xlim(middle - half, middle + half)
    limits(ax, bars["reserved_bytes"].max(), bars["usable_bytes"].min())
    ax.set_xticks(range(len(bars)), [_label(result, rank) for rank in chosen], fontsize=9 if len(bars) <= 16 else 7)
    ax.tick_params(axis="x", length=0)
    legend_beneath(ax, [*patches(colours), Patch(**_RESERVED, label="reserved beyond")], inches=1.7)
    _bars(ax, bars, colours)
    headline(ax, result.title, _subtitle(bars))
    return ax


def _chosen(result: Framed, memory: pandas.DataFrame, ranks: str | Sequence[int]) -> tuple[int, ...]:
    """The fullest rank of each coordinate, or those that were named."""
    if not isinstance(ranks, str):
        return by_number(result, ranks)
    totals = dict(zip(memory["rank"], memory["total_bytes"], strict=True))
    return tuple(max(alike, key=lambda rank: totals[rank]) for alike in by_coordinate(result, ranks).values())


def _label(result: Framed, rank: int) -> str:
    place = result.coordinates[rank].get("pp")
    return f"rank {rank}" if place is None else f"pp {place}\nrank {rank}"


def _bars(ax: Axes, bars: pandas.DataFrame, colours: Mapping[str, str]) -> None:
    places = range(len(bars))
    floor = pandas.Series(0.0, index=bars.index)
    for name, colour in colours.items():
        sizes = bars[f"{name}_bytes"] / GIGA
        ax.bar(places, sizes, 0.72, bottom=floor, color=colour, edgecolor="white", linewidth=0.5, gid=name)
        for place, size, below in zip(places, sizes, floor, strict=True):
            _number(ax, place, below, size, ink(colour))
        floor = floor + sizes
    beyond = bars["reserved_bytes"] / GIGA - floor
    ax.bar(places, beyond, 0.72, bottom=floor, **_RESERVED, gid="reserved")
    for place, total, top, usable in zip(places, floor, floor + beyond, bars["usable_bytes"], strict=True):
        write_above(ax, f"{total:.1f}", (place, top), usable=usable)


def _number(ax: Axes, place: int, below: float, size: float, colour: str) -> None:
    """The size of a row in its part of the bar, where it has room."""
    box = ax.get_window_extent()
    across, along = box.width * 0.72 / (ax.get_xlim()[1] - ax.get_xlim()[0]), box.height * size / ax.get_ylim()[1]
    text = f"{size:.1f}"
    if along > 12 * ax.figure.dpi / 72 and across > text_width(ax, text, 8.5) + 2:
        ax.text(place, below + size / 2, text, ha="center", va="center_baseline", size=8.5, color=colour)


def _subtitle(bars: pandas.DataFrame) -> str:
    """How to read it."""
    counts = sorted(set(bars["ranks_in_class"].tolist()))
    parts = ["GB at each rank's peak"]
    if counts[-1] > 1:
        parts.append(f"a bar stands for {' to '.join(f'{count:,}' for count in {counts[0], counts[-1]})} ranks")
    return " · ".join(parts)
