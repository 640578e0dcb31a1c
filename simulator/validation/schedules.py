"""Published pipeline schedules and their figures against what stepsim generates and replays."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simulator.validation import report, schedule_bubbles
from simulator.validation.schedule_checks import checks
from simulator.validation.schedule_tables import read

PARTS = {
    "orders": "orders generated action for action",
    "figures": "figures replayed to their digits",
    "searches": "figures of searched schedules no worse",
    "refusals": "refusals by the rule named, or allowed by one of stepsim's own",
    "deadlocks": "orders found never to finish",
}
SHOWN = ("table", "profile", "what", "rank", "given", "got")


def compare(path: str | Path | None) -> pd.DataFrame:
    """Each thing that a file says with what stepsim makes of it, or why it was left out."""
    rows = pd.DataFrame([asdict(check) for check in checks(read(path))])
    rows.insert(0, "row", np.arange(len(rows)))
    return rows.assign(rank=rows["rank"].astype("Int64"), error=_errors(rows))


def _errors(rows: pd.DataFrame) -> "pd.Series[float]":
    """Relative errors of figures; that of a given 0 is the figure itself."""
    given, got = (pd.to_numeric(rows[name], errors="coerce") for name in ("given", "got"))
    return (got - given) / given.where(given != 0, 1.0)


def summed_up(rows: pd.DataFrame) -> dict[str, Any]:
    """The report: errors of figures over all and by schedule, how much of each part matches, and all that does not."""
    compared = rows[rows["left_out"] == ""]
    numbers = compared[(compared["part"] == "figures") & compared["error"].notna()]
    numbers = numbers.assign(measured=1.0, predicted=1.0 + numbers["error"], series=numbers["table"])
    return {
        **report.block(numbers),
        "groups": report.groups(numbers, ["schedule"]),
        "parts": {name: _part(compared[compared["part"] == name]) for name in PARTS},
        "mismatches": _listed(compared[~compared["matches"]]),
        **report.skipped(rows),
    }


def _part(rows: pd.DataFrame) -> dict[str, int]:
    """How many of some checks match; of searches also how many figures are better than the given."""
    better = (rows["part"] == "searches") & (rows["error"] < 0)
    counts = {"rows": len(rows), "matching": int(rows["matches"].sum())}
    return {**counts, "better": int(better.sum())} if better.any() else counts


def _listed(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as records of plain values, without what is empty."""
    records = rows[list(SHOWN)].to_dict("records")
    return [
        {str(name): _plain(value) for name, value in record.items() if value is not pd.NA and value != ""}
        for record in records
    ]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def text(summary: dict[str, Any]) -> str:
    """The report in words."""
    tables = [{"all figures": summary}, summary["groups"]]
    parts = [
        f"{part['matching']:>6} of {part['rows']:>6}  {PARTS[name]}"
        + (f" ({part['better']} better)" if "better" in part else "")
        for name, part in summary["parts"].items()
    ]
    count = len(summary["mismatches"])
    lines = [f"{count} mismatch{'es' if count != 1 else ''}" + (":" if count else "")]
    lines += [
        f"  {', '.join(str(each[name]) for name in SHOWN[:4] if name in each and name != 'rank')}"
        f"{' of rank ' + str(each['rank']) if 'rank' in each else ''}: given {each['given']}, got {each.get('got', '')}"
        for each in summary["mismatches"]
    ]
    bubbles = schedule_bubbles.text(summary["zero_bubble_table5"])
    return "\n".join([*parts, "", report.text(tables, summary), "", bubbles, "", *lines])


def validate(path: str | Path | None = None) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Compare a file of published schedules, or the package's own; the rows and the report.

    The report also has bubble rates of the Zero Bubble paper, from the package's data.
    """
    rows = compare(path)
    return rows, {**summed_up(rows), "zero_bubble_table5": schedule_bubbles.validate()}
