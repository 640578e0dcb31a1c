"""One instant, one reckoning: what happens at the same time is settled together, after all of it."""

from collections.abc import Callable
from typing import Any

import simpy
from simpy.events import Event, EventPriority

_LAST = EventPriority(2)


class Instant:
    """Collects what changed at the present instant and settles it once, when nothing else happens then."""

    def __init__(self, environment: simpy.Environment) -> None:
        self._environment = environment
        self._settlers: dict[Callable[[], None], None] = {}

    def settle(self, settler: Callable[[], None]) -> None:
        """Call `settler` once at the end of this instant."""
        if not self._settlers:
            event = Event(self._environment)
            event._ok, event._value = True, None
            event.callbacks = [self._run]
            self._environment.schedule(event, _LAST)
        self._settlers[settler] = None

    def _run(self, _: Any) -> None:
        settlers, self._settlers = list(self._settlers), {}
        for settler in settlers:
            settler()
