"""Ways to use one mesh axis, one a file: `build("tp", 8, sp=False)`."""

from typing import Any

from workloads.plugins import Folder
from workloads.strategy import Strategy

_FOLDER = Folder("workloads.strategies", "axis")


def names() -> list[str]:
    """Every axis there is a strategy for.

    >>> "tp" in names()
    True
    """
    return _FOLDER.names()


def build(axis: str, degree: int, /, **options: Any) -> Strategy:
    """A strategy for an axis of `degree` ranks.

    >>> print(build("tp", 8, sp=False))
    tp=8,sp=off
    """
    strategy: Strategy = _FOLDER.build(axis, degree, **options)
    return strategy
