"""The busiest links of a step: how busy they are over the whole step, what crossed them, and for which axes."""

import pandas
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, PercentFormatter

from simulator.plots import Framed
from simulator.plots._canvas import DEGRADED, GREY, framed, headline, kind_colour, legend_beneath, new_axes
from topologies.units import GIGA


def draw(result: Framed, ax: Axes | None = None, *, count: int = 20) -> Axes:
    """Draw a bar for each of the `count` busiest classes of links, the busiest on top, and return the axes.

    The length of a bar is the share of the step in which the link would be busy at full bandwidth; the colour is the
    kind of link. `×n` stands for n links with equal traffic. Behind the bar: the bytes that crossed one of them in the
    step, the mesh axes that they were for, and the most transfers at one instant, where that is more than one.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"count={count}: give a whole number of links, at least 1")
    every = framed("links", result).to_frame("links")
    rows = every[every["carried_bytes"] > 0].nlargest(count, "busy_share")
    if ax is None:
        ax = new_axes(11.0, 2.1 + 0.3 * max(len(rows), 2))
    _bars(ax, rows)
    _labels(ax, rows)
    used = int((every["carried_bytes"] > 0).sum())
    alike = "one bar for links with equal traffic (×n)" if (rows["links_in_class"] > 1).any() else ""
    shown = f"the {len(rows)} busiest of {used:,} kinds of traffic" if used > len(rows) else ""
    headline(ax, result.title, " · ".join(filter(None, (shown, alike))))
    return ax


def _bars(ax: Axes, rows: pandas.DataFrame) -> None:
    places = range(len(rows))
    weak = (rows["degraded"] < 1).tolist()
    ax.barh(
        places,
        rows["busy_share"].tolist(),
        height=0.72,
        color=[kind_colour(kind) for kind in rows["kind"]],
        edgecolor=[DEGRADED if each else "none" for each in weak],
        linewidth=[1.6 if each else 0.0 for each in weak],
        gid="busy",
    )
    ax.set_yticks(places, [_name(row) for row in rows.to_dict("records")], fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    ax.set_xlim(0, 1.34 * max(rows["busy_share"], default=1 / 1.34))
    ax.xaxis.set_major_locator(FixedLocator([tick for tick in ax.get_xticks() if tick <= 1]))
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("busy share of the step")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.grid(axis="x", color="#E4E4E4", linewidth=0.8)
    ax.set_axisbelow(True)
    _legend(ax, rows)


def _legend(ax: Axes, rows: pandas.DataFrame) -> None:
    """Beneath the x axis, or words where there is no bar."""
    kinds = list(dict.fromkeys(rows["kind"]))
    handles = [Patch(color=kind_colour(kind), label=kind) for kind in kinds]
    if (rows["degraded"] < 1).any():
        handles.append(Patch(facecolor="white", edgecolor=DEGRADED, linewidth=1.6, label="degraded"))
    if handles:
        legend_beneath(ax, handles, inches=1.2)
    else:
        ax.text(0.5, 0.5, "nothing crossed a link", transform=ax.transAxes, ha="center", color=GREY)


def _name(row: "dict[object, object]") -> str:
    times = f"  ×{row['links_in_class']:,}" if row["links_in_class"] != 1 else ""
    return f"{row['source']} → {row['destination']}{times}"


def _labels(ax: Axes, rows: pandas.DataFrame) -> None:
    """Behind each bar: bytes, axes, transfers at once, and the factor of a degraded link."""
    columns = ("busy_share", "carried_bytes", "crossed_by", "peak_flows", "degraded")
    for place, (share, carried, axes, peak, factor) in enumerate(zip(*(rows[name] for name in columns), strict=True)):
        parts = [_bytes(carried), axes.replace(" ", ", "), f"{peak:,} at once" if peak > 1 else ""]
        parts.append(f"bandwidth × {factor:.3g}" if factor < 1 else "")
        text = " · ".join(filter(None, parts))
        colour = DEGRADED if factor < 1 else "#222222"
        ax.annotate(text, (share, place), (4, 0), textcoords="offset points", va="center", size=8.5, color=colour)


def _bytes(size: float) -> str:
    """Bytes in a unit that suits them.

    >>> _bytes(3.2e12), _bytes(5e9), _bytes(1234.0)
    ('3.2 TB', '5 GB', '1.23 kB')
    """
    for unit, name in ((1e3 * GIGA, "TB"), (GIGA, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.3g} B"
