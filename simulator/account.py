"""An account of one rank's time, as far as it can be told without the others."""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Account:
    """Seconds of one rank, as far as they can be told without the others.

    `waits` are intervals in which it waited for another stage or had nothing left to do: bubble inside the
    pipeline phase, idle outside. `begins` and `ends` bound its own share of that phase.
    """

    compute: float = 0.0
    launch: float = 0.0
    idle: float = 0.0
    exposed: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    waits: list[tuple[float, float]] = field(default_factory=list)
    begins: float = float("inf")
    ends: float = 0.0
    last: float = 0.0

    def split(self, begins: float, ends: float, step_end: float) -> tuple[float, float]:
        """(bubble, idle) when the pipeline phase of all ranks and the end of the step are known."""
        waits = [*self.waits, (self.last, step_end)]
        inside = sum(max(0.0, min(high, ends) - max(low, begins)) for low, high in waits)
        return inside, self.idle + sum(high - low for low, high in waits) - inside
