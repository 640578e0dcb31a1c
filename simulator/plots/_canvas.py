"""What pictures have in common: figures, titles, units, colours of links, and how to refuse a subject."""

import math
from collections.abc import Sequence
from typing import TypeGuard

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation
from matplotlib.typing import ColorType

from simulator.plots import Framed
from topologies.units import GIGA

GREY = "#555555"
DEGRADED = "#D0021B"
"""The colour of what is degraded; no kind of link has a red."""

_DPI = 140
_KINDS = {
    "nvlink": "#2E8B57",
    "xgmi": "#B5651D",
    "ici": "#2F5FA8",
    "neuronlink": "#2F5FA8",
    "pcie": "#C9A227",
    "c2c": "#3FA7A0",
    "nvme": "#9A6A8E",
    "infiniband": "#2F5FA8",
    "omnipath": "#4A78C0",
    "roce": "#2AA5D8",
    "efa": "#7E57C2",
    "tcpx": "#5E7FB1",
    "tcpxo": "#5E7FB1",
    "slingshot": "#7E57C2",
    "ethernet": "#8C6D5A",
    "fabric": "#5B6770",
    "port": "#2AA5D8",
}
_OTHERS = ("#4F7CAC", "#9C6ADE", "#2E8B57", "#C9A227")


def framed(plot: str, subject: object) -> Framed:
    """The subject, if it is a result with frames."""
    if not _is_framed(subject):
        raise ValueError(f"{plot} draws a simulated step, not {subject!r}")
    return subject


def _is_framed(subject: object) -> TypeGuard[Framed]:
    return hasattr(subject, "to_frame")


def kind_colour(kind: str) -> str:
    """The colour of a kind of link, the same in all pictures.

    >>> kind_colour("nvlink") == kind_colour("nvlink") != kind_colour("roce")
    True
    """
    return _KINDS.get(kind) or _OTHERS[sum(kind.encode()) % len(_OTHERS)]


def rate(bandwidth: float) -> str:
    """Bytes/s in words.

    >>> rate(450e9), rate(21.943e12), rate(12.5e6), rate(float("inf"))
    ('450 GB/s', '21.9 TB/s', '0.0125 GB/s', 'unlimited')
    """
    if math.isinf(bandwidth):
        return "unlimited"
    return f"{bandwidth / GIGA / 1e3:.3g} TB/s" if bandwidth >= 1e3 * GIGA else f"{bandwidth / GIGA:.3g} GB/s"


def time_unit(span: float) -> tuple[float, str]:
    """Units per second, and the name, of the unit in which a span of seconds reads best.

    >>> time_unit(5.1), time_unit(0.02), time_unit(3e-5)
    ((1.0, 's'), (1000.0, 'ms'), (1000000.0, 'µs'))
    """
    if span >= 1:
        return 1.0, "s"
    return (1e3, "ms") if span >= 1e-3 else (1e6, "µs")


class Picture(Figure):
    """A figure whose texts are texts where it is written as SVG."""

    def draw(self, renderer: RendererBase) -> None:
        """Draw everything."""
        with matplotlib.rc_context({"svg.fonttype": "none"}):
            super().draw(renderer)


def new_axes(width: float, height: float) -> Axes:
    """Axes in a figure of so many inches; one that pyplot shows is pyplot's, with the dots an inch set there."""
    if matplotlib.is_interactive() or "inline" in matplotlib.get_backend():
        from matplotlib import pyplot

        figure: Figure = pyplot.figure(figsize=(width, height), layout="constrained", FigureClass=Picture)
        return figure.add_subplot()
    return Picture(figsize=(width, height), dpi=_DPI, layout="constrained").add_subplot()


def headline(ax: Axes, title: str, subtitle: str = "") -> None:
    """A title at the left, and a grey line on how to read the picture beneath it."""
    ax.set_title(title, loc="left", fontsize=11, pad=20 if subtitle else 8, wrap=True)
    above = ax.transAxes + ScaledTranslation(0, 6 / 72, ax.figure.dpi_scale_trans)
    ax.text(0, 1, subtitle, size=9, color=GREY, transform=above, in_layout=False)


def time_axis(ax: Axes, start: float, end: float) -> None:
    """An x axis in seconds, with its ticks in a unit that suits them."""
    scale, unit = time_unit(end - start)
    ax.set_xlim(start, end)
    ax.xaxis.set_major_locator(MaxNLocator(12, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds * scale:.10g}"))
    ax.set_xlabel(f"time ({unit})")


def legend_beneath(ax: Axes, handles: Sequence[Patch], *, inches: float) -> None:
    """A legend beneath the x axis and its label, each column about so many inches wide."""
    width = ax.figure.bbox.width / ax.figure.dpi - 0.8
    beneath = ax.transAxes + ScaledTranslation(0, -36 / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=beneath,
        ncols=max(1, min(len(handles), int(width / inches))),
        frameon=False,
        fontsize=9,
        borderaxespad=0,
    )


def ink(colour: ColorType) -> str:
    """The colour of text on a colour.

    >>> ink("#2F5FA8"), ink("#E3C62F")
    ('white', '#222222')
    """
    return "white" if np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) < 0.6 else "#222222"


def pixels(renderer: RendererBase, points: float) -> float:
    """A length in points as what is being drawn on counts it."""
    return float(np.asarray(renderer.points_to_pixels(points)))


def text_width(ax: Axes, text: str, size: float, font: str | None = None) -> float:
    """Width of a text in pixels."""
    properties = FontProperties(family=font, size=size)
    points = text_to_path.get_text_width_height_descent(text, properties, ismath=False)[0]
    return float(points * ax.figure.dpi / 72)
