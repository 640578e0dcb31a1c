"""Errors of predictions, summed up: blocks, groups of blocks."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

TIMES = ("measured", "predicted", "predicted_without_series", "predicted_at_nominal_clock")
SECONDS = {name: f"{name}_seconds" for name in TIMES}
"""Columns of times as a file has them, units in their names."""


def block(rows: pd.DataFrame, skipped: int = 0) -> dict[str, Any]:
    """Errors of some rows, as fractions of the measured value; `weight` weighs rows where the frame has it.

    >>> frame = pd.DataFrame({"row": [0, 1], "predicted": [1.1, 0.8], "measured": [1.0, 1.0]})
    >>> round(block(frame)["median_ape"], 3), round(block(frame)["bias"], 3)
    (0.15, -0.05)
    """
    if rows.empty:
        names = ("mape", "wmape", "median_ape", "p90_ape", "bias")
        return {"rows": 0, "skipped": skipped, **dict.fromkeys(names, 0.0), "worst": None}
    error = rows["predicted"].to_numpy() / rows["measured"].to_numpy() - 1.0
    size = np.abs(error)
    weight = rows["weight"].to_numpy() if "weight" in rows else np.ones(len(rows))
    worst = int(size.argmax())
    return {
        "rows": len(rows),
        "skipped": skipped,
        "mape": float(size.mean()),
        "wmape": float(np.average(size, weights=weight)),
        "median_ape": float(np.median(size)),
        "p90_ape": float(np.quantile(size, 0.9)),
        "bias": float(np.average(error, weights=weight)),
        "worst": {"row": int(rows["row"].iloc[worst]), "error": float(error[worst])},
    }


def groups(rows: pd.DataFrame, columns: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A block for each combination of values of some columns, named by them."""
    found = rows.groupby(list(columns), sort=True)
    return {" ".join(map(str, name if isinstance(name, tuple) else (name,))): block(part) for name, part in found}


def table(blocks: Mapping[str, Mapping[str, Any]]) -> str:
    """Blocks as aligned lines: rows, median and mean absolute error, 90th percentile, bias."""
    width = max(map(len, blocks), default=0)
    head = f"{'':<{width}}  {'rows':>5} {'median':>8} {'mean':>8} {'p90':>8} {'bias':>8}"
    sizes = ("median_ape", "mape", "p90_ape")
    lines = [
        f"{name:<{width}}  {each['rows']:>5} "
        + " ".join(f"{each[key]:>8.1%}" for key in sizes)
        + f" {each['bias']:>+8.1%}"
        for name, each in blocks.items()
    ]
    return "\n".join([head, *lines])


def bands(sizes: "pd.Series[Any]", upper: Mapping[str, float]) -> "np.ndarray":
    """The band of each size: the first whose upper bound is no less.

    >>> [str(each) for each in bands(pd.Series([1.0, 5.0]), {"small": 2.0, "large": float("inf")})]
    ['small', 'large']
    """
    return np.array(list(upper))[np.searchsorted(list(upper.values()), sizes.to_numpy())]


def skipped(rows: pd.DataFrame) -> dict[str, Any]:
    """How many rows were left out, and how many for which reason."""
    reasons = rows.loc[rows["left_out"] != "", "left_out"].value_counts()
    because = {str(reason): int(count) for reason, count in reasons.items()}
    return {"skipped": sum(because.values()), "skipped_because": because}


def text(tables: Iterable[Mapping[str, Mapping[str, Any]]], summary: Mapping[str, Any]) -> str:
    """Tables in words, and what was left out."""
    lines = [line for each in tables for line in (table(each), "")] + [f"{summary['skipped']} rows left out:"]
    lines += [f"  {count:>4}  {reason}" for reason, count in summary["skipped_because"].items()]
    return "\n".join(lines)
