"""What every router offers: its links, the hosts of its devices, and the links between pairs of devices.

Routes come as two arrays (pair, link): for each pair of devices, in order, every link id on its route, in route
order. A device reaches itself over no links. Inside, they are tables: a row per pair, padded with -1 anywhere.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from topologies.link import Integers, Links

Routes = tuple[Integers, Integers]

NONE = -1
"""Where a table of routes has no link."""


class Router(Protocol):
    """Whatever knows the way between the devices of a topology."""

    @property
    def links(self) -> Links:
        """All directed links, before degradations."""
        ...

    @property
    def hosts(self) -> Integers:
        """The host (scale-up domain) of each device, [devices]."""
        ...

    def routes(self, sources: Integers, destinations: Integers) -> Routes:
        """The links between each pair of devices; whole arrays at once."""
        ...


def flat(table: Integers) -> Routes:
    """A table of routes as two arrays.

    >>> pair, link = flat(np.array([[4, -1, 5], [-1, -1, -1], [7, -1, -1]]))
    >>> pair.tolist(), link.tolist()
    ([0, 0, 2], [4, 5, 7])
    """
    rows, columns = np.nonzero(table != NONE)
    return rows, table[rows, columns]


def stacked(pairs: int, parts: Sequence[tuple[Integers, Integers]]) -> Integers:
    """One table of so many rows from parts (rows, their table) of different widths.

    >>> stacked(3, [(np.array([2]), np.array([[5, 6]])), (np.array([0]), np.array([[4]]))]).tolist()
    [[4, -1], [-1, -1], [5, 6]]
    """
    table = np.full((pairs, max((part.shape[1] for _, part in parts), default=0)), NONE, np.int64)
    for rows, part in parts:
        table[rows, : part.shape[1]] = part
    return table
