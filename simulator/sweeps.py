"""Many steps on many clusters: one row each, with the reason where a point is impossible."""

import inspect
from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any

import joblib
import pandas as pd

import topologies
from simulator.deadlock import DeadlockError
from simulator.simulation import simulate
from topologies import Topology
from topologies.plugins import unknown
from workloads import TrainingStep

Point = TrainingStep | Mapping[str, Any]


def sweep(
    steps: Iterable[Point], clusters: Iterable[Topology | str], *, workers: int = 1, detail: str = "actions"
) -> pd.DataFrame:
    """Simulate every step on every cluster, given as such or as text; rows in the order of clusters within steps.

    A step may be given as the arguments of a TrainingStep, so that an illegal one becomes a row with its
    `reason` instead of an error here.

    >>> plans = ({"model": "llama3_8b", "plan": plan, "batch": 8, "sequence": 8192} for plan in ("dp=8", "dp=4 tp=3"))
    >>> sweep(plans, ["dgx_h100"])[["plan", "reason"]].values.tolist()[0]
    ['dp=8', '']
    """
    if workers < 1:
        raise ValueError(f"workers={workers}; a sweep needs at least 1")
    built = [topologies.build(cluster) if isinstance(cluster, str) else cluster for cluster in clusters]
    points = [(step, cluster) for step in steps for cluster in built]
    rows = joblib.Parallel(n_jobs=workers)(joblib.delayed(_row)(*point, detail) for point in points)
    return pd.DataFrame(rows)


def _row(point: Point, cluster: Topology, detail: str) -> dict[str, Any]:
    """One point of a sweep."""
    row = {**{name: _get(point, name, default) for name, default in _fields().items()}, "topology": cluster.name}
    try:
        result = simulate(_step(point), cluster, detail=detail)
    except (ValueError, DeadlockError) as error:
        return {**row, "reason": str(error)}
    return {**row, "reason": "", **result.figures}


def _step(point: Point) -> TrainingStep:
    """The step of a point; names that are wrong or missing are a ValueError like any other mistake."""
    if isinstance(point, TrainingStep):
        return point
    known = inspect.signature(TrainingStep).parameters
    for name in point:
        if name not in known:
            raise ValueError(unknown("field of a step", name, known))
    missing = [name for name, each in known.items() if each.default is each.empty and name not in point]
    if missing:
        raise ValueError(f"a step needs {' and '.join(missing)}")
    return TrainingStep(**point)


def _fields() -> dict[str, Any]:
    """The fields of a step with their defaults; nothing where one has to be given."""
    known = inspect.signature(TrainingStep).parameters.values()
    return {each.name: "" if each.default is each.empty else each.default for each in known}


def _get(point: Point, name: str, default: Any) -> Any:
    """A field of a step, however it was given: numbers and switches as they are, the rest as text."""
    value = getattr(point, name) if isinstance(point, TrainingStep) else point.get(name, default)
    if name == "model":
        return getattr(value, "name", value)
    return value if isinstance(value, Number) else str(value)
