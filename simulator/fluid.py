"""The network: flows share links by weighted max-min, solved again only where something changed."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import simpy

from simulator.instant import Instant
from simulator.progress import Progress
from simulator.quotient import Stretch


class Flow:
    """Bytes of one stretch of one transfer on their way; rates count on its most loaded link."""

    __slots__ = ("priority", "progress", "stretch")

    def __init__(self, environment: simpy.Environment, stretch: Stretch, priority: float, left: float) -> None:
        self.stretch, self.priority = stretch, priority
        self.progress = Progress(environment, left)


class Network(Protocol):
    """What the engine asks of a network: carry bytes, and call back when they have arrived."""

    def start(self, stretch: Stretch, priority: float, left: float, arrived: Callable[[], None]) -> Flow:
        """Send `left` bytes of a stretch on their way."""
        ...


class SharedNetwork:
    """Links shared max-min. A flow alone on all its links is a single timeout; only contact starts sharing.

    Flows that arrive or leave at one instant are handled together, and only the component of flows that
    touch each other over links is solved again.
    """

    def __init__(self, environment: simpy.Environment, instant: Instant, capacities: Sequence[float]) -> None:
        self._environment, self._instant, self._capacities = environment, instant, capacities
        self._on_link: dict[int, dict[Flow, None]] = {}
        self._changed: dict[int, None] = {}
        self._alone: dict[tuple[Stretch, float], float] = {}

    def start(self, stretch: Stretch, priority: float, left: float, arrived: Callable[[], None]) -> Flow:
        """Send `left` bytes of a stretch on their way; `arrived` is called when the last one is there."""
        flow = Flow(self._environment, stretch, priority, left)

        def end(_: object) -> None:
            self._leave(flow)
            arrived()

        flow.progress.event.callbacks.append(end)
        met = [link for link in stretch.loads if self._on_link.get(link)]
        for link in stretch.loads:
            self._on_link.setdefault(link, {})[flow] = None
        if met:
            self._change(met)
        else:
            flow.progress.proceed(self._environment, self._rate_alone(stretch, priority))
        return flow

    def busy(self, links: Iterable[int]) -> bool:
        """Whether any of the links carries something."""
        return any(self._on_link.get(link) for link in links)

    def _leave(self, flow: Flow) -> None:
        left_behind = []
        for link in flow.stretch.loads:
            others = self._on_link[link]
            del others[flow]
            if others:
                left_behind.append(link)
        if left_behind:
            self._change(left_behind)

    def _change(self, links: Iterable[int]) -> None:
        self._changed.update(dict.fromkeys(links))
        self._instant.settle(self._settle)

    def _rate_alone(self, stretch: Stretch, priority: float) -> float:
        key = stretch, priority
        if key not in self._alone:
            self._alone[key] = max_min_rates([(stretch, priority)], self._capacities)[0]
        return self._alone[key]

    def _settle(self) -> None:
        changed, self._changed = self._changed, {}
        while changed:
            flows = self._component(changed.popitem()[0], changed)
            rates = max_min_rates([(flow.stretch, flow.priority) for flow in flows], self._capacities)
            for flow, rate in zip(flows, rates, strict=True):
                if flow.progress.rate != rate:
                    flow.progress.proceed(self._environment, rate)

    def _component(self, link: int, changed: dict[int, None]) -> list[Flow]:
        """Flows connected to a link over shared links; takes the component's links out of `changed`."""
        flows: dict[Flow, None] = {}
        links, seen = [link], {link}
        while links:
            for flow in self._on_link.get(links.pop(), ()):
                if flow in flows:
                    continue
                flows[flow] = None
                fresh = [each for each in flow.stretch.loads if each not in seen]
                seen.update(fresh)
                links += fresh
        for each in seen:
            changed.pop(each, None)
        return list(flows)


class UnsharedNetwork:
    """Every flow at the rate it has alone: the closed form without contention, an oracle for the other."""

    def __init__(self, environment: simpy.Environment, instant: Instant, capacities: Sequence[float]) -> None:  # noqa: ARG002
        self._environment, self._capacities = environment, capacities

    def start(self, stretch: Stretch, priority: float, left: float, arrived: Callable[[], None]) -> Flow:
        """Send `left` bytes of a stretch on their way, as if nothing else did."""
        flow = Flow(self._environment, stretch, priority, left)
        flow.progress.event.callbacks.append(lambda _: arrived())
        flow.progress.proceed(self._environment, max_min_rates([(stretch, priority)], self._capacities)[0])
        return flow

    def busy(self, links: Iterable[int]) -> bool:  # noqa: ARG002
        """Never: no flow is in another's way."""
        return False


def max_min_rates(flows: Sequence[tuple[Stretch, float]], capacities: Sequence[float]) -> list[float]:
    """Weighted max-min fair rates (progressive filling) of flows, bytes/s on each one's most loaded link.

    All flows' levels, rate / priority, rise together; a flow stops when a link it crosses is full or its
    own cap is reached. Sums group equal values, multiply each by its count once, and are correctly
    rounded, so that the result depends neither on the order of flows nor on how many one entry stands for.
    """
    filling = _Filling(flows, capacities)
    while filling.growing:
        filling.raise_level()
    return filling.rates


class _Filling:
    """One progressive filling: per link, the load of growing flows (per level) and of stopped ones (bytes/s)."""

    def __init__(self, flows: Sequence[tuple[Stretch, float]], capacities: Sequence[float]) -> None:
        self._flows, self._capacities = flows, capacities
        self.rates = [math.inf] * len(flows)
        self.growing = set(range(len(flows)))
        self._level = 0.0
        self._crossing: dict[int, list[int]] = {}
        self._rising: dict[int, Counter[float]] = {}
        self._settled: dict[int, Counter[float]] = {}
        for index, (stretch, priority) in enumerate(flows):
            for link, weights in stretch.loads.items():
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
            stretch, priority = self._flows[index]
            self.rates[index] = self._level * priority
            for link, weights in stretch.loads.items():
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
