"""Entries of a configuration file, read key by key: each mistake is one line that says where it is."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from topologies.plugins import unknown

_REQUIRED = object()


@dataclass(frozen=True, slots=True)
class Entry:
    """A mapping of a file and the words for where it stands.

    >>> entry = Entry.of("links[2]", {"bandwith": "50e9"})
    >>> entry.only("bandwidth", "latency")
    Traceback (most recent call last):
    ValueError: unknown key of links[2] 'bandwith'; did you mean bandwidth? Known: bandwidth, latency
    >>> Entry.of("links[2]", {"bandwidth": "50e9"}).number("bandwidth")
    50000000000.0
    """

    where: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, where: str, values: Any) -> Self:
        """Any value as an entry, if it is a mapping."""
        if not isinstance(values, Mapping):
            raise _wrong(where, values, "a mapping of keys")
        return cls(where, {str(key): value for key, value in values.items()})

    def only(self, *known: str) -> Self:
        """The entry itself, if it has no other keys."""
        for key in self.values:
            if key not in known:
                raise ValueError(unknown(f"key of {self.where}", key, known))
        return self

    def get(self, key: str, default: Any = _REQUIRED) -> Any:
        """The value of a key; one without a default has to be there."""
        value = self.values.get(key)
        if value is not None:
            return value
        if default is _REQUIRED:
            raise ValueError(f"{self.where} has no {key}")
        return default

    def number(self, key: str, default: Any = _REQUIRED) -> float:
        """A number, also where YAML takes it for text, as in 50e9."""
        value = self.get(key, default)
        try:
            number = float(value) if not isinstance(value, bool) else math.nan
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number):
            raise _wrong(f"{key} of {self.where}", value, "a number")
        return number

    def flag(self, key: str) -> bool:
        """True or false; false unless said."""
        value = self.get(key, False)
        if not isinstance(value, bool):
            raise _wrong(f"{key} of {self.where}", value, "true or false")
        return value

    def part(self, key: str, default: Any = _REQUIRED) -> "Entry":
        """A mapping inside."""
        return Entry.of(f"{key} of {self.where}", self.get(key, default))

    def items(self, key: str, default: Any = _REQUIRED) -> list[Any]:
        """A list inside."""
        values = self.get(key, default)
        if not isinstance(values, list):
            raise _wrong(f"{key} of {self.where}", values, "a list")
        return values

    def parts(self, key: str, default: Any = _REQUIRED) -> list["Entry"]:
        """Mappings in a list inside."""
        return [Entry.of(f"{key}[{place}]", value) for place, value in enumerate(self.items(key, default))]


def _wrong(what: str, value: Any, rule: str) -> ValueError:
    text = " ".join(repr(value).split())
    return ValueError(f"{what} is {text if len(text) <= 40 else f'{text[:37]}...'}, not {rule}")
