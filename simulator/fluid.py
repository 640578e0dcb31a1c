"""The network: flows share links by weighted max-min, solved again only where something changed."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, Protocol

import simpy
from simpy.events import Timeout

from simulator.instant import Instant
from simulator.progress import Progress
from simulator.quotient import Quotient, Stretch

_ALMOST = 1 - 1e-9
"""A link that full demand fills to no more than this share is never what limits a flow."""


class Flow:
    """Bytes of one stretch of one transfer; rates count on its most loaded link.

    `key` is (stretch, priority), which `alone` follows from. It enters its links at `enters`, and its
    `progress` ends when the last byte is there.
    """

    __slots__ = ("alone", "arrived", "enters", "key", "progress")
    progress: Progress

    def __init__(self, key: tuple[Stretch, float], alone: "Alone", enters: float, arrived: Callable[[], None]) -> None:
        self.key, self.alone, self.enters, self.arrived = key, alone, enters, arrived


class Network(Protocol):
    """What the engine asks of a network: carry bytes, and call back when they have arrived."""

    def start(
        self, stretch: Stretch, priority: float, left: float, arrived: Callable[[], None], delay: float = 0.0
    ) -> Flow:
        """Send `left` bytes of a stretch on their way, after a delay; `arrived` is called when they are there."""
        ...

    def busy(self, links: Iterable[int]) -> bool:
        """Whether any of the links carries something that a new flow would meet."""
        ...


class SharedNetwork:
    """Links shared max-min. A flow that meets nobody is a single timeout; only contact starts sharing.

    Flows meet on a link if it cannot carry all of them at the rates they would have alone: other links never
    decide. Flows that enter or leave at one instant are handled together, and only the component of flows
    that meet each other, directly or through others, is solved again. With `ahead`, a delayed flow takes its
    links at once if nobody is in its way, and its delay and its bytes are one event; it makes room again
    should another flow enter before it.
    """

    def __init__(
        self, environment: simpy.Environment, instant: Instant, sharing: "Sharing", *, ahead: bool = False
    ) -> None:
        self._environment, self._instant, self._sharing, self._ahead = environment, instant, sharing, ahead
        self._on_link: list[list[Flow]] = [[] for _ in range(sharing.links)]
        self._changed: dict[int, None] = {}

    def start(
        self, stretch: Stretch, priority: float, left: float, arrived: Callable[[], None], delay: float = 0.0
    ) -> Flow:
        """Send `left` bytes of a stretch on their way, after a delay; `arrived` is called when they are there."""
        environment = self._environment
        alone = self._sharing.alone(stretch, priority)
        flow = Flow((stretch, priority), alone, environment.now + delay, arrived)
        free = (self._ahead or not delay) and not self._occupy(flow)
        flow.progress = Progress(environment, left, alone.rate if free else 0.0, delay)
        flow.progress.event.callbacks.append(lambda _: self._end(flow))
        if delay and not free:
            self._later(flow, delay)
        return flow

    def _occupy(self, flow: Flow) -> bool:
        """Put a flow on its links; whether it meets others there. One that is only to enter steps back if so."""
        met = []
        for link in flow.alone.demands:
            others = self._on_link[link]
            others.append(flow)
            if len(others) > 1 and self._sharing.crowded(link, others):
                met.append(link)
        if not met:
            return False
        if flow.enters > self._environment.now:
            self._vacate(flow)
        else:
            self._make_room(met)
            self._change(met)
        return True

    def _make_room(self, links: Iterable[int]) -> None:
        """Take flows that have not entered yet off crowded links, to enter when it is time."""
        now = self._environment.now
        early = dict.fromkeys(flow for link in links for flow in self._on_link[link] if flow.enters > now)
        for flow in early:
            self._vacate(flow)
            flow.progress.proceed(self._environment, 0.0)
            self._later(flow, flow.enters - now)

    def _later(self, flow: Flow, delay: float) -> None:
        Timeout(self._environment, delay).callbacks.append(lambda _: self._enter(flow))

    def _enter(self, flow: Flow) -> None:
        """Let a flow that has waited enter its links now."""
        flow.enters = self._environment.now
        if not self._occupy(flow):
            flow.progress.proceed(self._environment, flow.alone.rate)

    def _vacate(self, flow: Flow) -> None:
        for link in flow.alone.demands:
            self._on_link[link].remove(flow)

    def _end(self, flow: Flow) -> None:
        self._leave(flow)
        flow.arrived()

    def busy(self, links: Iterable[int]) -> bool:
        """Whether any of the links carries something."""
        return any(self._on_link[link] for link in links)

    def _leave(self, flow: Flow) -> None:
        left_behind = []
        for link in flow.alone.demands:
            others = self._on_link[link]
            if len(others) > 1 and self._sharing.crowded(link, others):
                left_behind.append(link)
            others.remove(flow)
        if left_behind:
            self._change(left_behind)

    def _change(self, links: Iterable[int]) -> None:
        self._changed.update(dict.fromkeys(links))
        self._instant.settle(self._settle)

    def _settle(self) -> None:
        changed, self._changed = self._changed, {}
        while changed:
            flows = self._component(changed.popitem()[0], changed)
            rates = self._sharing.rates([flow.key for flow in flows])
            for flow in flows:
                rate = rates[flow.key]
                if flow.progress.rate != rate:
                    flow.progress.proceed(self._environment, rate)

    def _component(self, link: int, changed: dict[int, None]) -> list[Flow]:
        """Flows that were on a link or meet those; takes the component's links out of `changed`."""
        flows = dict.fromkeys(self._on_link[link])
        front, covered, passed = list(flows), {link}, {link}
        while front:
            for each in front.pop().alone.demands:
                others = self._on_link[each]
                if each in passed or len(others) < 2:
                    continue
                passed.add(each)
                if self._sharing.crowded(each, others):
                    covered.add(each)
                    fresh = [other for other in others if other not in flows]
                    flows.update(dict.fromkeys(fresh))
                    front += fresh
        for each in covered:
            changed.pop(each, None)
        return list(flows)


class Alone(NamedTuple):
    """A flow that meets nobody: its rate, and what it then asks of each link that may be short, bytes/s."""

    rate: float
    demands: dict[int, float]


class Sharing:
    """How links are shared by the flows of some stretches; every set of flows is solved once and kept.

    Of two links of which the narrower always fills first, only the narrower is looked at.
    """

    def __init__(self, capacities: Sequence[float], stretches: Iterable[Stretch] = ()) -> None:
        self._capacities = capacities
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

    @property
    def links(self) -> int:
        """The number of links."""
        return len(self._capacities)

    def crowded(self, link: int, flows: Iterable[Flow]) -> bool:
        """Whether a link may be too narrow for what flows would like to send over it."""
        demand = math.fsum(flow.alone.demands[link] for flow in flows)
        return demand > self._capacities[link] * _ALMOST

    def rates(self, flows: Sequence[tuple[Stretch, float]]) -> dict[tuple[Stretch, float], float]:
        """Fair rates of flows that meet; equal flows have equal rates."""
        key = frozenset(Counter(flows).items())
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


class UnsharedNetwork:
    """Every flow at the rate it has alone: the closed form without contention, an oracle for the other."""

    def __init__(
        self,
        environment: simpy.Environment,
        instant: Instant,
        sharing: Sharing,
        *,
        ahead: bool = False,
    ) -> None:
        self._environment, self._sharing = environment, sharing

    def start(
        self, stretch: Stretch, priority: float, left: float, arrived: Callable[[], None], delay: float = 0.0
    ) -> Flow:
        """Send `left` bytes of a stretch on their way, as if nothing else did."""
        alone = self._sharing.alone(stretch, priority)
        flow = Flow((stretch, priority), alone, self._environment.now + delay, arrived)
        flow.progress = Progress(self._environment, left, alone.rate, delay)
        flow.progress.event.callbacks.append(lambda _: arrived())
        return flow

    def busy(self, links: Iterable[int]) -> bool:
        """Never: no flow is in another's way."""
        return False


def max_min_rates(
    flows: Sequence[tuple[Stretch, float]], capacities: Sequence[float], spare: frozenset[int] = frozenset()
) -> list[float]:
    """Weighted max-min fair rates (progressive filling) of flows, bytes/s on each one's most loaded link.

    All flows' levels, rate / priority, rise together; a flow stops when a link it crosses is full or its
    own cap is reached. `spare` links never decide. Sums group equal values, multiply each by its count once, and are correctly
    rounded, so that the result depends neither on the order of flows nor on how many one entry stands for.
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
        level = min(min(self._full_at.values(), default=math.inf), min(caps.values()))
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
