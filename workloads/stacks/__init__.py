"""Software stacks, one a file: `build("megatron_2021,graphs=on")` gives one, with changes to its facts."""

from typing import Any

from workloads.plugins import Folder, as_text, parse
from workloads.stack import Stack

_FOLDER = Folder("workloads.stacks", "stack")
CURRENT = "megatron_bridge_2025"
"""The stack of a step that names none."""


def names() -> list[str]:
    """Every stack there is.

    >>> "torchtitan_2024" in names()
    True
    """
    return _FOLDER.names()


def build(text: str, /, **changes: Any) -> Stack:
    """A stack by name or text, with changes to its facts.

    >>> print(build("megatron_2021,graphs=on"))
    megatron_2021,graphs=on
    """
    name, changes = parse(text, **changes)
    stack: Stack = _FOLDER.module(name).build()
    label = ",".join([_FOLDER.resolve(name), *(f"{key}={as_text(value)}" for key, value in changes.items())])
    return stack.replace(**changes, name=label) if changes else stack
