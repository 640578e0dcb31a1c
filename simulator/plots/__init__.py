"""Pictures of results, collectives and clusters: each public module of this folder draws one.

>>> "gantt" in names()
True
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from topologies.plugins import Folder, unknown

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from simulator.demand import Ints
    from topologies import Topology


class Framed(Protocol):
    """What pictures and traces read of a result: the frames `spans` and `actions`, and who is in them.

    Pictures of memory read `memory_timeline` too; it is empty where nobody knows bytes.

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


class Placed(Protocol):
    """Whatever lies on a cluster: a result, or the time of a collective."""

    @property
    def topology(self) -> "Topology": ...  # noqa: D102

    @property
    def title(self) -> str: ...  # noqa: D102


class Timed(Placed, Protocol):
    """What pictures read of a collective: its kind, the members of its group, and where they are."""

    @property
    def kind(self) -> str: ...  # noqa: D102

    @property
    def ranks(self) -> "Ints": ...  # noqa: D102


_PLOTS = Folder("simulator.plots", "plot")


def names() -> list[str]:
    """Every picture there is, sorted."""
    return _PLOTS.names()


def draw(name: str, subject: "Framed | Placed | Topology", ax: "Axes | None" = None, **options: Any) -> "Axes":
    """Draw a result, a collective or a cluster, into `ax` or into a figure of its own, and return the axes.

    An unknown name or option is a ValueError that names the nearest known one; a subject of which there is no such
    picture, one that says what it draws.

    >>> import topologies
    >>> cluster = topologies.build("dgx_h100", nodes=1)
    >>> draw("topology", cluster).get_title("left")
    'dgx_h100,nodes=1'
    >>> draw("gantt", cluster)
    Traceback (most recent call last):
    ValueError: gantt draws a simulated step, not <Topology dgx_h100,nodes=1: 8 devices, 32 directed links>
    """
    function = _PLOTS.module(name).draw
    known = _PLOTS.options(name, function="draw")
    for option in options:
        if option not in known:
            raise ValueError(unknown(f"option of {name}", option, known))
    axes: Axes = function(subject, ax, **options)
    return axes
