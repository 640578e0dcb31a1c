"""Fitted constants as files have them: numbers by section, entry and name.

Two sections of a file repeat the places of the others: `errors` has the relative standard error of every constant that
was fitted, `sources` in words where each of the rest comes from.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import yaml

Key = tuple[str, str, str]
"""Where a constant stands in a file: (section, entry, name)."""

ERRORS, SOURCES = "errors", "sources"


def flat(sections: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[Key, float]:
    """The constants of a nested mapping by their place in it.

    >>> flat({"shared": {"gemm": {"quantisation": 0.5}}})
    {('shared', 'gemm', 'quantisation'): 0.5}
    """
    return {key: float(value) for key, value in _by_place(sections).items()}


def read(name: str) -> dict[Key, float]:
    """The constants of one of the package's files."""
    return flat({section: entries for section, entries in _file(name).items() if section not in (ERRORS, SOURCES)})


def errors(name: str) -> dict[Key, float]:
    """Relative standard errors of the fitted constants of a file."""
    return flat(_file(name).get(ERRORS, {}))


def sources(name: str) -> dict[Key, str]:
    """Where constants of a file come from that were not fitted."""
    return _by_place(_file(name).get(SOURCES, {}))


def as_yaml(
    values: Mapping[Key, float],
    errors: Mapping[Key, float] | None = None,
    sources: Mapping[Key, str] | None = None,
    *,
    digits: int = 3,
) -> str:
    """Constants as the package's files have them, without comments, to so many digits.

    >>> print(as_yaml({("shared", "gemm", "quantisation"): 0.51234}), end="")
    shared:
      gemm: {quantisation: 0.512}
    """
    sections: dict[str, Any] = _nested({key: float(f"{value:.{digits}g}") for key, value in values.items()})
    if errors:
        sections[ERRORS] = _nested({key: float(f"{value:.2g}") for key, value in errors.items()})
    if sources:
        sections[SOURCES] = _nested(sources)
    return str(yaml.safe_dump(sections, sort_keys=False, default_flow_style=None, width=120))


def _file(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((files("simulator") / name).read_text(encoding="utf-8")))


def _by_place(sections: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[Key, Any]:
    return {
        (section, entry, name): value
        for section, entries in sections.items()
        for entry, constants in entries.items()
        for name, value in constants.items()
    }


def _nested(values: Mapping[Key, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    sections: dict[str, dict[str, dict[str, Any]]] = {}
    for (section, entry, name), value in values.items():
        sections.setdefault(section, {}).setdefault(entry, {})[name] = value
    return sections
