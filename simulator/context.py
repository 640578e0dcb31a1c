"""What everything in one replay shares: the clock, the network, the ranks' SMs, the record."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import simpy

from simulator.network import Network
from simulator.processor import Processor
from simulator.recording import Recording


@dataclass(slots=True)
class ReplayContext:
    """One replay: processors and recordings by rank class, and numbers for its transfers.

    `holding` is told of a rank class before something takes of its SMs or gives some back, if anybody wants to know.
    """

    environment: simpy.Environment
    network: Network
    processors: Mapping[int, Processor]
    recordings: Mapping[int, Recording]
    holding: Callable[[int], None] | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)
