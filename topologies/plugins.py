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
    """The plugins of one package, listed without importing them.

    `aliases` are other names of plugins, `beside` options that all take beside their own.
    """

    package: str
    what: str
    aliases: dict[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """Every plugin of the folder, sorted."""
        paths = importlib.import_module(self.package).__path__
        return sorted(found.name for found in pkgutil.iter_modules(paths) if not found.name.startswith("_"))

    def resolve(self, name: str) -> str:
        """The plugin that a name or an alias means; an unknown name fails with the known ones."""
        name = self.aliases.get(name, name)
        if name not in self.names():
            raise ValueError(unknown(self.what, name, self.names()))
        return name

    def module(self, name: str) -> Any:
        """The plugin's module."""
        return importlib.import_module(f"{self.package}.{self.resolve(name)}")

    def options(self, name: str, after: int = 2, function: str = "build") -> list[str]:
        """Names of the options of a plugin's function: its parameters after the first so many."""
        return list(self.defaults(name, after, function))

    def defaults(self, name: str, after: int = 2, function: str = "build") -> dict[str, Any]:
        """The options of a plugin's function with their defaults, in its own order."""
        parameters = list(inspect.signature(getattr(self.module(name), function)).parameters.values())[after:]
        return {each.name: each.default for each in parameters if each.kind is not each.VAR_KEYWORD}

    def build(self, name: str, /, *values: Any, **options: Any) -> Any:
        """Build a plugin by name; options that its `build` does not take fail with the nearest one it does."""
        function = self.module(name).build
        known = inspect.signature(function).parameters
        given, free = list(known)[: len(values)], list(known)[len(values) :]
        takes_any = any(each.kind is each.VAR_KEYWORD for each in known.values())
        for key in options:
            if key in given or not (takes_any or key in free):
                raise ValueError(unknown(f"option of {name}", key, (*free, *self.beside)))
        return function(*values, **options)


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """One line that names the nearest known value first, then all of them.

    >>> unknown("model", "lama3_8b", ["gpt3_175b", "llama3_8b"])
    "unknown model 'lama3_8b'; did you mean llama3_8b? Known: gpt3_175b, llama3_8b"
    """
    known = sorted(known)
    if not known:
        return f"unknown {what} {name!r}; there is none"
    near = difflib.get_close_matches(name, known, n=1)
    return f"unknown {what} {name!r}; " + (f"did you mean {near[0]}? " if near else "") + f"Known: {', '.join(known)}"


def parse(text: str, /, **beside: Any) -> tuple[str, dict[str, Any]]:
    """Split `name,key=value,…` into a name and typed options, joined by those given `beside` the text.

    >>> parse("llama3_8b,layers=16", tied=True)
    ('llama3_8b', {'layers': 16, 'tied': True})
    """
    name, *parts = [part.strip() for part in text.split(",")]
    options: dict[str, Any] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key or not value:
            raise ValueError(f"{part!r} in {text!r} is not key=value")
        if key in options:
            raise ValueError(f"{key} is given twice in {text!r}")
        options[key] = _value(value)
    twice = next((key for key in beside if key in options), None)
    if twice is not None:
        raise ValueError(f"{twice} is given twice: {options[twice]!r} in the text, {beside[twice]!r} beside it")
    return name, options | beside


def as_text(value: Any) -> str:
    """A value as one types it in text; `parse` reads it back.

    >>> as_text(True), as_text(1e6), as_text("gpipe")
    ('on', '1e+06', 'gpipe')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return repr(value) if isinstance(value, float) and repr(_value(short)) != repr(value) else short


def _value(text: str) -> Any:
    if text in ("on", "off"):
        return text == "on"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
