"""Ranks in a grid with named axes: who shares a group with whom."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workloads.checks import is_whole


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The ranks of one group, in rank order whatever the order of its axes."""

    axes: tuple[str, ...]
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceMesh:
    """Named axes with their degrees, outermost first: the last axis is on neighbouring ranks.

    The order of the axes is part of the value: in another order other ranks are neighbours.

    >>> mesh = DeviceMesh({"pp": 2, "dp": 3, "tp": 4})
    >>> mesh.size, mesh.coordinates(17)
    (24, {'pp': 1, 'dp': 1, 'tp': 1})
    >>> mesh.group(17, ("dp",)).ranks
    (13, 17, 21)
    """

    axes: Mapping[str, int]

    def __post_init__(self) -> None:
        for axis, degree in self.axes.items():
            if not is_whole(degree, 1):
                raise ValueError(f"{axis}={degree}: a degree is a whole number of at least 1")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and tuple(self.axes.items()) == tuple(other.axes.items())

    def __hash__(self) -> int:
        return hash(tuple(self.axes.items()))

    @property
    def size(self) -> int:
        """The number of ranks."""
        return math.prod(self.axes.values())

    def degree(self, axis: str) -> int:
        """Size of an axis; an axis that is not there has degree 1."""
        return self.axes.get(axis, 1)

    def stride(self, axis: str) -> int:
        """Distance in ranks between neighbours along an axis."""
        names = list(self.axes)
        return math.prod(self.axes[name] for name in names[names.index(axis) + 1 :])

    def coordinates(self, rank: int) -> dict[str, int]:
        """Position of a rank on every axis."""
        if not 0 <= rank < self.size:
            raise ValueError(f"rank {rank} is not one of the mesh's {self.size} ranks")
        return {axis: rank // self.stride(axis) % degree for axis, degree in self.axes.items()}

    def group(self, rank: int, axes: tuple[str, ...]) -> ProcessGroup:
        """The ranks that differ from `rank` on `axes` only, itself included, in rank order."""
        unknown = [axis for axis in axes if axis not in self.axes]
        if unknown:
            raise ValueError(f"axis {unknown[0]!r} is not in the mesh; it has {', '.join(self.axes)}")
        here = self.coordinates(rank)
        start = rank - sum(here[axis] * self.stride(axis) for axis in axes)
        return ProcessGroup(tuple(axes), tuple(sorted(start + shift for shift in self._shifts(axes))))

    def _shifts(self, axes: tuple[str, ...]) -> Iterator[int]:
        if not axes:
            yield 0
            return
        stride = self.stride(axes[0])
        for rest in self._shifts(axes[1:]):
            for place in range(self.axes[axes[0]]):
                yield place * stride + rest
