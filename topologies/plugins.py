"""A folder is the registry: each public module in it is a plugin with one function `build`.

>>> parse("llama3_8b,layers=16")
('llama3_8b', {'layers': 16})
"""

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Folder:
    """The plugins of one package, listed without importing them."""

    package: str
    what: str
    aliases: dict[str, str] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Every plugin of the folder, sorted."""
        paths = importlib.import_module(self.package).__path__
        return sorted(found.name for found in pkgutil.iter_modules(paths) if not found.name.startswith("_"))

    def module(self, name: str) -> Any:
        """The plugin's module; an unknown name fails with the known ones."""
        name = self.aliases.get(name, name)
        if name not in self.names():
            raise ValueError(unknown(self.what, name, self.names()))
        return importlib.import_module(f"{self.package}.{name}")

    def build(self, name: str, /, *values: Any, **options: Any) -> Any:
        """Build a plugin by name; options that its `build` does not take fail with the nearest one it does."""
        function = self.module(name).build
        known = inspect.signature(function).parameters
        given, free = list(known)[: len(values)], list(known)[len(values) :]
        takes_any = any(each.kind is each.VAR_KEYWORD for each in known.values())
        for key in options:
            if key in given or not (takes_any or key in free):
                raise ValueError(unknown(f"option of {name}", key, free))
        return function(*values, **options)


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """One line that names the nearest known value first, then all of them.

    >>> unknown("model", "lama3_8b", ["gpt3_175b", "llama3_8b"])
    "unknown model 'lama3_8b'; did you mean llama3_8b? Known: gpt3_175b, llama3_8b"
    """
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"unknown {what} {name!r}; " + (f"did you mean {near[0]}? " if near else "") + f"Known: {', '.join(known)}"


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """Split `name,key=value,…` into a name and typed options."""
    name, *parts = [part.strip() for part in text.split(",")]
    options: dict[str, Any] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key or not value:
            raise ValueError(f"{part!r} in {text!r} is not key=value")
        if key in options:
            raise ValueError(f"{key} is given twice in {text!r}")
        options[key] = _value(value)
    return name, options


def _value(text: str) -> Any:
    if text in ("on", "off"):
        return text == "on"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
