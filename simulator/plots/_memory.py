"""What pictures of memory have in common: rows in one order and in one colour each, and the line of what there is."""

import math
from collections.abc import Mapping

import pandas
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from simulator.plots import Framed
from simulator.plots._canvas import framed
from topologies.units import GIGA

_ROWS = {
    "parameters": "#2F5FA8",
    "gradients": "#148F77",
    "master_weights": "#3B2A63",
    "optimizer": "#A58BC4",
    "runtime": "#505050",
    "buffers": "#DCCB4A",
    "gathered": "#9CCBF2",
    "": "",
    "recomputed": "#6A3FD0",
    "activations": "#EE8A4A",
    "logits": "#B23A2E",
}
"""Colours of rows, from the bottom of a stack to its top; what is not here is at the place of ''.

They stay about 15 CIELAB units apart under protanopia and deuteranopia too.
"""
_OTHERS = ("#D9B8C4", "#A8C686", "#6C8EAD", "#C7B299")
_NO_ROWS = ("total", "reserved", "usable")
LIMIT = "#D0021B"
"""The colour of the line of usable memory."""


def with_memory(plot: str, subject: object) -> tuple[Framed, pandas.DataFrame]:
    """A result and its frame `memory`, if the subject is a result that knows what memory holds."""
    result = framed(plot, subject)
    memory = result.to_frame("memory")
    if not rows_of(memory):
        raise ValueError(f"{plot} draws a step of which the memory is known, not {subject!r}")
    return result, memory


def rows_of(frame: pandas.DataFrame) -> dict[str, str]:
    """The rows in a frame and their colours, those at the bottom of a stack first; rows without a byte are left out."""
    names = [name.removesuffix("_bytes") for name in map(str, frame) if name.endswith("_bytes")]
    found = [name for name in names if name not in _NO_ROWS and frame[f"{name}_bytes"].max() > 0]
    order = list(_ROWS)
    others = [name for name in found if name not in _ROWS]
    spare = {name: _OTHERS[place % len(_OTHERS)] for place, name in enumerate(others)}
    found.sort(key=lambda name: order.index(name if name in _ROWS else ""))
    return {name: _ROWS.get(name) or spare[name] for name in found}


def patches(colours: Mapping[str, str], sizes: Mapping[str, float] | None = None) -> list[Patch]:
    """Entries of a legend, with the rows' sizes where they are given."""
    labels = {name: name.replace("_", " ") for name in colours}
    if sizes is not None:
        labels = {name: f"{label} {gigabytes(sizes[name])}" for name, label in labels.items()}
    return [Patch(color=colour, label=labels[name]) for name, colour in colours.items()]


def gigabytes(size: float) -> str:
    """A size in words.

    >>> gigabytes(61.24e9), gigabytes(2.3e7)
    ('61.2 GB', '0.023 GB')
    """
    return f"{size / GIGA:.1f} GB" if size >= 0.1 * GIGA else f"{size / GIGA:.2g} GB"


def limits(ax: Axes, top: float, usable: float) -> None:
    """A y axis in GB with room above, and a line where usable memory ends, if it does."""
    ends = math.isfinite(usable)
    ax.set_ylim(0, 1.12 * (max(top, usable) if ends else top) / GIGA)
    ax.set_ylabel("memory (GB)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#E4E4E4", linewidth=0.8)
    ax.set_axisbelow(True)
    if ends:
        ax.axhline(usable / GIGA, color=LIMIT, linewidth=1.3, linestyle=(0, (5, 2)), gid="usable")
        where = (1, usable / GIGA), (4, 0), ("axes fraction", "data")
        text = f"usable\n{gigabytes(usable)}"
        ax.annotate(text, *where, textcoords="offset points", va="center", color=LIMIT, size=9)


def write_above(ax: Axes, text: str, place: tuple[float, float], *, usable: float, align: str = "center") -> None:
    """A bold text above a place in GB; above the line of usable memory, where it would lie on that."""
    across, height = place
    room = 18 * ax.figure.dpi / 72 / ax.get_window_extent().height * ax.get_ylim()[1]
    if height <= usable / GIGA < height + room:
        height = usable / GIGA
    apart = {"left": 3, "right": -3}.get(align, 0)
    ax.annotate(
        text, (across, height), (apart, 4), textcoords="offset points", ha=align, va="bottom", size=9, weight="bold"
    )
