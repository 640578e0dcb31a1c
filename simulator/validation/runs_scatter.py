"""Predicted against published step times of runs, a point each."""

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "osD^vPX<>*"


def draw(rows: pd.DataFrame, ax: "Axes | None" = None) -> "Axes":
    """Draw the compared rows on logarithmic axes, groups by colour and marker, context hollow; return the axes.

    Along the diagonal prediction and measurement agree; the band around it is 10 % wide each way.
    """
    from matplotlib import colormaps

    from simulator.plots._canvas import headline, new_axes

    if ax is None:
        ax = new_axes(8.0, 7.0)
    compared = rows[rows["left_out"] == ""]
    if compared.empty:
        raise ValueError("no row was compared, so there is nothing to draw")
    times = compared[["measured", "predicted"]].to_numpy()
    low, high = times.min() / 1.3, times.max() * 1.3
    ax.fill_between([low, high], [0.9 * low, 0.9 * high], [1.1 * low, 1.1 * high], color="#EEEEEE", zorder=0)
    ax.plot([low, high], [low, high], color="#888888", linewidth=1.0, zorder=1)
    colours = colormaps["tab20"].colors  # type: ignore[attr-defined]
    for number, (name, part) in enumerate(compared.groupby("group", sort=True)):
        colour, marker = colours[(2 * number) % 20 + number // 10], MARKERS[number % len(MARKERS)]
        for hollow, own in part.groupby(part["split"] == "context"):
            ax.plot(
                own["measured"], own["predicted"], linestyle="none", marker=marker, markersize=4.5, color=colour,
                markerfacecolor="none" if hollow else colour, alpha=0.8, gid=str(name),
                label="" if hollow and len(own) < len(part) else str(name),
            )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    ax.set(xlabel="published step time (s)", ylabel="predicted step time (s)", aspect="equal")
    ax.legend(frameon=False, fontsize=8.5, loc="upper left")
    headline(ax, f"{len(compared)} published training runs", "line: equal · band: ±10 % · hollow: context")
    return ax
