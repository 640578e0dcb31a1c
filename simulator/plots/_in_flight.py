"""Memory beneath the lanes of a Gantt chart: what is in flight on each rank, or its bytes where they are known."""

from dataclasses import dataclass

import pandas
from matplotlib.axes import Axes

from simulator.plots import Framed
from simulator.plots._lanes import View
from simulator.plots._memory import gigabytes
from topologies.plugins import unknown

FILL, LINE = "#C9B8DB", "#5B3F86"
KINDS = ("bytes", "chunks")
_RELEASES = {"B": "BW", "W": "BW", "I": "BI"}


@dataclass(frozen=True, slots=True)
class Held:
    """What ranks hold from when on: rows of `rank`, `time_seconds` and `value`, in bytes or chunks as `kind` says."""

    rows: pandas.DataFrame
    kind: str

    @property
    def most(self) -> float:
        """The most that any of the ranks holds."""
        return float(max(self.rows["value"].tolist(), default=0.0))

    def words(self, value: float) -> str:
        """A value with its unit."""
        return gigabytes(value) if self.kind == "bytes" else f"{value:.0f}"


def held(result: Framed, kind: bool | str) -> Held:
    """Bytes where the result knows them, else chunks: microbatches in flight, counted on each of a rank's stages."""
    if kind not in (True, *KINDS):
        raise ValueError(unknown("memory", str(kind), [*KINDS, "True"]))
    if kind != "chunks":
        frame = result.to_frame("memory_timeline")
        if len(frame):
            return Held(frame[["rank", "time_seconds"]].assign(value=frame["total_bytes"]), "bytes")
        if kind == "bytes":
            raise ValueError(f"memory='bytes': nobody knows the bytes of {result.title}; draw memory='chunks'")
    return Held(chunks(result.to_frame("actions"), getattr(result, "release", "W")), "chunks")


def chunks(actions: pandas.DataFrame, release: str = "W") -> pandas.DataFrame:
    """Microbatches in flight from when on, from the start of F to the end of B or W, or of I if that is the release.

    >>> columns = ["rank", "action", "start_seconds", "end_seconds"]
    >>> frame = pandas.DataFrame([(0, "F", 0.0, 1.0), (0, "F", 1.0, 2.0), (0, "B", 2.0, 4.0)], columns=columns)
    >>> chunks(frame)[["time_seconds", "value"]].values.tolist()
    [[0.0, 1.0], [1.0, 2.0], [4.0, 1.0]]
    """
    starts, ends = actions["action"] == "F", actions["action"].isin(list(_RELEASES[release]))
    taken = actions.loc[starts, ["rank"]].assign(time_seconds=actions["start_seconds"], change=1)
    given = actions.loc[ends, ["rank"]].assign(time_seconds=actions["end_seconds"], change=-1)
    changes = pandas.concat([taken, given]).sort_index(kind="stable")
    changes = changes.sort_values(["rank", "time_seconds"], kind="stable", ignore_index=True)
    changes["value"] = changes.groupby("rank")["change"].cumsum().astype(float)
    return changes.drop_duplicates(["rank", "time_seconds"], keep="last")[["rank", "time_seconds", "value"]]


def draw(ax: Axes, view: View, found: Held) -> None:
    """A step line on one scale for all lanes, and at the right the most of each."""
    start, end = view.limits[0], min(view.limits[1], view.end)
    most = max(found.rows.loc[found.rows["rank"].isin(view.ranks), "value"].tolist(), default=0.0) or 1.0
    for lane, rank in enumerate(view.ranks):
        rows = found.rows[found.rows["rank"] == rank]
        top, height = view.memory(lane)
        floor = top + height
        times = [min(start, 0.0), *rows["time_seconds"], max(end, view.end)]
        values = [0.0, *rows["value"], *rows["value"].tail(1)]
        edge = [floor - value / most * height for value in [*values, *[0.0] * (len(times) - len(values))]]
        area = ax.fill_between(times, edge, floor, step="post", color=FILL, linewidth=0, zorder=0.7)
        area.set_gid(f"rank {rank} memory")
        ax.step(times, edge, where="post", color=LINE, linewidth=0.8, zorder=0.8, gid=f"rank {rank} held")
        peak = f"max {found.words(max(rows['value'].tolist(), default=0.0))}"
        where = (1, floor - height / 2), (4, 0), ("axes fraction", "data")
        ax.annotate(peak, *where, textcoords="offset points", va="center", size=7, color=LINE, annotation_clip=False)
