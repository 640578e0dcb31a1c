"""Measured kernels against what the kernel models make of them: GEMMs, attention, memory streams."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simulator.compute import Roofline
from simulator.kernels import published
from simulator.validation import report
from simulator.validation.fit_kernels import Model, usable
from simulator.validation.measured_kernels import APART, STREAMS, Case, assumed, cases, read

SIZE_BANDS = {"<= 10 GFLOP": 1e10, "<= 100 GFLOP": 1e11, "<= 1 TFLOP": 1e12, "> 1 TFLOP": math.inf}
"""Of the FLOPs that a row counts; memory streams have none."""

BLOCKS = {
    "gemm": ("gemm", "grouped_gemm", "batched_gemm"),
    "grouped_gemm": ("grouped_gemm",),
    "attention": ("attention",),
    "hbm_stream": tuple(STREAMS),
}
"""Kinds of rows in each block of the report; grouped GEMMs count among the GEMMs, and are shown apart as well."""
PARTS = {"grouped_gemm": "  of which grouped_gemm"}
"""What the tables call a block of rows that also count in the one above it."""

ENOUGH = 20
"""GEMMs of one accelerator from which a file of one's own tells its clock."""
CLOCKS = (0.5, 1.25)
"""Between which shares of the nominal clock it is looked for."""


def clock_factors(found: Sequence[Case]) -> dict[str, float]:
    """For accelerators with enough GEMMs, the share of the clock behind their peaks at which GEMMs ran.

    Accelerators of one name are run at different power limits, and GEMMs are what reaches these. The factor is the one
    at which the median error of an accelerator's GEMMs is zero, all series alike. Assumes that attention and memory
    streams draw too little power to be slowed.
    """
    gemms = [case for case in found if case.is_gemm and case.kind not in APART]
    names = sorted({case.accelerator.name for case in gemms})
    mine = {name: [case for case in gemms if case.accelerator.name == name] for name in names}
    return {name: _clock(rows) for name, rows in mine.items() if len(rows) >= ENOUGH}


def _clock(rows: Sequence[Case], halvings: int = 20) -> float:
    """By bisection, as times only fall with the clock."""
    weights = report.evenly(pd.Series([case.series for case in rows]))
    low, high = CLOCKS
    for _ in range(halvings):
        clock = (low + high) / 2
        late = [case.seconds(Roofline(), clock) > case.measured for case in rows]
        slow = weights[late].sum() > weights.sum() / 2
        low, high = (clock, high) if slow else (low, clock)
    return low


def compare(
    frame: pd.DataFrame, found: Sequence[Case], left_out: Mapping[int, str], clocks: Mapping[str, float]
) -> pd.DataFrame:
    """Each row with its prediction, or why it has none; `left_out` is empty for those compared."""
    rows = frame.assign(row=np.arange(len(frame)), flops=0.0, clock_factor=1.0, assumed="")
    rows = rows.assign(measured=np.nan, predicted=np.nan, predicted_at_nominal_clock=np.nan)
    rows = rows.assign(left_out=[left_out.get(each, "") for each in rows["row"]])
    records = frame.to_dict("records")
    for case in found:
        clock = clocks.get(case.accelerator.name, 1.0)
        times = case.measured, case.seconds(Roofline(), clock), case.seconds(Roofline())
        rows.loc[case.row, ["measured", "predicted", "predicted_at_nominal_clock"]] = times
        words = "; ".join(assumed(case, {str(name): value for name, value in records[case.row].items()}))
        rows.loc[case.row, ["flops", "clock_factor", "assumed"]] = case.flops, clock, words
    return rows.assign(error=rows["predicted"] / rows["measured"] - 1.0)


def summed_up(rows: pd.DataFrame, clocks: Mapping[str, float]) -> dict[str, Any]:
    """The report: over all ordinary rows, by accelerator, kind and data type, by size; best shapes and baselines apart.

    Where clocks were found, `at_nominal_clock` has the errors without them.
    """
    compared = rows[rows["left_out"] == ""]
    apart = compared["kind"].isin(list(APART))
    ordinary = compared[~apart]
    beside = {name: report.block(compared[compared["kind"] == kind]) for kind, name in APART.items()}
    for name, column in (
        ("leave_one_series_out", "predicted_without_series"),
        ("at_nominal_clock", "predicted_at_nominal_clock"),
    ):
        if column in rows and (clocks or name == "leave_one_series_out"):
            beside[name] = _blocks(ordinary.assign(predicted=ordinary[column]))
    return {**_blocks(ordinary), **beside, **report.skipped(rows), "clock_factors": dict(clocks)}


def _blocks(rows: pd.DataFrame) -> dict[str, Any]:
    """A block of all rows, and one for each kind, each band of sizes, each accelerator, and each group."""
    band = report.bands(rows["flops"], SIZE_BANDS)
    sized = rows.assign(size=np.where(rows["flops"] > 0, band, ""), data_type=rows["data_type"].fillna("any"))
    return {
        **report.block(rows),
        "kinds": {name: report.block(rows[rows["kind"].isin(kinds)]) for name, kinds in BLOCKS.items()},
        "size_bands": {name: report.block(sized[sized["size"] == name]) for name in SIZE_BANDS},
        "accelerators": report.groups(rows, ["accelerator"]),
        "groups": report.groups(sized, ["accelerator", "kind", "data_type"]),
    }


def text(summary: dict[str, Any]) -> str:
    """The report in words."""
    tables = [
        {"all rows": summary, **_kinds(summary)},
        summary["size_bands"],
        summary["accelerators"],
        summary["groups"],
        {name.replace("_", " "): summary[name] for name in APART.values()},
    ]
    named = {"leave_one_series_out": "each series by a fit without it", "at_nominal_clock": "at the nominal clock"}
    for name, words in named.items():
        if name in summary:
            tables.insert(1, {words: summary[name], **_kinds(summary[name])})
    found = ", ".join(f"{name} {clock:.2f}" for name, clock in summary["clock_factors"].items())
    return report.text(tables, summary) + (f"\n\nclocks of GEMMs, of the nominal one: {found}" if found else "")


def _kinds(block: Mapping[str, Any]) -> dict[str, Any]:
    """The blocks of kinds, named so that what counts among the kind above it is seen not to add to it."""
    return {PARTS.get(name, name): each for name, each in block["kinds"].items()}


def validate(path: str | Path | None = None) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Compare a file of measurements, or the package's own; the rows and the report.

    The package's own were fitted; for them the report also says how well fits without a series predict that series. In
    any other file, accelerators with enough GEMMs run them at the clock that these tell.
    """
    frame = read(path)
    found, left_out = cases(frame)
    clocks = {} if path is None else clock_factors(found)
    rows = compare(frame, found, left_out, clocks)
    if path is None:
        fitted = usable(found)
        unseen = dict(zip([case.row for case in fitted], Model(fitted, published()).left_out().tolist(), strict=True))
        rows = rows.assign(predicted_without_series=rows["row"].map(unseen))
    return rows, summed_up(rows, clocks)
