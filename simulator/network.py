"""Networks that carry flows: one whose links are shared, and one where nobody is in another's way."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import simpy
from simpy.events import Timeout

from simulator.fluid import Alone, Sharing
from simulator.instant import Instant
from simulator.progress import Progress
from simulator.quotient import Stretch


class Flow:
    """Bytes of one stretch of one transfer; rates count on its most loaded link.

    `key` is (stretch, priority), which `alone` follows from. It enters its links at `enters`, and its
    `progress` ends when the last byte is there.
    """

    __slots__ = ("alone", "arrived", "enters", "key", "progress")
    progress: Progress

    def __init__(self, key: tuple[Stretch, float], alone: Alone, enters: float, arrived: Callable[[], None]) -> None:
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
    should another flow enter before it. `entering` is told before a flow takes its links.
    """

    def __init__(
        self, environment: simpy.Environment, instant: Instant, sharing: Sharing, *, ahead: bool = False
    ) -> None:
        self._environment, self._instant, self._sharing, self._ahead = environment, instant, sharing, ahead
        self._on_link: list[list[Flow]] = [[] for _ in sharing.ample]
        self._crowded = [False] * len(sharing.ample)
        self._changed: dict[int, None] = {}
        self.entering: Callable[[Stretch], None] | None = None

    def start(
        self, stretch: Stretch, priority: float, left: float, arrived: Callable[[], None], delay: float = 0.0
    ) -> Flow:
        """Send `left` bytes of a stretch on their way, after a delay; `arrived` is called when they are there."""
        environment = self._environment
        alone, enters = self._sharing.alone(stretch, priority), environment.now + delay
        # So late in a long simulation that a short delay vanishes in rounding, the flow enters now.
        delay = delay if enters > environment.now else 0.0
        flow = Flow((stretch, priority), alone, enters, arrived)
        free = (self._ahead or not delay) and not self._occupy(flow)
        flow.progress = Progress(environment, left, alone.rate if free else 0.0, delay)
        flow.progress.event.callbacks.append(partial(self._end, flow))
        if delay and not free:
            self._later(flow, delay)
        return flow

    def _occupy(self, flow: Flow) -> bool:
        """Put a flow on its links; whether it meets others there. One that is only to enter steps back if so."""
        if self.entering is not None:
            self.entering(flow.key[0])
        met = []
        for link in flow.alone.demands:
            others = self._on_link[link]
            others.append(flow)
            if len(others) > 1 and self._check(link):
                met.append(link)
        if not met:
            return False
        if flow.enters > self._environment.now:
            self._vacate(flow)
        else:
            self._make_room(met)
            self._change(met)
        return True

    def _check(self, link: int) -> bool:
        """Whether a link may be too narrow for its flows, which would all like to go as fast as they could alone."""
        demands = [flow.alone.demands[link] for flow in self._on_link[link]]
        crowded = self._crowded[link] = len(demands) > 1 and math.fsum(demands) > self._sharing.ample[link]
        return crowded

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
            if self._crowded[link]:
                self._check(link)

    def _end(self, flow: Flow, _: object) -> None:
        self._leave(flow)
        flow.arrived()

    def busy(self, links: Iterable[int]) -> bool:
        """Whether any of the links carries something."""
        return any(self._on_link[link] for link in links)

    def _leave(self, flow: Flow) -> None:
        left_behind = [link for link in flow.alone.demands if self._crowded[link]]
        self._vacate(flow)
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
        front, covered = list(flows), {link}
        while front:
            for each in front.pop().alone.demands:
                if self._crowded[each] and each not in covered:
                    covered.add(each)
                    fresh = [other for other in self._on_link[each] if other not in flows]
                    flows.update(dict.fromkeys(fresh))
                    front += fresh
        for each in covered:
            changed.pop(each, None)
        return list(flows)


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
        rate = self._sharing.single(stretch)
        flow = Flow((stretch, priority), Alone(rate, {}), self._environment.now + delay, arrived)
        flow.progress = Progress(self._environment, left, rate, delay)
        flow.progress.event.callbacks.append(lambda _: arrived())
        return flow

    def busy(self, links: Iterable[int]) -> bool:
        """Never: no flow is in another's way."""
        return False
