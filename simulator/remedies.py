"""What would make a step fit: the nearest of the changes that it offers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from simulator.allocator import reserved
from topologies.units import GIGA
from workloads.footprint import Footprint, Order

Place = tuple[int, ...]


class Footprinted(Protocol):
    """A step of which memory is known without lowering it: footprints and orders, both keyed like a program's."""

    def footprints(self) -> Mapping[Place, Footprint]: ...  # noqa: D102

    def program_orders(self) -> Mapping[Place, Order]: ...  # noqa: D102


@runtime_checkable
class Changeable(Protocol):
    """A step that offers changes which save memory, as text and as the changed step, the nearest first."""

    def remedies(self) -> Iterator[tuple[str, Footprinted]]: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change, the bytes that the fullest rank reserves with it, and whether every rank fits.

    >>> print(Remedy("recompute=full", 61.2e9, True))
    recompute=full fits with 61.2 GB reserved
    >>> print(Remedy("fsdp=8", 101.2e9, False))
    nothing tried fits; fsdp=8 comes closest with 101.2 GB reserved
    """

    change: str
    reserved_bytes: float
    fits: bool

    def __str__(self) -> str:
        size = f"{self.reserved_bytes / GIGA:.1f} GB reserved"
        if self.fits:
            return f"{self.change} fits with {size}"
        return f"nothing tried fits; {self.change} comes closest with {size}"


def nearest(step: object, usable: float) -> Remedy | None:
    """The first change with which every rank reserves at most `usable` bytes, or else the one that reserves least.

    None if the step offers none, as a hand-made program does. Assumes the least memory of all ranks for each of them,
    since a changed plan puts its stages elsewhere.
    """
    closest: Remedy | None = None
    if not isinstance(step, Changeable):
        return None
    for change, changed in step.remedies():
        size = fullest(changed)
        if size <= usable:
            return Remedy(change, size, fits=True)
        if closest is None or size < closest.reserved_bytes:
            closest = Remedy(change, size, fits=False)
    return closest


def fullest(step: Footprinted) -> float:
    """Bytes that the fullest rank of a step reserves."""
    orders = step.program_orders()
    return max(reserved(each, each.peak(orders[place])) for place, each in step.footprints().items())
