"""What a replay takes down, rank class by rank class: one record per op, or per run that was replayed as one."""

from collections.abc import Iterator
from typing import NamedTuple

from simulator.blocks import ReadyOp, Run
from simulator.runs import COMPUTE
from simulator.template import Template


class OpRecord(NamedTuple):
    """An op at a position of its rank class's order: it started, its transfer began, it ended; seconds."""

    position: int
    ready: ReadyOp
    start: float
    began: float
    end: float
    message: int = -1


class RunRecord(NamedTuple):
    """A run that was replayed as one: its ops are the template's, shifted.

    `host` is when its first op was launched, and `late` how long the run waited for the host's launches.
    """

    position: int
    run: Run
    start: float
    end: float
    host: float
    late: float
    template: Template


class Recording:
    """What one rank class did: in order on its compute stream, on other streams, and messages that held nobody.

    Records of the compute stream follow one another without overlap. A message in `sent` leaves at its start
    and is delivered at its end, while the rank class goes on.
    """

    def __init__(self) -> None:
        self.compute: list[OpRecord | RunRecord] = []
        self.beside: list[OpRecord] = []
        self.sent: list[OpRecord] = []

    def add(self, record: OpRecord) -> None:
        """Take down an op that held its stream until its end."""
        (self.compute if record.ready.op.stream == COMPUTE else self.beside).append(record)

    @property
    def end(self) -> float:
        """The end of what ended last, seconds."""
        return max((records[-1].end for records in (self.compute, self.beside, self.sent) if records), default=0.0)

    @property
    def records(self) -> Iterator[OpRecord | RunRecord]:
        """Everything that was taken down."""
        yield from self.compute
        yield from self.beside
        yield from self.sent

    @property
    def ops(self) -> Iterator[OpRecord]:
        """Every op that was replayed by itself."""
        yield from (record for record in self.compute if isinstance(record, OpRecord))
        yield from self.beside
        yield from self.sent
