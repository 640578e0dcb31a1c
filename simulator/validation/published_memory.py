"""What published peaks of memory count, predictions counted the same way, and what is known where they differ."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from simulator.validation.published_cells import Cells

if TYPE_CHECKING:
    from simulator.result import Result

COUNTS = {"allocated": "allocated", "torchtitan": "reserved", "bigscience": "device"}
"""Words of a row's source, reference and notes, and what its figure counts: tensors alone (max_memory_allocated), what
the caching allocator holds for them (max_memory_reserved: torchtitan's metrics print it as memory), or all that is in
use on the device (nvidia-smi, by which BigScience's chronicles tell memory). Unstated is allocated with the runtime."""
UNSTATED = "unstated"

BELOW = 0.15
"""A predicted peak of memory that is lower than the published one by more than this is counted."""
NOISE = 1.1
"""Repeats of one configuration that differ by this factor say how far a single figure can be trusted."""
LAYOUT = ("source", "model", "stack", "plan", "sequence", "recompute", "precision")
"""What two rows share that differ by their microbatch alone, whose memory grows with it."""


def counted(cells: Cells) -> str:
    """What the memory of a row counts.

    >>> counted(Cells({"notes": "peak allocated GiB; CE fusion"})), counted(Cells({}))
    ('allocated', 'unstated')
    """
    words = f"{cells.sources} {cells.word('notes')}".lower()
    return next((count for word, count in COUNTS.items() if word in words), UNSTATED)


def peak(result: "Result") -> dict[str, float]:
    """Bytes of the fullest rank by each way to count them."""
    runtime = result.memory_rows["runtime"]
    return {
        "allocated": result.peak_memory - runtime,
        "reserved": result.reserved_memory - runtime,
        "device": result.reserved_memory,
        UNSTATED: result.peak_memory,
    }


def reasons(rows: pd.DataFrame) -> pd.Series:
    """Of rows whose prediction is too low by more than 15 % what speaks against the published figure; else empty."""
    error = rows["predicted_memory"] / rows["peak_memory_bytes"] - 1.0
    low = rows[error < -BELOW]
    found: Mapping[int, str] = {int(number): _reason(rows, int(number)) for number in low.index}
    return pd.Series(found, index=rows.index, dtype=object).fillna("")


def _reason(rows: pd.DataFrame, number: int) -> str:
    """A larger microbatch of the same layout that took less, or repeats that differ."""
    row = rows.loc[number]
    alike = rows[(rows[list(LAYOUT)].fillna("") == row[list(LAYOUT)].fillna("")).all(axis=1)]
    own = row["peak_memory_bytes"]
    larger = alike[(alike["microbatch"] > row["microbatch"]) & (alike["peak_memory_bytes"] < own)]
    if len(larger):
        other = larger.iloc[0]
        lower = other["peak_memory_bytes"] / 1e9
        return f"published {own / 1e9:.3g} GB, but {lower:.3g} GB with microbatch={other['microbatch']:g}"
    repeats = alike.loc[alike["microbatch"] == row["microbatch"], "peak_memory_bytes"]
    return f"repeats differ by {repeats.max() / repeats.min() - 1:.0%}" if repeats.max() > NOISE * repeats.min() else ""
