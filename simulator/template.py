"""The template of a run: how it goes when nothing foreign meets it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulator.account import Account
from simulator.blocks import ReadyOp
from simulator.demand import Floats


class Trailing(NamedTuple):
    """An op of a run that goes on when the compute stream has run its last kernel; seconds before the run's end."""

    ready: ReadyOp
    start: float
    began: float
    end: float


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A run as it goes when nothing foreign meets it; times in seconds from its start.

    `starts`, `began`, `ends` and `launches` (how many launches after the first op's) are in the order of the
    run's ops. `length` is when the compute stream goes on. `serial`: each op starts when the one before has
    ended, so that waiting for the host delays all that follow. The `account` goes up to the end of the last op on the
    compute stream; `trailing` are ops that end after that.
    """

    starts: Floats
    began: Floats
    ends: Floats
    launches: Floats
    last_launch: float
    length: float
    serial: bool
    account: Account
    trailing: tuple[Trailing, ...]

    @property
    def tail(self) -> float:
        """Seconds at the end in which the compute stream runs nothing any more."""
        return self.length - self.account.last

    def delays(self, lead: float, interval: float) -> Floats:
        """How late each op is if the host launched the first one `lead` seconds after the run's start."""
        return np.maximum.accumulate(np.maximum(lead + interval * self.launches - self.starts, 0.0))

    def late(self, lead: float, interval: float) -> float:
        """How late the whole run is then, seconds."""
        if lead + interval * self.last_launch <= 0.0:
            return 0.0
        return float(self.delays(lead, interval)[-1])
