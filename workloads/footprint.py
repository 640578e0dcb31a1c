"""What a rank's memory holds in the course of a step, as items of so many bytes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Item(NamedTuple):
    """A line of the account: its row, such as activations, and the part of the model or the module it belongs to."""

    row: str
    part: str = ""


Items = Mapping[Item, float]
"""Bytes of items."""
Order = Iterable[Sequence[Any]]
"""What a rank replays: ((stage, kind, variant, pair's other one), microbatch …), the entries of a program's orders."""
ACTIONS = ("F", "B", "I", "W")
"""Kinds of blocks that compute a microbatch."""
RELEASES = ("B", "W")
"""Kinds at whose end a microbatch is no longer in flight on its stage."""


Flying = tuple[tuple[int, int, int], ...]
"""(stage, microbatches in flight on it, those of them that wait for their W alone)."""


class Moment(NamedTuple):
    """While actions run: what is in flight, and (stage, kind, part) of an action or of the two of a pair."""

    flying: Flying
    parts: tuple[tuple[int, str, int], ...] = ()


class Flights:
    """Microbatches in flight along an order: from the start of their F to the end of their B or W."""

    def __init__(self) -> None:
        self.flying: Counter[int] = Counter()
        self.late: Counter[int] = Counter()

    def start(self, actions: Iterable[tuple[int, str]]) -> None:
        """Actions start."""
        self.flying.update(stage for stage, kind in actions if kind == "F")

    def end(self, actions: Iterable[tuple[int, str]]) -> None:
        """The same end."""
        for stage, kind in actions:
            self.late[stage] += (kind == "I") - (kind == "W")
            self.flying[stage] -= kind in RELEASES

    def now(self) -> Flying:
        """What is in flight."""
        return tuple((stage, many, self.late[stage]) for stage, many in self.flying.items() if many)


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of a rank: bytes of items that are there for the whole step, or for a while.

    `resident` are there all along; `held[stage]` for every microbatch in flight on a stage, from the start of its F to
    the end of its B (or W); after its I, until its W, `late[stage]` in its place. `working[stage, kind]` has what is
    there beside that in the parts, one after another, of an action of that kind on the stage; what is not there yet, or
    no longer, is negative. `offloaded` are the rank's items at its host, all along.

    >>> footprint = Footprint(
    ...     {Item("parameters"): 10.0}, {0: {Item("activations"): 3.0}}, {(0, "B"): [{Item("activations"): 1.0}, {}]}
    ... )
    >>> footprint.rows([((0, kind, "only"), number) for kind, number in (("F", 0), ("F", 1), ("B", 0), ("B", 1))])
    {'parameters': 10.0, 'activations': 7.0}
    """

    resident: Items
    held: Mapping[int, Items] = field(default_factory=dict)
    working: Mapping[tuple[int, str], Sequence[Items]] = field(default_factory=dict)
    offloaded: Items = field(default_factory=dict)
    late: Mapping[int, Items] = field(default_factory=dict)

    def moments(self, order: Order) -> Iterator[Moment]:
        """The moments of an order, for each action the part of it when it needs most."""
        worst = {action: _worst(parts) for action, parts in self.working.items()}
        flights = Flights()
        for entry in order:
            actions = running(entry)
            flights.start(actions)
            if actions:
                yield Moment(flights.now(), tuple((*action, worst.get(action, 0)) for action in actions))
            flights.end(actions)

    def items(self, moment: Moment | None = None) -> dict[Item, float]:
        """Bytes of all items at a moment; without one, of those that are always there."""
        found = dict(self.resident)
        if moment is None:
            return found
        for stage, count, late in moment.flying:
            for many, items in ((count - late, self._held(stage)), (late, self._late(stage))):
                for item, size in items.items() if many else ():
                    found[item] = found.get(item, 0.0) + many * size
        for item, size in self._beside(moment).items():
            found[item] = found.get(item, 0.0) + size
        return found

    def peak(self, order: Order) -> dict[Item, float]:
        """Bytes of all items at the moment of an order when they are most in all, the first such moment."""
        stages = {*self.held, *self.late}
        held = {stage: sum(self._held(stage).values()) for stage in stages}
        late = {stage: sum(self._late(stage).values()) for stage in stages}

        def total(moment: Moment) -> float:
            flying = sum(
                (count - waiting) * held.get(stage, 0.0) + waiting * late.get(stage, 0.0)
                for stage, count, waiting in moment.flying
            )
            return flying + sum(self._beside(moment).values())

        return self.items(max(self.moments(order), key=total, default=None))

    def rows(self, order: Order) -> dict[str, float]:
        """Bytes of all rows at the peak."""
        return by_row(self.peak(order))

    def _held(self, stage: int) -> Items:
        return self.held.get(stage, {})

    def _late(self, stage: int) -> Items:
        return self.late.get(stage, self._held(stage))

    def _beside(self, moment: Moment) -> Items:
        """What the actions of a moment have beside what is held."""
        found: dict[Item, float] = {}
        for stage, kind, part in moment.parts:
            for item, size in self.working[stage, kind][part].items() if (stage, kind) in self.working else ():
                found[item] = found.get(item, 0.0) + size
        return found


def running(entry: Sequence[Any]) -> tuple[tuple[int, str], ...]:
    """The actions of an entry of an order as (stage, kind): one, two of an overlapped pair, or none.

    >>> running(((0, "F", "first"), 3)), running(((0, "optimizer", "only"), 0))
    (((0, 'F'),), ())
    """
    keys = [entry[0], *(other for other in entry[0][3:] if other is not None)]
    return tuple((key[0], key[1]) for key in keys if key[1] in ACTIONS)


def _worst(parts: Sequence[Items]) -> int:
    """The number of the part with the most bytes."""
    sizes = [sum(items.values()) for items in parts]
    return sizes.index(max(sizes))


def by_row(items: Items) -> dict[str, float]:
    """Bytes of the rows of some items.

    >>> by_row({Item("activations", "attention"): 2.0, Item("logits"): 1.0, Item("activations", "norm"): 3.0})
    {'activations': 5.0, 'logits': 1.0}
    """
    found: dict[str, float] = {}
    for (row, _), size in items.items():
        found[row] = found.get(row, 0.0) + size
    return found
