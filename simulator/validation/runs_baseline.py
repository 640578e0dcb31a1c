"""A guess to be better than: one MFU for each accelerator and precision, that of the calibration runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from simulator.validation import report
from simulator.validation.published_runs import cases, read

FITTED = "calib"
KEYS = ("accelerator", "precision")


def predictions(rows: pd.DataFrame, known: pd.DataFrame) -> "pd.Series[float]":
    """Step times of rows at the MFU of known ones: of their accelerator and precision, else accelerator, else of all.

    Rows have `flops`, those of a step over the peak of all accelerators, so in seconds; the MFU of several rows is
    their median, each recipe counted once.
    """
    levels = [list(KEYS), [KEYS[0]], []]
    found = pd.Series(np.nan, index=rows.index)
    for level in levels:
        shares = {_key(row, level): _mfu(part) for row, part in _parts(known, level)}
        guesses = [shares.get(_key(row, level), np.nan) for row in rows.to_dict("records")]
        found = found.fillna(pd.Series(guesses, index=rows.index, dtype=float))
    return rows["flops"] / found


def _parts(rows: pd.DataFrame, level: Sequence[str]) -> list[tuple[dict[Any, Any], pd.DataFrame]]:
    if rows.empty:
        return []
    parts = [part for _, part in rows.groupby(list(level))] if level else [rows]
    return [(part.iloc[0].to_dict(), part) for part in parts]


def _key(row: dict[Any, Any], level: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in level)


def _mfu(rows: pd.DataFrame) -> float:
    """The median, recipes weighing the same."""
    order = np.argsort((rows["flops"] / rows["measured"]).to_numpy())
    weights = report.evenly(rows["series"])[order].cumsum()
    middle = int(np.searchsorted(weights, weights[-1] / 2))
    return float((rows["flops"] / rows["measured"]).to_numpy()[order[middle]])


def known() -> pd.DataFrame:
    """The package's own calibration runs, without predictions."""
    frame = read()
    found, _ = cases(frame)
    rows = frame.loc[[case.row for case in found]].assign(
        series=lambda each: each["recipe"],
        measured=[case.measured for case in found],
        flops=[case.flops for case in found],
    )
    return rows[rows["split"] == FITTED]


def summed_up(rows: pd.DataFrame, apart: Sequence[str]) -> dict[str, Any]:
    """The report of the guess, as that of the simulator: over all rows but those apart, and by split and class."""
    if rows.empty:
        return report.block(rows)
    mine = rows[rows["split"] == FITTED]
    guessed = rows.assign(predicted=predictions(rows, known() if mine.empty else mine))
    splits = {
        str(name): {
            **report.block(part),
            "classes": {str(each): report.block(own) for each, own in part.groupby("class")},
        }
        for name, part in guessed.groupby("split", sort=True)
    }
    return {**report.block(guessed[~guessed["split"].isin(list(apart))]), "splits": splits}
