"""Measured collectives against what the network model makes of them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simulator.fabrics import published
from simulator.validation import report
from simulator.validation.fit import Model
from simulator.validation.measured import Case, cases, read

SIZE_BANDS = {
    "<= 64 KiB": 2**16,
    "<= 1 MiB": 2**20,
    "<= 64 MiB": 2**26,
    "< 1 GiB": 2**30 - 1,
    ">= 1 GiB": math.inf,
}


def compare(frame: pd.DataFrame, found: Sequence[Case], left_out: dict[int, str]) -> pd.DataFrame:
    """Each row with its prediction, or why it has none; `left_out` is empty for those compared."""
    rows = frame.assign(row=np.arange(len(frame)), measured=frame["time_seconds"], predicted=np.nan)
    rows = rows.assign(
        predicted_algorithm="", topology="", assumed="", left_out=[left_out.get(each, "") for each in rows["row"]]
    )
    for each in found:
        best = each.fastest
        rows.loc[each.row, "predicted"] = float(best.seconds(each.topology)[0])
        words = best.algorithm, each.topology.name, "; ".join(each.assumed)
        rows.loc[each.row, ["predicted_algorithm", "topology", "assumed"]] = words
    return rows.assign(error=rows["predicted"] / rows["measured"] - 1.0)


def summed_up(rows: pd.DataFrame) -> dict[str, Any]:
    """The report: over all compared rows, by accelerator, network and collective, and by size."""
    compared = rows[rows["left_out"] == ""]
    compared = compared.assign(size=report.bands(compared["size_bytes"], SIZE_BANDS))
    unseen = "predicted_without_series"
    beside = (
        {} if unseen not in rows else {"leave_one_series_out": _banded(compared.assign(predicted=compared[unseen]))}
    )
    return {
        **_banded(compared),
        **beside,
        **report.skipped(rows),
        "groups": report.groups(compared, ["accelerator", "fabric", "collective"]),
    }


def _banded(rows: pd.DataFrame) -> dict[str, Any]:
    """A block of all rows, and one for each band of sizes."""
    bands = {name: report.block(rows[rows["size"] == name]) for name in SIZE_BANDS}
    return {**report.block(rows), "size_bands": bands}


def text(summary: dict[str, Any]) -> str:
    """The report in words."""
    tables = [{"all rows": summary, **summary["size_bands"]}, summary["groups"]]
    if "leave_one_series_out" in summary:
        unseen = summary["leave_one_series_out"]
        named = {"each series by a fit without it": unseen, **unseen["size_bands"]}
        tables.insert(1, named)
    return report.text(tables, summary)


def validate(path: str | Path | None = None) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Compare a file of measurements, or the package's own; the rows and the report.

    The package's own were fitted; for them the report also says how well fits without a series predict that series.
    """
    frame = read(path)
    found, left_out = cases(frame)
    rows = compare(frame, found, left_out)
    if path is not None:
        return rows, summed_up(rows)
    unseen = dict(zip([each.row for each in found], Model(found, published()).left_out().tolist(), strict=True))
    rows = rows.assign(predicted_without_series=rows["row"].map(unseen))
    return rows, summed_up(rows)
