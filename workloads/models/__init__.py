"""Published models, one a file: `build("llama3_8b,layers=16")` gives one, with changes."""

from typing import Any

from workloads.plugins import Folder, parse
from workloads.transformer import Transformer

_FOLDER = Folder("workloads.models", "model")


def names() -> list[str]:
    """Every model there is.

    >>> "llama3_405b" in names()
    True
    """
    return _FOLDER.names()


def build(name: str, **changes: Any) -> Transformer:
    """A published model by name or text, with changes to its fields.

    A changed model is named by the text that builds it, so that it never passes for the published one.

    >>> build("llama3_8b").parameters()
    8030261248
    >>> build("llama3_8b,layers=16", tied=True).name
    'llama3_8b,layers=16,tied=on'
    """
    name, written = parse(name)
    twice = next((key for key in changes if key in written), None)
    if twice is not None:
        raise ValueError(f"{twice} is given twice: {written[twice]!r} in the text, {changes[twice]!r} beside it")
    changes = written | changes
    model: Transformer = _FOLDER.module(name).build(**changes)
    return model.replace(name=_label(name, changes)) if changes and "name" not in changes else model


def _label(name: str, changes: dict[str, Any]) -> str:
    """The text that builds a changed model."""
    words = {key: ("on" if value else "off") if isinstance(value, bool) else value for key, value in changes.items()}
    return ",".join([name, *(f"{key}={value}" for key, value in words.items())])
