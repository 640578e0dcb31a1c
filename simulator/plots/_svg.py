"""Short SVG for what there are thousands of: a fifth of what matplotlib writes for as many rectangles or texts.

It goes through the writer of matplotlib's SVG renderer; a renderer that has none draws in the ordinary way.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_hex

Floats = npt.NDArray[np.float64]
RGBA = tuple[float, float, float, float]


def is_svg(renderer: RendererBase) -> bool:
    """Whether a renderer writes SVG."""
    return hasattr(renderer, "writer") and hasattr(renderer, "height")


def rectangles(renderer: Any, corners: Floats, face: RGBA | None, edge: RGBA, width: float) -> None:
    """One path of rectangles, given their corners in points, of which the first and the third are opposite."""
    left, right = (_short(corners[:, place, 0]) for place in (0, 2))
    bottom, top = (_short(renderer.height - corners[:, place, 1]) for place in (0, 2))
    pieces = (f"M{x} {y}H{far}V{end}H{x}z" for x, y, far, end in zip(left, bottom, right, top, strict=True))
    style = {"fill": "none" if face is None else to_hex(face)}
    if width:
        style |= {"stroke": to_hex(edge), "stroke-width": f"{width:g}"}
    renderer.writer.element("path", attrib={"d": "".join(pieces), **style})


def texts(renderer: Any, found: Iterable[tuple[str, float, float]], style: dict[str, str]) -> None:
    """One element of texts (text, x, y), in points."""
    renderer.writer.start("text", attrib=style)
    for text, x, y in found:
        renderer.writer.element("tspan", text, attrib={"x": f"{x:.1f}", "y": f"{renderer.height - y:.1f}"})
    renderer.writer.end("text")


def _short(values: Floats) -> list[str]:
    """Hundredths of a point are never seen."""
    return [f"{value:.2f}".rstrip("0").rstrip(".") for value in values.tolist()]
