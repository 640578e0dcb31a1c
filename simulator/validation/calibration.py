"""Fitting the constants of training steps to published runs: `stepsim calibrate`.

Robust least squares of log step time over the calibration rows of dense runs, tier 1, where a recipe weighs 1; each
constant is drawn towards what microbenchmarks or sources say (`calibration_priors`). What the rows do not tell, keeps
that value. Assumes that recipes err independently, which understates standard errors, as sources are off as a whole.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from simulator.constants import Key
from simulator.demand import Floats
from simulator.kernels import Constants, published
from simulator.validation import report
from simulator.validation.calibration_priors import Prior, prior
from simulator.validation.fitting import Fit
from simulator.validation.published_runs import Case, cases, kind, read
from simulator.validation.run_times import WORKERS, Values, run_times

SPLIT, CLASS = "calib", "dense_tier1"
MOST = 8
"""Rows of a recipe, which weighs 1 however many it has; more are thinned out evenly."""
NOISE = 0.05
"""Log error of a run that is expected anyway: repeats of one recipe differ by up to 5 % between releases of software
(data README). The unit of priors, and the least that standard errors take rows to err by."""
UNTOLD = 0.8
"""A constant whose standard error is not below this share of its prior's is not told by the rows."""
TELLS = 0.01
"""A row tells a constant if its log time changes by this much of the constant's logarithm."""
EVALUATIONS = 3
"""Of all runs, before a fit is taken for found; each further one costs slopes too."""
LEAST = 1e-9
SHARES = ("clock", "attention_clock", "memory", "share", "nvfp4_ratio")


class Model(Fit):
    """Times of runs as a function of the logarithms of some constants, the others being as given.

    Slopes are taken over 2 %, as times have kinks where something else becomes critical.
    """

    outlier = 0.1
    slope_step = 0.02
    finite = True

    def __init__(
        self, times: Callable[[Values], Floats], rows: pd.DataFrame, values: Values, priors: Mapping[Key, Prior]
    ) -> None:
        self._times, self._values, self.rows = times, dict(values), rows
        self.measured, self.series = rows["measured"].to_numpy(), rows["series"].to_numpy()
        self.keys = list(priors)
        self.start = np.log([values[key] or priors[key].value for key in self.keys])
        self.prior = np.log([each.value for each in priors.values()])
        self.stiffness = NOISE / np.array([each.spread for each in priors.values()])
        capped = [key[2] in SHARES or key[2].startswith("gemm") for key in self.keys]
        self.bounds = np.full(len(capped), np.log(LEAST)), np.where(capped, 0.0, np.inf)
        self._known: dict[bytes, Floats] = {}

    def seconds(self, logs: Floats) -> Floats:
        """The time of each row's run, given the logarithms of the constants."""
        name = np.asarray(logs).tobytes()
        if name not in self._known:
            self._known[name] = self._times(self.values(logs))
        return self._known[name]

    def values(self, logs: Floats) -> dict[Key, float]:
        """All constants, fitted ones in place of their own; to 12 digits, so that the same logarithms mean the same."""
        found = (float(f"{value:.12g}") for value in np.exp(logs).tolist())
        return {**self._values, **dict(zip(self.keys, found, strict=True))}

    def weights(self) -> Floats:
        """Every recipe weighs 1."""
        return np.asarray(np.sqrt(report.evenly(self.rows["series"])))

    def standard_errors(self, logs: Floats) -> Floats:
        """Relative standard errors from the Gauss-Newton covariance, where a recipe counts as one measurement."""
        weight = self.weights()
        error = weight * np.log(self.seconds(logs) / self.measured)
        free = max(float(np.sum(weight**2)) - len(self.keys), 1.0)
        variance = max(float(np.sum(self.robust(error) * error**2)) / free, NOISE**2)
        return np.asarray(np.sqrt(variance * np.diag(np.linalg.inv(self._curvature(logs)))))

    def untold(self, logs: Floats) -> list[Key]:
        """The constants that rows leave about as uncertain as their priors: the least told one first, then the rest.

        Each is looked at with those before it known, so that of two that rows tell only together, one remains.
        """
        curvature, left = self._curvature(logs), list(range(len(self.keys)))
        found: list[Key] = []
        while left:
            inverse = np.linalg.inv(curvature[np.ix_(left, left)])
            shares = np.sqrt(np.diag(inverse)) * self.stiffness[left]
            least = int(shares.argmax())
            if shares[least] < UNTOLD:
                break
            found.append(self.keys[left.pop(least)])
        return found

    def tells(self, logs: Floats) -> list[int]:
        """How many rows tell each constant."""
        return [int(each) for each in (np.abs(self.slopes(logs)) > TELLS).sum(axis=0)]

    def _curvature(self, logs: Floats) -> Floats:
        weight = self.weights()
        slopes = self.slopes(logs) * weight[:, None]
        robust = self.robust(weight * np.log(self.seconds(logs) / self.measured))
        return np.asarray((slopes * robust[:, None]).T @ slopes + np.diag(self.stiffness**2))


@dataclass(frozen=True, slots=True)
class Fitted:
    """What became of a constant: its values, its relative standard error, how many rows tell it.

    A `refused` one has the value of its prior and no standard error.
    """

    key: Key
    before: float
    after: float
    error: float | None
    rows: int
    refused: bool
    prior: Prior


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fit: all constants' `values`, what became of those asked about, and the rows with times before and after."""

    values: Values
    fitted: tuple[Fitted, ...]
    rows: pd.DataFrame

    def errors(self, column: str) -> dict[str, object]:
        """Errors of the times of a column, `before` or `after`, as a block of any validation."""
        return report.block(self.rows.assign(predicted=self.rows[column]))


def calibrate(
    data: Sequence[str | Path] = (),
    *,
    constants: Constants | None = None,
    evaluations: int = EVALUATIONS,
    workers: int = WORKERS,
    progress: bool = False,
) -> Calibration:
    """Fit the constants of training steps to the package's calibration runs, and to those of further files.

    `evaluations` are of all runs, beside one for every constant and each of them that leads on.
    """
    if evaluations < 1:
        raise ValueError(f"evaluations={evaluations}; a fit needs at least 1")
    rows, found = calibration_rows([None, *data])
    with run_times(found, workers, progress=progress) as times:
        return fit(times, rows, (constants or published()).values, evaluations)


def fit(
    times: Callable[[Values], Floats], rows: pd.DataFrame, values: Values, evaluations: int = EVALUATIONS
) -> Calibration:
    """Fit those of some constants that have a prior to rows with `measured` seconds and a `series` each.

    `times` gives the seconds of every row's run; rows for which it has none are left out.
    """
    before = times(values)
    usable = np.isfinite(before)
    rows = rows[usable].assign(before=before[usable])
    priors = {key: found for key in values if (found := prior(key)) is not None}
    first = Model(lambda each: times(each)[usable], rows, values, priors)
    untold = first.untold(first.start)
    kept = {key: each for key, each in priors.items() if key not in untold}
    model = Model(
        lambda each: times(each)[usable], rows, {**values, **{key: priors[key].value for key in untold}}, kept
    )
    logs = model.fit(evaluations) if kept else model.start
    after = model.values(logs)
    errors = dict(zip(kept, model.standard_errors(logs).tolist(), strict=True)) if kept else {}
    tells = {**dict(zip(priors, first.tells(first.start), strict=True))}
    fitted = tuple(
        Fitted(key, values[key], after[key], errors.get(key), tells[key], key in untold, each)
        for key, each in priors.items()
    )
    return Calibration(after, fitted, rows.assign(after=model.seconds(logs)))


def calibration_rows(paths: Sequence[str | Path | None]) -> tuple[pd.DataFrame, list[Case]]:
    """The calibration rows of files, None for the package's own, and their cases; recipes thinned out."""
    parts, found = [], []
    for path in paths:
        frame = read(path)
        mine = [case for case in cases(frame)[0] if _counts(frame, case)]
        if not mine:
            raise ValueError(f"{path or 'runs.csv'} has no {SPLIT} row of a dense run, tier 1, that can be simulated")
        rows = measured_rows(frame, mine)
        kept = thinned(rows["series"])
        parts.append(rows[kept])
        found += [case for case, keep in zip(mine, kept, strict=True) if keep]
    return pd.concat(parts, ignore_index=True), found


def measured_rows(frame: pd.DataFrame, found: Sequence[Case]) -> pd.DataFrame:
    """The rows of cases, with what a fit and a report need of them."""
    rows = frame.loc[[case.row for case in found], ["id", "group", "split"]].reset_index(drop=True)
    return rows.assign(
        row=[case.row for case in found],
        series=frame.loc[[case.row for case in found], "recipe"].astype(str).to_numpy(),
        measured=[case.measured for case in found],
    )


def _counts(frame: pd.DataFrame, case: Case) -> bool:
    row = {str(name): value for name, value in frame.iloc[case.row].items()}
    return row["split"] == SPLIT and kind(row) == CLASS


def thinned(series: "pd.Series[str]", most: int = MOST) -> "np.ndarray":
    """Which rows to keep so that no series has more than so many, evenly spread over it.

    >>> thinned(pd.Series(list("aaaab")), 2).tolist()
    [True, False, True, False, True]
    """
    place = series.groupby(series).cumcount().to_numpy()
    count = series.map(series.value_counts()).to_numpy()
    share = np.minimum(most / count, 1.0)
    return np.asarray(np.floor((place + 1) * share - 1e-9) > np.floor(place * share - 1e-9))
