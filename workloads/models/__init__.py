"""Published models, one a file: `build("llama3_8b,layers=16")` gives one, with changes."""

from typing import Any

from workloads.plugins import Folder, as_text, parse
from workloads.transformer import Transformer

_FOLDER = Folder("workloads.models", "model")


def names() -> list[str]:
    """Every model there is.

    >>> "llama3_405b" in names()
    True
    """
    return _FOLDER.names()


def build(text: str, /, **changes: Any) -> Transformer:
    """A published model by name or text, with changes to its fields.

    A changed model is named by the text that builds it, so that it never passes for the published one.

    >>> build("llama3_8b").parameters()
    8030261248
    >>> build("llama3_8b,layers=16", tied=True).name
    'llama3_8b,layers=16,tied=on'
    """
    name, changes = parse(text, **changes)
    if "name" in changes:
        raise ValueError(f"name={changes['name']}: a model is named by the text that builds it; replace() renames one")
    model: Transformer = _FOLDER.module(name).build(**changes)
    label = ",".join([name, *(f"{key}={as_text(value)}" for key, value in changes.items())])
    return model.replace(name=label) if changes else model
