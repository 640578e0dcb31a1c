"""Files of measurements, and what all of them have in common of the rule of what is compared."""

import csv
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

VENDOR_FIGURES = ("vendor_slide", "vendor_document", "acceptance_baseline")
ABNORMAL = ("degraded", "misconfig", "untuned", "default env", "pathological", "badly provisioned", "bad node", "dip")

Found = TypeVar("Found")


class LeftOutError(ValueError):
    """A row that cannot or must not be compared, with the reason."""


@dataclass(frozen=True, slots=True)
class Number:
    """What a column's numbers must be: within bounds, `whole` ones without a fraction; and that in words."""

    words: str
    low: float
    high: float
    whole: bool = False

    def fits(self, numbers: "pd.Series[Any]") -> "pd.Series[bool]":
        """Which of some numbers are that; an undefined one is not."""
        return numbers.between(self.low, self.high) & (numbers % 1 == 0 if self.whole else True)


COUNT = Number("a whole number from 1 to 1e9", 1, 1e9, whole=True)
TIME = Number("a time from 1e-9 to 1e6 s", 1e-9, 1e6)


def read(
    path: str | Path | None, source: Traversable, columns: tuple[str, ...], numbers: Mapping[str, Number]
) -> pd.DataFrame:
    """Measurements from a file, or from the package's own; it must have the columns, and sensible numbers in some.

    An empty cell is what a source does not state. ValueError names the line of the file and what is wrong there.
    """
    file = source if path is None else Path(path)
    try:
        (_, header), *rows = _lines(file.read_text(encoding="utf-8-sig")).items()
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"cannot read {file}: {error}") from None
    missing = [name for name in columns if name not in header]
    if missing:
        raise ValueError(f"{file} has no column {missing[0]!r}; needed: {', '.join(columns)}")
    if not rows:
        raise ValueError(f"{file} has no rows to compare")
    for line, fields in rows:
        if len(fields) > len(header) or not set(columns).isdisjoint(header[len(fields) :]):
            raise ValueError(f"{file}, line {line}: {len(fields)} fields, the header has {len(header)}")
    frame = _frame(header, *(fields for _, fields in rows))
    for name, number in numbers.items():
        found = _numbers(frame[name])
        wrong = np.flatnonzero(frame[name].notna() & ~number.fits(found))
        if len(wrong):
            line, fields = rows[wrong[0]]
            raise ValueError(f"{file}, line {line}: {name}={fields[header.index(name)]} is not {number.words}")
        frame[name] = found
    return frame


def _lines(text: str) -> dict[int, list[str]]:
    """The fields of all lines but blank ones, by the number of the line on which they begin.

    >>> _lines('m,notes\\n\\n8,"two\\nlines"\\n9,\\n')
    {1: ['m', 'notes'], 3: ['8', 'two\\nlines'], 5: ['9', '']}
    """
    reader, found = csv.reader(io.StringIO(text)), {}
    line = 1
    for fields in reader:
        if len(fields) > 1 or "".join(fields).strip():
            found[line] = fields
        line = reader.line_num + 1
    if not found:
        raise ValueError("it is empty")
    return found


def _frame(*lines: list[str]) -> pd.DataFrame:
    """A frame of lines of fields, the first of them the header, each column of the type that suits it."""
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    text.seek(0)
    return pd.read_csv(text)


def _numbers(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """The cells of a column as numbers, undefined for text; for `True` too, which pandas would take for 1."""
    return pd.to_numeric(column if column.dtype.kind in "iuf" else column.astype(str), errors="coerce")


def cases(frame: pd.DataFrame, build: Callable[[int, dict[str, Any]], Found]) -> tuple[list[Found], dict[int, str]]:
    """What `build` makes of each row, given its number, and the reasons of those that it leaves out."""
    found, left_out = [], {}
    for number, row in enumerate(frame.to_dict("records")):
        try:
            found.append(build(number, {str(name): value for name, value in row.items()}))
        except LeftOutError as reason:
            left_out[number] = str(reason)
    return found, left_out


def stated(*numbers: float) -> bool:
    """Whether none of some cells of a row is empty; what is in them was checked on reading."""
    return not any(map(math.isnan, numbers))


def check_quality(row: dict[str, Any]) -> None:
    """Whether somebody measured a row, rather than a vendor or a provider promising it."""
    if row["quality"] in VENDOR_FIGURES:
        raise LeftOutError(f"a vendor's or provider's own figure ({row['quality']})")


def check_normal(notes: str) -> None:
    """Whether the notes call the system of a row sound."""
    abnormal = next((word for word in ABNORMAL if word in notes), None)
    if abnormal is not None:
        raise LeftOutError(f"the source calls the system abnormal ({abnormal})")
