"""Files of measurements, and what all of them have in common of the rule of what is compared."""

from collections.abc import Callable
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

VENDOR_FIGURES = ("vendor_slide", "vendor_document", "acceptance_baseline")
ABNORMAL = ("degraded", "misconfig", "untuned", "default env", "pathological", "badly provisioned", "bad node", "dip")

Found = TypeVar("Found")


class LeftOutError(ValueError):
    """A row that cannot or must not be compared, with the reason."""


def read(
    path: str | Path | None, source: Traversable, columns: tuple[str, ...], numbers: tuple[str, ...]
) -> pd.DataFrame:
    """Measurements from a file, or from the package's own; it must have the columns, some of them as numbers."""
    try:
        frame = pd.read_csv(path if path is not None else source.open(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"cannot read {path}: {error}") from None
    missing = [name for name in columns if name not in frame]
    if missing:
        raise ValueError(f"{path} has no column {missing[0]!r}; needed: {', '.join(columns)}")
    if frame.empty:
        raise ValueError(f"{path} has no rows to compare")
    for name in numbers:
        found = pd.to_numeric(frame[name], errors="coerce")
        wrong = frame.index[found.isna() & frame[name].notna()]
        if len(wrong):
            raise ValueError(f"{path}: row {wrong[0]}: {name}={frame.loc[wrong[0], name]!r} is not a number")
        frame[name] = found
    return frame


def cases(frame: pd.DataFrame, build: Callable[[int, dict[str, Any]], Found]) -> tuple[list[Found], dict[int, str]]:
    """What `build` makes of each row, given its number, and the reasons of those that it leaves out."""
    found, left_out = [], {}
    for number, row in enumerate(frame.to_dict("records")):
        try:
            found.append(build(number, {str(name): value for name, value in row.items()}))
        except LeftOutError as reason:
            left_out[number] = str(reason)
    return found, left_out


def check_quality(row: dict[str, Any]) -> None:
    """Whether somebody measured a row, rather than a vendor or a provider promising it."""
    if row["quality"] in VENDOR_FIGURES:
        raise LeftOutError(f"a vendor's or provider's own figure ({row['quality']})")


def check_normal(notes: str) -> None:
    """Whether the notes call the system of a row sound."""
    abnormal = next((word for word in ABNORMAL if word in notes), None)
    if abnormal is not None:
        raise LeftOutError(f"the source calls the system abnormal ({abnormal})")
