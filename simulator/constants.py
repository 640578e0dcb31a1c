"""Fitted constants as files have them: numbers by section, entry and name."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import yaml

Key = tuple[str, str, str]
"""Where a constant stands in a file: (section, entry, name)."""


def flat(sections: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[Key, float]:
    """The constants of a nested mapping by their place in it.

    >>> flat({"shared": {"gemm": {"quantisation": 0.5}}})
    {('shared', 'gemm', 'quantisation'): 0.5}
    """
    return {
        (section, entry, name): float(value)
        for section, entries in sections.items()
        for entry, constants in entries.items()
        for name, value in constants.items()
    }


def read(name: str) -> dict[Key, float]:
    """The constants of one of the package's files."""
    return flat(yaml.safe_load((files("simulator") / name).read_text(encoding="utf-8")))


def as_yaml(values: Mapping[Key, float]) -> str:
    """Constants as the package's files have them, without comments.

    >>> print(as_yaml({("shared", "gemm", "quantisation"): 0.51234}), end="")
    shared:
      gemm: {quantisation: 0.512}
    """
    sections: dict[str, dict[str, dict[str, float]]] = {}
    for (section, entry, name), value in values.items():
        sections.setdefault(section, {}).setdefault(entry, {})[name] = float(f"{value:.3g}")
    return str(yaml.safe_dump(sections, sort_keys=False, default_flow_style=None, width=120))
