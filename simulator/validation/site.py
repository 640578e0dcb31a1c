"""One factor for a site: how fast its kernels are, relative to the published constants.

A cluster, its clocks and its software differ from those that constants were fitted to by something that holds for all
its runs. A few measured steps tell that one number: every `kernel_share` is multiplied by it. Assumes that the
network, and the host's time, are as published.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simulator import constants
from simulator.constants import Key, as_yaml
from simulator.kernels import Constants, published
from simulator.validation import report
from simulator.validation.calibration import EVALUATIONS, Model, measured_rows
from simulator.validation.calibration_priors import Prior
from simulator.validation.calibration_report import FILE, header
from simulator.validation.published_runs import cases, read
from simulator.validation.report import check_compared
from simulator.validation.run_times import WORKERS, Values, run_times

NOT_FITTED = ("public_validation", "context")
"""Splits of a file whose rows are kept for comparison."""
SHARE = "kernel_share"
FACTOR: Key = ("training", "site", SHARE)
PRIOR = Prior(1.0, 0.3, "sites differ little from those of published runs")


@dataclass(frozen=True, slots=True)
class Site:
    """What a site's measurements say: its `factor`, with a relative standard error, and all constants with it.

    `rows` have the times before and after; `left_out` are reasons of rows that could not be used.
    """

    factor: float
    error: float
    values: Values
    rows: pd.DataFrame
    left_out: dict[str, int]

    def summary(self) -> dict[str, Any]:
        """What `stepsim calibrate --data FILE --json` prints."""
        return {
            "factor": self.factor,
            "standard_error": self.error,
            "rows": len(self.rows),
            "skipped": sum(self.left_out.values()),
            "skipped_because": self.left_out,
            **{name: report.block(self.rows.assign(predicted=self.rows[name])) for name in ("before", "after")},
        }

    def text(self) -> str:
        """The same in words."""
        found = self.summary()
        before, after = found["before"], found["after"]
        lines = [
            f"kernels of this site run at {self.factor:.3f} of the published speed, ± {self.error:.1%}",
            f"from {len(self.rows)} rows: mean error {before['wmape']:.1%} before, {after['wmape']:.1%} after; "
            f"bias {before['bias']:+.1%} before, {after['bias']:+.1%} after",
        ]
        lines += [f"  {count:>4} left out: {reason}" for reason, count in self.left_out.items()]
        return "\n".join(lines)

    def as_file(self) -> str:
        """All constants, as `stepsim run --constants` takes them."""
        words = f"# Site: every {SHARE} is {self.factor:.4f} of the published one, fitted to {len(self.rows)} rows.\n"
        kept = {key: error for key, error in constants.errors(FILE).items() if key[2] != SHARE}
        return words + header() + as_yaml(self.values, kept, constants.sources(FILE), digits=5)


def calibrate(path: str | Path, *, known: Constants | None = None, workers: int = WORKERS) -> Site:
    """Fit one factor to the rows of a file with the columns of runs.csv, but for those of splits kept apart."""
    frame = read(path)
    frame = frame[~frame["split"].isin(NOT_FITTED)].reset_index(drop=True)
    if frame.empty:
        raise ValueError(f"{path}: every row is of a split that is not fitted ({', '.join(NOT_FITTED)})")
    found, left_out = cases(frame)
    with run_times(found, workers) as times:
        site = fit(times, measured_rows(frame, found), (known or published()).values, left_out.values())
    check_compared({"skipped": sum(site.left_out.values()), "skipped_because": site.left_out}, len(frame), str(path))
    return site


def fit(times: Any, rows: pd.DataFrame, values: Values, left_out: Any = ()) -> Site:
    """The factor with which predictions suit rows with `measured` seconds and a `series` each."""
    reasons = list(left_out)
    before = times(values) if len(rows) else np.empty(0)
    usable = np.isfinite(before)
    reasons += ["it cannot be simulated"] * int((~usable).sum())
    rows = rows[usable].assign(before=before[usable])
    counted = {str(name): int(count) for name, count in pd.Series(reasons, dtype=object).value_counts().items()}
    if rows.empty:
        return Site(1.0, PRIOR.spread, values, rows.assign(after=rows["before"]), counted)
    model = Model(
        lambda each: times(scaled(values, each[FACTOR]))[usable], rows, {**values, FACTOR: 1.0}, {FACTOR: PRIOR}
    )
    logs = model.fit(2 * EVALUATIONS)
    factor, error = float(np.exp(logs[0])), float(model.standard_errors(logs)[0])
    return Site(factor, error, scaled(values, factor), rows.assign(after=model.seconds(logs)), counted)


def scaled(values: Values, factor: float) -> dict[Key, float]:
    """Constants with every kernel faster by a factor.

    >>> scaled({("training", "internlm_2023", "kernel_share"): 0.8}, 0.5)[("training", "internlm_2023", "kernel_share")]
    0.4
    """
    everywhere = {("training", "other", SHARE): 1.0, **values}
    return {key: value * factor if key[2] == SHARE else value for key, value in everywhere.items() if key != FACTOR}
