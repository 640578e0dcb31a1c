"""Whether the simulator tells the faster of two published runs, and how runs scale."""

from typing import Any

import numpy as np
import pandas as pd

CLOSE = 0.03
"""Times of two runs that differ by less are too close to tell which is faster: repeats do (data README)."""
ALIKE = {"bloom": ("gpus", "batch"), "vtrain_multi": ("gpus", "batch"), "vtrain_single": ("gpus", "batch")}
"""Groups of many layouts, in which runs are only compared that have these in common."""

CONFIGURATION = (
    *("group", "source", "reference", "recipe_rows", "notes", "model", "layers", "hidden", "ffn_hidden", "heads"),
    *("vocabulary", "accelerator_as_published", "tp", "sequence_parallel", "pp", "vpp", "cp", "ep", "microbatch"),
    *("sequence", "schedule", "recompute_note", "precision_note", "precision", "sharding", "shard_group"),
    *("overlap_tp", "overlap_pp", "overlap_dp"),
)
"""What runs of one curve of scaling have in common; GPUs, replicas, batch and microbatches differ along it."""


def ranking(rows: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """For each group, and within it each split: pairs of runs that differ enough, and those ordered rightly."""
    return {
        str(name): {
            **_pairs(part),
            "splits": {str(split): _pairs(own) for split, own in part.groupby("split", sort=True)},
        }
        for name, part in rows.groupby("group", sort=True)
    }


def _pairs(rows: pd.DataFrame) -> dict[str, Any]:
    """Pairs of one group.

    >>> times = {"measured": [1.0, 1.01, 2.0], "predicted": [1.0, 3.0, 2.0]}
    >>> _pairs(pd.DataFrame({"group": "a", **times}))
    {'pairs': 2, 'right': 1, 'share': 0.5}
    """
    alike = ALIKE.get(str(rows["group"].iloc[0]), ())
    parts = [part for _, part in rows.groupby(list(alike))] if alike else [rows]
    counts = np.array([_ordered(part) for part in parts]).sum(axis=0)
    pairs, right = int(counts[0]), int(counts[1])
    return {"pairs": pairs, "right": right, "share": right / pairs if pairs else None}


def _ordered(rows: pd.DataFrame) -> tuple[int, int]:
    """How many pairs differ enough, and how many of these are predicted in the same order.

    Runs of which all that is stated is equal are no pair: they have one prediction.
    """
    measured, predicted = (np.log(rows[name].to_numpy(float)) for name in ("measured", "predicted"))
    first, second = np.triu_indices(len(rows), 1)
    gaps, guesses = measured[second] - measured[first], predicted[second] - predicted[first]
    apart = (np.abs(gaps) > np.log1p(CLOSE)) & (guesses != 0)
    return int(apart.sum()), int((np.sign(gaps) == np.sign(guesses))[apart].sum())


def scaling(rows: pd.DataFrame) -> dict[str, Any]:
    """Curves t(N)/t(N0) of runs that differ in the number of accelerators alone: how far the predicted ones are off.

    Either every replica keeps its share of the batch (weak) or the batch stays as it is (strong). The deviation of a
    curve is the largest of its points', relative to the published curve; the report has the median of all curves'.
    """
    weak = _curves(rows.assign(kept=rows["batch"] / rows["gpus"]), "weak")
    strong = _curves(rows.assign(kept=rows["batch"]), "strong")
    curves = [*weak, *strong]
    sizes = [curve["largest_deviation"] for curve in curves]
    return {
        "curves": len(curves),
        "median_largest_deviation": float(np.median(sizes)) if sizes else None,
        "worst": max(curves, key=lambda curve: curve["largest_deviation"]) if curves else None,
        "each": curves,
    }


def _curves(rows: pd.DataFrame, mode: str) -> list[dict[str, Any]]:
    columns = [name for name in CONFIGURATION if name in rows]
    found = []
    for _, part in rows.groupby([*columns, "kept"], dropna=False, sort=False):
        means = part.groupby("gpus", sort=True)[["measured", "predicted"]].mean()
        if len(means) > 1:
            curve = means / means.iloc[0]
            deviation = (curve["predicted"] / curve["measured"] - 1.0).abs().max()
            first = part.iloc[0]
            found.append(
                {
                    "group": str(first["group"]),
                    "first_row": str(first["id"]),
                    "mode": mode,
                    "gpus": [int(each) for each in means.index],
                    "largest_deviation": float(deviation),
                }
            )
    return found
