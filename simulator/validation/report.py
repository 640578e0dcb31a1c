"""Errors of predictions, summed up: blocks, groups of blocks."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

TIMES = ("measured", "predicted", "predicted_without_series", "predicted_at_nominal_clock")
SECONDS = {name: f"{name}_seconds" for name in TIMES}
"""Columns of times as a file has them, units in their names."""


def block(rows: pd.DataFrame, skipped: int = 0) -> dict[str, Any]:
    """Errors of some rows, as fractions of the measured value; None where there is no row.

    `mape` counts every row alike; `wmape` and `bias`, the mean with its sign, count every series alike, since some
    sources have many times the rows of others.

    >>> frame = pd.DataFrame({"row": [0, 1, 2], "predicted": [1.1, 1.3, 0.8], "series": list("aab")})
    >>> {name: round(block(frame.assign(measured=1.0))[name], 3) for name in ("mape", "wmape", "bias")}
    {'mape': 0.2, 'wmape': 0.2, 'bias': 0.0}
    """
    if rows.empty:
        names = ("mape", "wmape", "median_ape", "p90_ape", "bias")
        return {"rows": 0, "skipped": skipped, **dict.fromkeys((*names, "worst"))}
    error = rows["predicted"].to_numpy() / rows["measured"].to_numpy() - 1.0
    weights = evenly(rows["series"])
    size = np.abs(error)
    worst = int(size.argmax())
    return {
        "rows": len(rows),
        "skipped": skipped,
        "mape": float(size.mean()),
        "wmape": float(np.average(size, weights=weights)),
        "median_ape": float(np.median(size)),
        "p90_ape": float(np.quantile(size, 0.9)),
        "bias": float(np.average(error, weights=weights)),
        "worst": {"row": int(rows["row"].iloc[worst]), "error": float(error[worst])},
    }


def evenly(series: "pd.Series[Any]") -> "np.ndarray":
    """Weights of rows with which all their series weigh the same.

    >>> evenly(pd.Series(["long", "long", "short"])).tolist()
    [0.5, 0.5, 1.0]
    """
    return 1.0 / np.asarray(series.map(series.value_counts()), dtype=float)


def groups(rows: pd.DataFrame, columns: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A block for each combination of values of some columns, named by them."""
    found = rows.groupby(list(columns), sort=True)
    return {" ".join(map(str, name if isinstance(name, tuple) else (name,))): block(part) for name, part in found}


def table(blocks: Mapping[str, Mapping[str, Any]]) -> str:
    """Blocks as aligned lines: rows, median and mean absolute error, 90th percentile, bias; "-" for none."""
    width = max(map(len, blocks), default=0)
    head = f"{'':<{width}}  {'rows':>5} {'median':>8} {'mean':>8} {'p90':>8} {'bias':>8}"
    sizes = ("median_ape", "mape", "p90_ape")
    lines = [
        f"{name:<{width}}  {each['rows']:>5} "
        + " ".join(f"{_percent(each[key]):>8}" for key in sizes)
        + f" {_percent(each['bias'], '+'):>8}"
        for name, each in blocks.items()
    ]
    return "\n".join([head, *lines])


def _percent(error: float | None, sign: str = "") -> str:
    """An error in at most 8 characters."""
    if error is None:
        return "-"
    return f"{error:{sign}.1%}" if abs(error) < 100 else f"{100 * error:{sign}.0e}%"


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
    """Tables in words, but for empty ones, and what was left out."""
    count = summary["skipped"]
    words = f"{count} row{'s' if count > 1 else ''} left out:" if count else "no row left out"
    lines = [line for each in tables if each for line in (table(each), "")] + [words]
    lines += [f"  {count:>4}  {reason}" for reason, count in summary["skipped_because"].items()]
    return "\n".join(lines)


def check_compared(summary: Mapping[str, Any], rows: int, data: str | None) -> None:
    """Refuse to report on a file of which every row was left out: errors of nothing would read as agreement."""
    if summary["skipped"] == rows:
        reasons = "; ".join(f"{count} × {reason}" for reason, count in summary["skipped_because"].items())
        raise ValueError(f"{data}: no row can be compared; left out: {reasons}")
