"""Pictures of results: each public module of this folder draws one.

>>> "gantt" in names()
True
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from topologies.plugins import Folder, unknown

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


class Framed(Protocol):
    """What pictures and traces read of a result: the frames `spans` and `actions`, and who is in them.

    `coordinates` gives the mesh position of each rank in the frames, `step_time` is in seconds, and `title`
    names model, plan and topology.
    """

    @property
    def title(self) -> str: ...  # noqa: D102

    @property
    def step_time(self) -> float: ...  # noqa: D102

    @property
    def coordinates(self) -> Mapping[int, Mapping[str, int]]: ...  # noqa: D102

    def to_frame(self, name: str, /) -> "pandas.DataFrame": ...  # noqa: D102


_PLOTS = Folder("simulator.plots", "plot")


def names() -> list[str]:
    """Every picture there is, sorted."""
    return _PLOTS.names()


def draw(name: str, result: Framed, ax: "Axes | None" = None, **options: Any) -> "Axes":
    """Draw a result, into `ax` or into a figure of its own, and return the axes.

    An unknown name or option is a ValueError that names the nearest known one.

    >>> draw("gant", None)
    Traceback (most recent call last):
    ValueError: unknown plot 'gant'; did you mean gantt? Known: gantt
    """
    function = _PLOTS.module(name).draw
    known = _PLOTS.options(name, function="draw")
    for option in options:
        if option not in known:
            raise ValueError(unknown(f"option of {name}", option, known))
    axes: Axes = function(result, ax, **options)
    return axes
