"""Constants of kernels from a file of your own, such as `stepsim calibrate` writes, in place of the published ones."""

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from simulator.constants import ERRORS, SOURCES, Key, flat
from simulator.kernels import GEMM_SHARES, OWN, Attention, Constants, Training, published
from topologies.plugins import unknown

NAMES = {
    "shared": sorted({name for section, _, name in published().values if section == "shared"}),
    "families": ["gemm", *sorted(set(GEMM_SHARES.values())), *OWN],
    "attention": [each.name for each in fields(Attention) if not each.name.startswith("block")],
    "training": [each.name for each in fields(Training)],
}
"""What each section of a file may give."""
MAY_BE_ZERO = ("jitter", "step_seconds", "launch_interval", "kernel_seconds", "graph_seconds", "overhead_keys")
"""Constants whose effect a file may switch off; the rest is above 0."""


def load(path: str | Path) -> Constants:
    """The constants of a YAML file with the form of kernels.yaml; what it does not give is as published.

    Entries of `training` may be families, accelerators or software stacks; a stack that no step names is never read.
    ValueError says in one line what is wrong with a file.
    """
    try:
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"cannot read {path}: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict) or not found:
        raise ValueError(f"{path} holds no constants such as training: {{other: {{kernel_share: 1.02}}}}")
    sections = {section: entries for section, entries in found.items() if section not in (ERRORS, SOURCES)}
    _check(path, sections)
    given = {key: _number(path, key, sections) for key in _places(sections)}
    return Constants({**published().values, **given})


def chosen(constants: Constants | str | Path | None) -> Constants:
    """Constants as a caller gives them: as such, as the path of a file, or None for the published ones."""
    if constants is None:
        return published()
    if isinstance(constants, Constants):
        return constants
    if isinstance(constants, str | Path):
        return load(constants)
    raise ValueError(f"constants={constants!r} are neither simulator.kernels.Constants nor the path of a file")


def _check(path: str | Path, sections: dict[str, Any]) -> None:
    """Sections of entries of constants, each of a known name."""
    for section, entries in sections.items():
        if section not in NAMES:
            raise ValueError(f"{path}: {unknown('section', str(section), NAMES)}")
        for entry, values in entries.items() if isinstance(entries, dict) else ():
            for name in values if isinstance(values, dict) else ():
                if name not in NAMES[section]:
                    raise ValueError(f"{path}: {unknown(f'constant of {section}, {entry}', str(name), NAMES[section])}")
        if not isinstance(entries, dict) or not all(isinstance(values, dict) for values in entries.values()):
            raise ValueError(f"{path}: {section} is no mapping of entries to constants, such as other: {{clock: 0.9}}")


def _places(sections: dict[str, Any]) -> list[Key]:
    return [
        (section, entry, name)
        for section, entries in sections.items()
        for entry, values in entries.items()
        for name in values
    ]


def _number(path: str | Path, key: Key, sections: dict[str, Any]) -> float:
    """A constant of a file, if it is a number that a kernel can have."""
    section, entry, name = key
    value = sections[section][entry][name]
    try:
        number = math.nan if isinstance(value, bool) else flat({section: {entry: {name: value}}})[key]
    except (TypeError, ValueError):
        number = math.nan
    if not (0 < number < math.inf or (number == 0 and name in MAY_BE_ZERO)):
        least = "0 or more" if name in MAY_BE_ZERO else "above 0"
        raise ValueError(f"{path}: {section}, {entry}, {name} is {value!r}; needed is a finite number, {least}")
    return number
