"""Memory of one rank over the step, stacked by what it holds."""

from collections.abc import Mapping

import pandas
from matplotlib.axes import Axes

from simulator.plots import Framed
from simulator.plots._canvas import headline, legend_beneath, new_axes, time_axis
from simulator.plots._memory import gigabytes, limits, patches, rows_of, with_memory, write_above
from simulator.plots._ranks import by_number
from topologies.units import GIGA


def draw(result: Framed, ax: Axes | None = None, *, rank: int | None = None) -> Axes:
    """Draw what a rank holds over the step, its peak, and the memory that its accelerator has; return the axes.

    `rank` is one that is in the result's frames, by default the fullest. Every step of the stack is a layer of a
    microbatch that comes or goes, or what it needs meanwhile; the legend has the bytes of each row at the peak.
    """
    result, memory = with_memory("memory", result)
    everywhere = result.to_frame("memory_timeline")
    if rank is None:
        rank = memory["rank"].tolist()[memory["total_bytes"].to_numpy().argmax()]
    (rank,) = by_number(result, [rank])
    changes = everywhere[everywhere["rank"] == rank].reset_index(drop=True)
    facts = memory[memory["rank"] == rank]
    usable = facts["usable_bytes"].item()
    peak = changes.iloc[int(changes["total_bytes"].to_numpy().argmax())]
    if ax is None:
        ax = new_axes(14.0, 4.8)
    colours = rows_of(changes)
    _areas(ax, changes, colours, result.step_time)
    time_axis(ax, 0.0, max(result.step_time, changes["time_seconds"].max()))
    limits(ax, peak["total_bytes"], usable)
    _mark(ax, peak["time_seconds"], peak["total_bytes"], usable)
    legend_beneath(ax, patches(colours, {name: peak[f"{name}_bytes"] for name in colours}), inches=1.8)
    headline(ax, result.title, _subtitle(result, facts, changes))
    return ax


def _areas(ax: Axes, changes: pandas.DataFrame, colours: Mapping[str, str], end: float) -> None:
    """The rows on top of each other; a value holds until the next change."""
    times = [*changes["time_seconds"], max(end, changes["time_seconds"].iloc[-1])]
    floor = [0.0] * len(times)
    for name, colour in colours.items():
        sizes = changes[f"{name}_bytes"] / GIGA
        top = [below + size for below, size in zip(floor, [*sizes, sizes.iloc[-1]], strict=True)]
        ax.fill_between(times, floor, top, step="post", color=colour, linewidth=0, gid=name)
        floor = top


def _mark(ax: Axes, time: float, size: float, usable: float) -> None:
    """A dot at the first moment of the peak, and how much it is."""
    ax.plot(time, size / GIGA, marker="o", markersize=5, color="#222222", gid="peak")
    side = "right" if time > 0.8 * ax.get_xlim()[1] else "left"
    write_above(ax, f"peak {gigabytes(size)}", (time, size / GIGA), usable=usable, align=side)


def _subtitle(result: Framed, facts: pandas.DataFrame, changes: pandas.DataFrame) -> str:
    """Whose memory it is, what the allocator reserves for it, and how many microbatches are in flight."""
    rank, alike, reserved = (facts[name].item() for name in ("rank", "ranks_in_class", "reserved_bytes"))
    place = "".join(f", pp {place}" for axis, place in result.coordinates[rank].items() if axis == "pp")
    many = f" and {alike - 1:,} more alike" if alike > 1 else ""
    flying = int(changes["microbatches_in_flight"].max())
    actions = result.to_frame("actions")
    stages = actions["stage"][(actions["rank"] == rank) & (actions["action"] == "F")].nunique()
    each = f", counted on each of {stages} stages" if stages > 1 else ""
    return " · ".join(
        (
            f"rank {rank}{place}{many}",
            f"{gigabytes(reserved)} reserved",
            f"up to {flying} microbatch{'es' * (flying != 1)} in flight{each}",
            "legend: at the peak",
        )
    )
