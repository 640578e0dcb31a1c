"""Published training runs against what the simulator makes of them."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from tqdm import tqdm

from simulator.constants import Key
from simulator.deadlock import DeadlockError
from simulator.kernel_files import load
from simulator.kernels import Constants
from simulator.simulation import simulate
from simulator.validation import report, runs_baseline, runs_ranking
from simulator.validation.published_memory import BELOW, peak, reasons
from simulator.validation.published_runs import Case, cases, kind, read
from topologies.plugins import unknown

CLASSES = ("dense_tier1", "dense_tier2", "moe_tier1", "moe_tier2")
APART = ("context",)
"""Splits for orientation only, which count in no sum."""
WORKERS = 2
CONTEXT_PARALLEL = "context parallelism"

Outcome = tuple[float, float, str]
"""Seconds of a step, bytes of the fullest rank as the source counts them, why there is neither."""


def predict(
    found: Sequence[Case], *, workers: int = WORKERS, progress: bool = False, constants: str | Path | None = None
) -> list[Outcome]:
    """Simulate every case, equal ones once; on several processes, with a bar on stderr if there is to be progress.

    `constants` is the path of a file with those of kernels, if not the published ones.
    """
    first = {each.key: each for each in reversed(found)}
    keys = [each.key for each in sorted((first[key] for key in dict.fromkeys(each.key for each in found)), key=_order)]
    known = None if constants is None else load(constants).values
    parallel = joblib.Parallel(n_jobs=workers, return_as="generator", batch_size=4 if len(keys) > 50 else 1)
    done = parallel(joblib.delayed(outcome)(first[key], known) for key in keys)
    bar = tqdm(done, total=len(keys), desc="runs", file=sys.stderr, disable=not progress, leave=False)
    outcomes = dict(zip(keys, bar, strict=True))
    return [outcomes[each.key] for each in found]


def _order(case: Case) -> tuple[Any, ...]:
    """Schedules by search first, equal ones together: they take longest, and each process keeps the latest ones."""
    given = dict(case.arguments)
    return (0, case.plan, given["batch"] // given["microbatch"]) if "zb_auto" in case.plan else (1, "", 0)


def outcome(case: Case, values: Mapping[Key, float] | None = None) -> Outcome:
    """One case, simulated; a step or a cluster that cannot be is no error, but left out."""
    constants = None if values is None else Constants(values)
    try:
        result = simulate(case.step(), case.cluster(), detail="actions", constants=constants)
    except (ValueError, DeadlockError) as error:
        return np.nan, np.nan, f"cannot be simulated: {' '.join(str(error).split())}"
    return result.step_time, peak(result)[case.memory], ""


def compare(
    frame: pd.DataFrame, found: Sequence[Case], left_out: Mapping[int, str], outcomes: Iterable[Outcome]
) -> pd.DataFrame:
    """Each row with its prediction, or why it has none; `left_out` is empty for those compared."""
    records = frame.to_dict("records")
    rows = frame.assign(row=np.arange(len(frame)), series=frame["recipe"])
    rows["class"] = [kind({str(name): value for name, value in record.items()}) for record in records]
    rows["tier"] = rows["class"].str[-1].astype(int)
    rows = rows.assign(stack="", plan="", topology="", measured=np.nan, predicted=np.nan, predicted_memory=np.nan)
    rows = rows.assign(flops=np.nan, assumed="", left_out=[left_out.get(each, "") for each in rows["row"]])
    columns = ["stack", "plan", "topology", "measured", "predicted", "predicted_memory", "flops", "assumed", "left_out"]
    values = {
        case.row: (case.stack, case.plan, case.topology, case.measured, time, memory, case.flops, _words(case), reason)
        for case, (time, memory, reason) in zip(found, outcomes, strict=True)
    }
    if values:
        rows.loc[list(values), columns] = pd.DataFrame(list(values.values()), index=list(values), columns=columns)
    return rows.assign(error=rows["predicted"] / rows["measured"] - 1.0, memory_note=reasons(rows))


def _words(case: Case) -> str:
    return "; ".join(f"assumed: {each}" for each in case.assumed)


OUT = ("id", "split", "tier", "class", "group", "recipe", "stack", "plan", "topology", "predicted", "measured", "error")
OUT_MEMORY = {"predicted_memory": "predicted_peak_memory_bytes", "peak_memory_bytes": "peak_memory_bytes"}


def written(rows: pd.DataFrame) -> pd.DataFrame:
    """What `--out` has of the rows."""
    return rows[[*OUT, *OUT_MEMORY, "memory_note", "assumed", "left_out"]].rename(columns=OUT_MEMORY)


def summed_up(rows: pd.DataFrame) -> dict[str, Any]:
    """The report: all rows but context, by group, by split, within it by class and group; and what lies beside."""
    whole = rows[~rows["split"].isin(APART)]
    compared = whole[whole["left_out"] == ""]
    return {
        **_block(whole),
        "skipped_because": report.skipped(whole)["skipped_because"],
        "groups": _blocks(whole, "group"),
        "splits": {str(name): _split(part) for name, part in rows.groupby("split", sort=True)},
        "stacks": stacks(compared),
        "dense_left_out": _dense_left_out(whole),
        "memory": memory(compared),
        "ranking": runs_ranking.ranking(compared),
        "scaling": runs_ranking.scaling(compared),
        "baseline": runs_baseline.summed_up(rows[rows["left_out"] == ""], APART),
    }


def _block(rows: pd.DataFrame) -> dict[str, Any]:
    """Errors of the compared ones of some rows, and how many are not."""
    compared = rows[rows["left_out"] == ""]
    return report.block(compared, skipped=len(rows) - len(compared))


def _blocks(rows: pd.DataFrame, column: str) -> dict[str, Any]:
    return {str(name): _block(part) for name, part in rows.groupby(column, sort=True)}


def stacks(rows: pd.DataFrame) -> dict[str, Any]:
    """Errors by software stack, and how many sources (a paper, a table of a repository) each serves.

    A stack that serves a single source may have been described to suit it, so that its rows say less.
    """
    found = {str(name): part for name, part in rows.groupby("stack", sort=True)}
    return {name: {**_block(part), "sources": int(part["source"].nunique())} for name, part in found.items()}


def _split(rows: pd.DataFrame) -> dict[str, Any]:
    classes = {name: _block(rows[rows["class"] == name]) for name in CLASSES}
    return {**_block(rows), "classes": classes, "groups": _blocks(rows, "group")}


def _dense_left_out(rows: pd.DataFrame) -> dict[str, Any]:
    """How many dense rows are left out, and which share of those that need no context parallelism."""
    dense = rows[rows["class"].str.startswith("dense")]
    needs_cp = dense["left_out"].str.startswith(CONTEXT_PARALLEL)
    other = dense[~needs_cp]
    skipped = int((other["left_out"] != "").sum())
    share = skipped / len(other) if len(other) else 0.0
    return {"rows": len(dense), "context_parallel": int(needs_cp.sum()), "others": skipped, "share": share}


def memory(rows: pd.DataFrame) -> dict[str, Any]:
    """Predicted against published peaks of memory; `under` counts those lower by more than 15 %.

    `unexplained` of these have no reason by their side.
    """
    known = rows[rows["peak_memory_bytes"].notna()]
    error = (known["predicted_memory"] / known["peak_memory_bytes"] - 1.0).to_numpy()
    if not len(known):
        return {"rows": 0, "median_ape": None, "bias": None, "under": 0, "unexplained": 0, "groups": {}}
    low = error < -BELOW
    groups = {} if known["group"].nunique() == 1 else {str(name): memory(part) for name, part in known.groupby("group")}
    return {
        "rows": len(known),
        "median_ape": float(np.median(np.abs(error))),
        "bias": float(error.mean()),
        "under": int(low.sum()),
        "unexplained": int((low & (known["memory_note"] == "").to_numpy()).sum()),
        "groups": groups,
    }


def text(summary: dict[str, Any]) -> str:
    """The report in words: errors of rows, all alike; then what lies beside."""
    from simulator.validation import runs_text

    return runs_text.text(summary)


def validate(
    path: str | Path | None = None,
    *,
    splits: Sequence[str] = (),
    groups: Sequence[str] = (),
    progress: bool = False,
    constants: str | Path | None = None,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Simulate a file of published runs, or the package's own; the rows and the report.

    `splits` and `groups` keep the rows of some alone; `constants` is a file of those of kernels, if not the published.
    """
    frame = read(path)
    for column, kept in (("split", splits), ("group", groups)):
        frame = _only(frame, column, kept)
    found, left_out = cases(frame)
    rows = compare(frame, found, left_out, predict(found, progress=progress, constants=constants))
    return rows, summed_up(rows)


def _only(frame: pd.DataFrame, column: str, kept: Sequence[str]) -> pd.DataFrame:
    """The rows whose column has one of some values; all if none is given."""
    known = sorted(frame[column].unique())
    for name in kept:
        if name not in known:
            raise ValueError(unknown(column, name, known))
    return frame[frame[column].isin(list(kept))].reset_index(drop=True) if kept else frame
