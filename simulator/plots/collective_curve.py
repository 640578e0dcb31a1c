"""Time and bus bandwidth of a collective over message sizes, by algorithm, beside measurements where there are any."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy
import pandas
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from simulator.plots import Timed
from simulator.plots._canvas import headline, new_axes, time_unit
from topologies.units import GIGA

if TYPE_CHECKING:
    from simulator.collective_time import CollectiveTime

SIZES = tuple(2.0**power for power in range(10, 35))
"""Message sizes by default: 1 KiB to 16 GiB."""
_COLOURS = ("#2F5FA8", "#CC5500", "#148F77", "#8C3FA0", "#7A6A00", "#444444")
_MARKERS = "osD^vP"
_MEASURED = ("size_bytes", "time_seconds")


def draw(
    collective: Timed,
    ax: Axes | None = None,
    *,
    sizes: Sequence[float] = SIZES,
    algorithms: Sequence[str] = ("auto",),
    measured: "pandas.DataFrame | None" = None,
) -> Axes:
    """Draw time (left axis, solid) and bus bandwidth (right axis, dashed) over message sizes; return the left axes.

    `sizes` are bytes of one rank's whole buffer. There is a line for each of `algorithms`; along `auto` the name of
    the algorithm stands where it takes over. `measured` has columns `size_bytes` and `time_seconds`, and `series` if
    there are several; its points are hollow for bandwidth. Ranks and topology are the subject's.
    """
    if not _is_timed(collective):
        raise ValueError(f"collective_curve draws the time of a collective, not {collective!r}")
    curves = _curves(collective, sizes, algorithms)
    series = list(_series(collective, measured))
    if ax is None:
        ax = new_axes(10.0, 5.6)
    right = ax.twinx()
    _lines(ax, right, curves)
    _points(ax, right, series)
    _frame(ax, right, [*curves, *series])
    _mark_changes(ax, curves)
    headline(ax, collective.title, "solid: time · dashed: bus bandwidth, as nccl-tests defines it")
    if len(curves) + len(series) > 1:
        ax.legend(loc="upper left", frameon=False, fontsize=9)
    return ax


@dataclass(frozen=True, slots=True)
class _Line:
    """Seconds and bus bandwidth, bytes/s, over sizes in bytes; `algorithms` names the one at each size, if known."""

    name: str
    sizes: list[float]
    seconds: list[float]
    rates: list[float]
    algorithms: list[str]
    colour: str


def _is_timed(subject: object) -> "TypeGuard[CollectiveTime]":
    return all(hasattr(subject, name) for name in ("kind", "ranks", "topology", "algorithm"))


def _curves(collective: Timed, sizes: Sequence[float], algorithms: Sequence[str]) -> list[_Line]:
    from simulator.collective_time import collective_curve

    names = [algorithms] if isinstance(algorithms, str) else list(algorithms)
    ordered = sorted(float(size) for size in sizes)
    if not names or not ordered:
        raise ValueError(f"algorithms={algorithms} and sizes={sizes} leave nothing to draw; give at least one of each")
    kind, ranks, topology = collective.kind, collective.ranks.tolist(), collective.topology
    lines = []
    for name, colour in zip(names, itertools.cycle(_COLOURS), strict=False):
        done = collective_curve(kind, sizes=ordered, ranks=ranks, topology=topology, algorithm=name)
        chosen = [each.algorithm for each in done] if name == "auto" else [name] * len(done)
        seconds, rates = [each.seconds for each in done], [each.busbw for each in done]
        lines.append(_Line(name, ordered, seconds, rates, chosen, colour))
    return lines


def _series(collective: Timed, measured: "pandas.DataFrame | None") -> Iterator[_Line]:
    """Measured points, by `series` where there is that column."""
    from simulator.collectives import bus_factor

    if measured is None:
        return
    missing = [name for name in _MEASURED if name not in measured]
    if missing:
        raise ValueError(f"measured has no column {missing[0]!r}; it takes {', '.join(_MEASURED)} and, if any, series")
    factor = bus_factor(collective.kind, len(collective.ranks))
    groups = measured.groupby("series") if "series" in measured else [("measured", measured)]
    for name, rows in groups:
        sizes, seconds = (rows[column].to_numpy(float) for column in _MEASURED)
        yield _Line(str(name), sizes.tolist(), seconds.tolist(), (factor * sizes / seconds).tolist(), [], "#222222")


def _lines(ax: Axes, right: Axes, curves: Sequence[_Line]) -> None:
    for curve in curves:
        # What auto takes is one of the others: wide and pale, it shows beneath them.
        wide, alpha = (6.0, 0.3) if curve.name == "auto" and len(curves) > 1 else (1.8, 1.0)
        looks: dict[str, Any] = {"color": curve.colour, "alpha": alpha, "gid": curve.name}
        ax.plot(curve.sizes, curve.seconds, label=curve.name, linewidth=wide, **looks)
        right.plot(curve.sizes, curve.rates, linestyle=(0, (4, 2)), linewidth=wide / 1.4, **looks)


def _points(ax: Axes, right: Axes, series: Sequence[_Line]) -> None:
    for points, marker in zip(series, itertools.cycle(_MARKERS), strict=False):
        style: dict[str, Any] = {
            "linestyle": "none",
            "marker": marker,
            "markersize": 5,
            "color": "#222222",
            "gid": points.name,
        }
        ax.plot(points.sizes, points.seconds, label=points.name, **style)
        right.plot(points.sizes, points.rates, markerfacecolor="none", **style)


def _frame(ax: Axes, right: Axes, lines: Sequence[_Line]) -> None:
    """Scales, ticks and units."""
    sizes = [size for line in lines for size in line.sizes]
    low, high = min(sizes), max(sizes)
    ax.set(xscale="log", yscale="log", xlabel="message size, one rank's whole buffer", ylabel="time")
    ax.set_xlim(low / 1.3, high * 1.3)
    powers = range(int(numpy.floor(numpy.log2(low))), int(numpy.ceil(numpy.log2(high))) + 1)
    step = max(1, -(-len(powers) // 9))
    ax.xaxis.set_major_locator(FixedLocator([2.0**power for power in powers[::step]]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(_formatter(size_text))
    ax.yaxis.set_major_locator(LogLocator(10, numticks=20))
    ax.yaxis.set_major_formatter(_formatter(_time_text))
    ax.yaxis.set_minor_formatter(NullFormatter())
    right.set_ylim(0, 1.08 * max(rate for line in lines for rate in line.rates))
    right.yaxis.set_major_formatter(_formatter(lambda rate: f"{rate / GIGA:.4g}"))
    right.set_ylabel("bus bandwidth (GB/s)")
    for each in (ax, right):
        each.spines["top"].set_visible(False)
    ax.grid(color="#E8E8E8", linewidth=0.8)
    ax.set_axisbelow(True)


def _formatter(text: Callable[[float], str]) -> FuncFormatter:
    return FuncFormatter(lambda value, _: text(value))


def size_text(size: float) -> str:
    """Bytes by powers of two.

    >>> size_text(1024), size_text(3 * 2**20), size_text(2**34), size_text(100)
    ('1 KiB', '3 MiB', '16 GiB', '100 B')
    """
    for power, name in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 2.0**power:
            return f"{size / 2.0**power:.4g} {name}"
    return f"{size:.4g} B"


def _time_text(seconds: float) -> str:
    scale, unit = time_unit(seconds * (1 + 1e-9))
    return f"{seconds * scale:.4g} {unit}"


def _mark_changes(ax: Axes, curves: Sequence[_Line]) -> None:
    """Along each `auto` line, a dot and the algorithm's name where it takes over."""
    for curve in curves:
        if curve.name != "auto":
            continue
        before = ""
        for size, seconds, algorithm in zip(curve.sizes, curve.seconds, curve.algorithms, strict=True):
            if algorithm == before:
                continue
            ax.plot([size], [seconds], marker="o", markersize=4.5, color=curve.colour, linestyle="none", gid="chosen")
            ax.annotate(
                algorithm,
                (size, seconds),
                (5, -13) if before else (4, 8),
                textcoords="offset points",
                size=8.5,
                color=curve.colour,
                bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
            )
            before = algorithm
