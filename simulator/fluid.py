"""How flows share links: weighted max-min, by progressive filling."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from simulator.quotient import Quotient, Stretch

_ALMOST = 1 - 1e-9
"""A link that full demand fills to no more than this share is never what limits a flow."""


class Alone(NamedTuple):
    """A flow that meets nobody: its rate, and what it then asks of each link that may be short, bytes/s."""

    rate: float
    demands: dict[int, float]


class Sharing:
    """How links are shared by the flows of some stretches; every set of flows is solved once and kept.

    Of two links of which the narrower always fills first, only the narrower is looked at. A demand of up to
    `ample` bytes/s on a link is met whatever else happens.
    """

    def __init__(self, capacities: Sequence[float], stretches: Iterable[Stretch] = ()) -> None:
        self._capacities = capacities
        self.ample = [capacity * _ALMOST for capacity in capacities]
        self._spare = _spare_links(capacities, stretches)
        self._alone: dict[tuple[Stretch, float], Alone] = {}
        self._solved: dict[Hashable, dict[tuple[Stretch, float], float]] = {}

    @classmethod
    def of(cls, quotient: Quotient) -> "Sharing":
        """How the links of a quotient are shared by its transfers; found once."""
        return quotient.once("sharing", lambda: cls(quotient.capacities, quotient.stretches()))

    def alone(self, stretch: Stretch, priority: float) -> Alone:
        """Rate and demands of a flow without company."""
        key = stretch, priority
        if key not in self._alone:
            rate = self._solve([key])[0]
            short = {link: weights for link, weights in stretch.loads.items() if link not in self._spare}
            self._alone[key] = Alone(rate, {link: rate * _load(weights) for link, weights in short.items()})
        return self._alone[key]

    def single(self, stretch: Stretch) -> float:
        """The rate of one transfer of a class when not even the others of its class are there."""
        shares = (self._capacities[link] / weight for link, found in stretch.loads.items() for weight, _ in found)
        return min([stretch.rate_cap, *shares])

    def rates(self, flows: Sequence[tuple[Stretch, float]]) -> dict[tuple[Stretch, float], float]:
        """Fair rates of flows that meet; equal flows have equal rates."""
        key = frozenset(flows) if len(set(flows)) == len(flows) else frozenset(Counter(flows).items())
        if key not in self._solved:
            self._solved[key] = dict(zip(flows, self._solve(flows), strict=True))
        return self._solved[key]

    def _solve(self, flows: Sequence[tuple[Stretch, float]]) -> list[float]:
        return max_min_rates(flows, self._capacities, self._spare)


def _load(weights: Iterable[tuple[float, int]]) -> float:
    """What a stretch puts on a link, as a multiple of its rate."""
    return math.fsum(weight * count for weight, count in weights)


def _spare_links(capacities: Sequence[float], stretches: Iterable[Stretch]) -> frozenset[int]:
    """Links that never limit a flow: whatever crosses them fills one and the same narrower link first."""
    narrower: dict[int, set[int]] = {}
    for stretch in stretches:
        filled = {link: _load(weights) / capacities[link] for link, weights in stretch.loads.items()}
        for link, share in filled.items():
            mine = {each for each in filled if filled[each] >= share and capacities[each] < capacities[link]}
            narrower[link] = narrower[link] & mine if link in narrower else mine
    return frozenset(link for link, found in narrower.items() if found or capacities[link] == math.inf)


def max_min_rates(
    flows: Sequence[tuple[Stretch, float]], capacities: Sequence[float], spare: frozenset[int] = frozenset()
) -> list[float]:
    """Weighted max-min fair rates (progressive filling) of flows, bytes/s on each one's most loaded link.

    All flows' levels, rate / priority, rise together; a flow stops when a link it crosses is full or its
    own cap is reached. `spare` links never decide. Sums group equal values, multiply each by its count once,
    and are correctly rounded, so that the result depends neither on the order of flows nor on how many one
    entry stands for.
    """
    filling = _Filling(flows, capacities, spare)
    while filling.growing:
        filling.raise_level()
    return filling.rates


class _Filling:
    """One progressive filling: per link, the load of growing flows (per level) and of stopped ones (bytes/s)."""

    def __init__(
        self, flows: Sequence[tuple[Stretch, float]], capacities: Sequence[float], spare: frozenset[int]
    ) -> None:
        self._flows, self._capacities = flows, capacities
        self._loads = [
            {link: weights for link, weights in stretch.loads.items() if link not in spare} for stretch, _ in flows
        ]
        self.rates = [math.inf] * len(flows)
        self.growing = set(range(len(flows)))
        self._level = 0.0
        self._crossing: dict[int, list[int]] = {}
        self._rising: dict[int, Counter[float]] = {}
        self._settled: dict[int, Counter[float]] = {}
        for index, (_, priority) in enumerate(flows):
            for link, weights in self._loads[index].items():
                self._crossing.setdefault(link, []).append(index)
                rising = self._rising.setdefault(link, Counter())
                self._settled.setdefault(link, Counter())
                for weight, count in weights:
                    rising[priority * weight] += count
        self._full_at = {link: self._level_when_full(link) for link in self._crossing}

    def raise_level(self) -> None:
        """Raise the level until the next link is full or the next cap reached, and stop the flows concerned."""
        caps = {index: self._flows[index][0].rate_cap / self._flows[index][1] for index in self.growing}
        level = min([*self._full_at.values(), *caps.values()])
        self._level = max(self._level, level)
        stopping = {index for index, cap in caps.items() if cap == level}
        for link, full_at in self._full_at.items():
            if full_at == level:
                stopping |= self.growing.intersection(self._crossing[link])
        self._stop(stopping)

    def _stop(self, stopping: set[int]) -> None:
        self.growing -= stopping
        touched = set()
        for index in stopping:
            priority = self._flows[index][1]
            self.rates[index] = self._level * priority
            for link, weights in self._loads[index].items():
                touched.add(link)
                for weight, count in weights:
                    self._rising[link][priority * weight] -= count
                    self._settled[link][priority * weight * self._level] += count
        for link in touched:
            if self.growing.intersection(self._crossing[link]):
                self._full_at[link] = self._level_when_full(link)
            else:
                self._full_at.pop(link, None)

    def _level_when_full(self, link: int) -> float:
        capacity = self._capacities[link]
        if capacity == math.inf:
            return math.inf
        return (capacity - _total(self._settled[link])) / _total(self._rising[link])


def _total(counted: Counter[float]) -> float:
    return math.fsum(value * count for value, count in counted.items() if count)
