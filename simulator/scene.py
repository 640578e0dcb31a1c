"""What everything in one replay shares: the clock, the network, the ranks' SMs, the record."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import simpy

from simulator.network import Network
from simulator.processor import Processor
from simulator.quotient import Stretch
from simulator.recording import Recording


class Contact(Protocol):
    """Who wants to know that work is about to touch links or a node's SMs (a run replayed as one)."""

    def links(self, stretch: Stretch) -> None:
        """A flow is about to enter the links of a stretch."""
        ...

    def node(self, index: int) -> None:
        """A transfer is about to hold SMs of a node."""
        ...


@dataclass(slots=True)
class Scene:
    """One replay: processors and recordings by node, and numbers for its transfers.

    `contact` is told before work touches links or SMs, if anybody wants to know.
    """

    environment: simpy.Environment
    network: Network
    processors: Mapping[int, Processor]
    recordings: Mapping[int, Recording]
    contact: Contact | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)
