"""Published pipeline schedules and their figures against what stepsim generates and replays."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from simulator.validation import closed_forms, report, schedule_bubbles
from simulator.validation.schedule_checks import checks
from simulator.validation.schedule_tables import read

PARTS = {
    "orders": "orders generated action for action",
    "figures": "figures replayed to their digits",
    "searches": "figures of searched schedules no larger",
    "refusals": "refusals by the rule named",
    "deadlocks": "orders found never to finish",
}
BESIDE = {"own_rule": "allowed with a warning, by a rule of stepsim's own", "better": "smaller"}
SHOWN = ("table", "profile", "what", "rank", "given", "got")


def compare(path: str | Path | None, workers: int = 1) -> pd.DataFrame:
    """Each thing that a file says with what stepsim makes of it, or why it was left out."""
    rows = pd.DataFrame([asdict(check) for check in checks(read(path), workers)])
    rows.insert(0, "row", np.arange(len(rows)))
    return rows.assign(rank=rows["rank"].astype("Int64"), error=_errors(rows))


def _errors(rows: pd.DataFrame) -> "pd.Series[float]":
    """Relative errors of figures; 0 if they agree to the digits given, and the figure itself where 0 is given."""
    given, got = (pd.to_numeric(rows[name], errors="coerce") for name in ("given", "got"))
    agrees = rows["matches"] & (rows["part"] == "figures")
    return ((got - given) / given.where(given != 0, 1.0)).mask(agrees, 0.0)


def summed_up(rows: pd.DataFrame) -> dict[str, Any]:
    """The report: errors of figures over all and by schedule, how much of each part matches, and all that does not."""
    compared = rows[rows["left_out"] == ""]
    numbers = compared[(compared["part"] == "figures") & compared["error"].notna()]
    numbers = numbers.assign(measured=1.0, predicted=1.0 + numbers["error"], series=numbers["table"])
    return {
        **report.block(numbers),
        **report.skipped(rows),
        "groups": report.groups(numbers, ["schedule"]),
        "parts": {name: _part(compared[compared["part"] == name]) for name in PARTS},
        "mismatches": _listed(compared[~compared["matches"]]),
    }


def _part(rows: pd.DataFrame) -> dict[str, int]:
    """How many of some checks match, how many by a rule of stepsim's own, and how many searches do better."""
    own = rows["assumed"].str.contains("of stepsim's own") & rows["matches"]
    better = (rows["part"] == "searches") & (rows["error"] < 0)
    counts = {"rows": len(rows), "matching": int(rows["matches"].sum())}
    return counts | {name: int(found.sum()) for name, found in (("own_rule", own), ("better", better)) if found.any()}


def _listed(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as records of plain values, without what is empty."""
    records = rows[list(SHOWN)].to_dict("records")
    return [
        {str(name): _plain(value) for name, value in record.items() if not pd.isna(value) and value != ""}
        for record in records
    ]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def text(summary: dict[str, Any]) -> str:
    """The report in words."""
    tables = [{"all figures": summary}, summary["groups"]]
    counts = [_counted(summary["parts"][name], words) for name, words in PARTS.items()]
    counts.append(_counted(summary["closed_forms"], "replays that come to their closed forms"))
    found = summary["mismatches"]
    head = f"{len(found) or 'no'} mismatch{'es' if len(found) != 1 else ''}{':' if found else ''}"
    bubbles = schedule_bubbles.text(summary["zero_bubble_table5"])
    return "\n".join([*counts, "", report.text(tables, summary), "", bubbles, "", head, *map(_told, found)])


def _counted(part: dict[str, int], words: str) -> str:
    beside = [f"{part[key]} {more}" for key, more in BESIDE.items() if key in part]
    return f"{part['matching']:>6} of {part['rows']:>6} {words}{' (' + ', '.join(beside) + ')' if beside else ''}"


def _told(mismatch: dict[str, Any]) -> str:
    """A mismatch in a line."""
    where = [str(mismatch[name]) for name in ("table", "profile", "what") if name in mismatch]
    rank = f" of rank {mismatch['rank']}" if "rank" in mismatch else ""
    return f"  {', '.join(where)}{rank}: given {mismatch['given']}, got {mismatch.get('got', 'nothing')}"


def validate(path: str | Path | None = None, workers: int | None = None) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Compare a file of published schedules, or the package's own; the rows and the report.

    The report also has closed forms, and bubble rates of the Zero Bubble paper; neither depends on the file. Searches
    take long: they are spread over so many processes, by default one for each core.
    """
    workers = joblib.cpu_count() if workers is None else workers
    rows = compare(path, workers)
    summary, bubbles, forms = summed_up(rows), schedule_bubbles.validate(workers), _forms()
    summary["mismatches"] += [*forms.pop("mismatches"), *schedule_bubbles.mismatches(bubbles)]
    return rows, {**summary, "closed_forms": forms, "zero_bubble_table5": bubbles}


def _forms() -> dict[str, Any]:
    """How many replays come to their closed forms, over all and by form, and which do not."""
    rows = closed_forms.validate()
    by_form = rows.groupby("form")["matches"].agg(["count", "sum"])
    wrong = rows.loc[~rows["matches"], ["case", "form", "expected", "replayed"]]
    return {
        "rows": len(rows),
        "matching": int(rows["matches"].sum()),
        "groups": {str(name): {"rows": count, "matching": right} for name, count, right in by_form.itertuples()},
        "mismatches": [
            {"table": case, "what": form, "given": " ".join(map(str, given)), "got": " ".join(map(str, got))}
            for case, form, given, got in wrong.itertuples(index=False)
        ],
    }
