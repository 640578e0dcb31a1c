"""Results as pandas frames, units in the column names."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from simulator import memory_timeline, placements, traffic
from simulator.timeline import per_rank
from topologies.plugins import unknown

if TYPE_CHECKING:
    from simulator.result import Result


def build(name: str, result: "Result", *, expand: bool = False) -> pd.DataFrame:
    """A frame by name; with `expand` the rows of a representative are repeated for every rank of its class."""
    if name not in FRAMES:
        raise ValueError(unknown("frame", name, FRAMES))
    frame = FRAMES[name](result)
    if expand and "ranks_in_class" in frame:
        frame = _expand(frame, result)
    return frame


def spans(result: "Result") -> pd.DataFrame:
    """One row per op: who, what, and when it started, when its transfer began, when it ended."""
    frame = pd.DataFrame(result.timeline.spans())
    return frame.sort_values(["rank", "start_seconds", "end_seconds"], kind="stable", ignore_index=True)


def actions(result: "Result") -> pd.DataFrame:
    """One row per block: a forward or backward of a microbatch on a stage, the opening, the optimizer."""
    return pd.DataFrame(result.timeline.actions())


def ranks(result: "Result") -> pd.DataFrame:
    """One row per rank class: coordinates, where its time went, memory."""
    rank_classes = result.timeline.quotient.rank_classes
    places = [result.program.mesh.coordinates(rank_class.rank) for rank_class in rank_classes]
    frame = pd.DataFrame(
        {
            "rank": [rank_class.rank for rank_class in rank_classes],
            "ranks_in_class": [rank_class.ranks for rank_class in rank_classes],
        }
    )
    for axis in result.program.mesh.axes:
        frame[axis] = [place[axis] for place in places]
    for name, values in per_rank(result.timeline).items():
        frame[name] = values
    frame["memory_bytes"] = [sum(rows.values()) for rows in result.memory]
    return frame


def memory(result: "Result") -> pd.DataFrame:
    """One row per rank class: bytes at the peak in named columns, their sum, what is reserved, and what there is."""
    rank_classes = result.timeline.quotient.rank_classes
    frame = pd.DataFrame(
        {
            "rank": [rank_class.rank for rank_class in rank_classes],
            "ranks_in_class": [rank_class.ranks for rank_class in rank_classes],
        }
    )
    rows = pd.DataFrame(list(result.memory)).add_suffix("_bytes").fillna(0.0)
    usable = pd.Series(result.usable_memory, dtype=float)
    reserved = pd.Series(result.reserved, dtype=float)
    return pd.concat([frame, rows], axis=1).assign(
        total_bytes=rows.sum(axis=1), reserved_bytes=reserved, usable_bytes=usable, fits=reserved <= usable
    )


def memory_items(result: "Result") -> pd.DataFrame:
    """One row per rank class and item of its memory at the peak: row, part of the model or module, bytes."""
    classes = zip(result.timeline.quotient.rank_classes, result.memory_items, strict=True)
    rows = [(each.rank, each.ranks, *item, size) for each, items in classes for item, size in items.items()]
    return pd.DataFrame(rows, columns=["rank", "ranks_in_class", "row", "part", "bytes"])


def collectives(result: "Result") -> pd.DataFrame:
    """One row per kind of communication: how many ops, bytes, and their mean times over the representatives.

    What a receiver is too late to see of its message counts in neither time.
    """
    frame = spans(result)
    frame = frame[frame["work"] != "compute"]
    began = frame[["start_seconds", "began_seconds"]].max(axis=1)
    frame = frame.assign(transfer_seconds=frame["end_seconds"] - began, waited_seconds=began - frame["start_seconds"])
    keys = ["axis", "kind", "algorithm", "bytes"]
    grouped = frame.groupby(keys, sort=True)[["transfer_seconds", "waited_seconds"]]
    return pd.concat([grouped.size().rename("ops"), grouped.mean()], axis=1).reset_index()


def links(result: "Result") -> pd.DataFrame:
    """One row per link class: what it is, the bytes that crossed it, its mean use over the step, and who crossed it.

    `peak_flows` is the most transfers that were on the link at one instant, each from when its bytes start to flow
    until they are there; `crossed_by` are the mesh axes of those transfers, and host for copies, joined by blanks;
    `degraded` is the factor on the link's bandwidth, 1.0 if it is sound. With `detail="actions"`, transfers inside an
    action count when they would have been on the wire had nobody met them. What is latency alone, such as a reduction
    of a few numbers, loads no link: neither its bytes nor it is counted.

    >>> from simulator import simulate
    >>> from workloads import TrainingStep
    >>> step = TrainingStep("llama3_8b,layers=2", "dp=2 tp=4", batch=2, sequence=2048)
    >>> frame = links(simulate(step, "dgx_h100"))
    >>> frame[["kind", "peak_flows", "crossed_by", "degraded"]].values.tolist()[0]
    ['nvlink', 2, 'dp tp', 1.0]
    """
    quotient = result.timeline.quotient
    topology = quotient.topology
    representatives = quotient.partition.link_representatives
    carried = result.timeline.link_bytes
    bandwidth = topology.links.bandwidth[representatives]
    ends = [topology.links.ends[link] for link in representatives]
    crowds = traffic.crowds(result.timeline)
    return pd.DataFrame(
        {
            "link": representatives,
            "links_in_class": np.bincount(quotient.partition.links),
            "source": [str(source) for source, _ in ends],
            "destination": [str(destination) for _, destination in ends],
            "kind": [topology.links.kinds[topology.links.codes[link]] for link in representatives],
            "bandwidth_bytes_per_second": bandwidth,
            "carried_bytes": carried,
            "busy_share": carried / bandwidth / result.step_time if result.step_time else 0.0 * carried,
            "peak_flows": traffic.peaks(result.timeline, crowds),
            "crossed_by": traffic.axes(result.timeline, crowds),
            "degraded": [float(topology.link_factors.get(end, 1.0)) for end in ends],
        }
    )


def placement(result: "Result") -> pd.DataFrame:
    """One row per axis of the plan and level of the cluster that its groups reach: see `simulator.placement`."""
    return placements.frame(result.places)


FRAMES: dict[str, Callable[["Result"], pd.DataFrame]] = {
    "spans": spans,
    "actions": actions,
    "ranks": ranks,
    "memory": memory,
    "memory_items": memory_items,
    "memory_timeline": memory_timeline.frame,
    "collectives": collectives,
    "links": links,
    "placement": placement,
}


def compare(results: "Sequence[Result]") -> pd.DataFrame:
    """Results side by side, one row each; `relative_step_time` is to the first."""
    rows = []
    for result in results:
        relative = result.step_time / results[0].step_time if results[0].step_time else 1.0
        rows.append({"title": result.title, "relative_step_time": relative, **result.figures})
    return pd.DataFrame(rows)


def _expand(frame: pd.DataFrame, result: "Result") -> pd.DataFrame:
    """Repeat the rows of every representative for each rank of its class, with the rank's own coordinates."""
    partition = result.timeline.quotient.partition
    representative = partition.rank_representatives[partition.ranks]
    members = pd.DataFrame({"rank": representative, "member": np.arange(len(representative))})
    expanded = members.merge(frame, on="rank", sort=False)
    expanded = expanded.assign(rank=expanded["member"], ranks_in_class=1).drop(columns="member")
    return _placed(expanded, result).sort_values("rank", kind="stable", ignore_index=True)


def _placed(frame: pd.DataFrame, result: "Result") -> pd.DataFrame:
    """The frame with the coordinates of its ranks, where it has coordinates."""
    axes = [axis for axis in result.program.mesh.axes if axis in frame]
    places = [result.program.mesh.coordinates(rank) for rank in frame["rank"]] if axes else []
    return frame.assign(**{axis: [place[axis] for place in places] for axis in axes})
