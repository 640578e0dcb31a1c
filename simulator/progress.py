"""Fluid work: so much left, at a rate that may change, with an event at the end as it looks now."""

from math import inf

import simpy
from simpy.events import Event, Timeout


class Progress:
    """Work in progress. `event` happens when nothing is left; it is replaced whenever the rate changes.

    Whoever waits for the end waits on `event`: its callbacks move along to each new prediction, so one
    event is paid per change, and none stays behind that could fire too early. Work may begin after a `delay`.
    """

    __slots__ = ("event", "left", "rate", "since")

    def __init__(self, environment: simpy.Environment, work: float, rate: float, delay: float = 0.0) -> None:
        self.left, self.rate, self.since = work, rate, environment.now + delay
        self.event = _end(environment, work, rate, delay)

    def remaining(self, now: float) -> float:
        """Work left at an instant, without changing anything."""
        elapsed = now - self.since
        return self.left if elapsed <= 0 or not self.rate else max(0.0, self.left - self.rate * elapsed)

    def proceed(self, environment: simpy.Environment, rate: float) -> None:
        """Go on at another rate from now on; work left is brought up to date only here."""
        self.left = self.remaining(environment.now)
        self.since = environment.now
        self.rate = rate
        waiting, self.event.callbacks = self.event.callbacks, []
        self.event = _end(environment, self.left, rate, 0.0)
        self.event.callbacks = waiting


def _end(environment: simpy.Environment, work: float, rate: float, delay: float) -> Event:
    """The end of work at a rate, begun after a delay; it never comes while nothing moves."""
    if not rate:
        return Event(environment)
    return Timeout(environment, delay + (0.0 if rate == inf else work / rate))
