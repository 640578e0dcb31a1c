"""The cells of a published run, and the record of what was taken for those that its source leaves open."""

import math
import re
from collections.abc import Mapping
from typing import Any


class Cells:
    """A row of runs.csv. What is asked for but not stated is taken as told, and `assumed` says so in words.

    >>> cells = Cells({"microbatch": float("nan"), "tp": 8.0})
    >>> cells.count("tp", 1), cells.count("microbatch", 1), cells.assumed
    (8, 1, ['microbatch=1'])
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.row = row
        self.assumed: list[str] = []

    def assume(self, words: str) -> None:
        """Note what the row leaves open and how it was taken, once."""
        if words not in self.assumed:
            self.assumed.append(words)

    def word(self, name: str) -> str:
        """A cell as text; empty if nothing is stated."""
        value = self.row.get(name, "")
        return "" if isinstance(value, float) and math.isnan(value) else str(value)

    def number(self, name: str) -> float:
        """A cell as a number; undefined if none is stated."""
        try:
            return float(self.row.get(name, math.nan))
        except ValueError:
            return math.nan

    def states(self, *names: str) -> bool:
        """Whether all these cells have a number."""
        return not any(math.isnan(self.number(name)) for name in names)

    def count(self, name: str, default: int) -> int:
        """A cell as a whole number; else the default, which is then assumed."""
        if self.states(name):
            return int(self.number(name))
        self.assume(f"{name}={default}")
        return default

    def told(self, name: str, default: str) -> str:
        """A cell as text; else the default, which is then assumed."""
        if not self.word(name):
            self.assume(f"{name}={default}")
        return self.word(name) or default

    def found(self, pattern: str, *names: str) -> tuple[str, ...]:
        """What the groups of a pattern match in the first of these cells where it does; empty if in none.

        >>> Cells({"notes": "4 x 100Gb RoCE"}).found("([0-9]+) x ([0-9]+)Gb", "source", "notes")
        ('4', '100')
        """
        matches = (re.search(pattern, self.word(name)) for name in names)
        return next((match.groups() for match in matches if match), ())

    @property
    def sources(self) -> str:
        """All that says where the row comes from."""
        return f"{self.word('source')} {self.word('reference')}"
