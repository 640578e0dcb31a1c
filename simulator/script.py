"""What a rank class replays: ready blocks in order, with the names between them resolved."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Self

from simulator.addresses import Slot
from simulator.blocks import ReadyBlock, ReadyOp, Run
from simulator.quotient import RankClass
from simulator.runs import COMPUTE

Place = tuple[int, int]
"""An op instance of a rank class: (position in its order, place in the block)."""
MessageKey = tuple[int, int]
"""A message: (class of channels, number of the call)."""
Channels = Mapping[tuple[int, Slot], int]
"""Which messages go by mailbox: for (rank class, slot) the class of channels."""


class QueuedOp(NamedTuple):
    """An op in a stream's queue, which the host launches at `host`.

    `message` is there if it is a message that goes by mailbox: its class of channels, and the number of the call.
    `free` says that it waits for nothing on other streams, and nothing there waits for it.
    """

    position: int
    ready: ReadyOp
    host: float
    message: MessageKey | None
    free: bool


class QueuedRun(NamedTuple):
    """A run in the compute stream's queue, whose first op the host launches at `host`.

    `free` says that it waits for nothing but the compute stream, which has come to it.
    """

    position: int
    run: Run
    host: float
    free: bool


Queued = QueuedOp | QueuedRun


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """A rank class's blocks in order.

    `imports` resolves, for ops that name ops of earlier blocks, the latest of that name before them. The
    host launches the first op of a block at `launched` seconds, and one op every `interval`; before `begins` it has
    other work, and no stream goes on. `queues` holds
    what each stream goes through, the compute stream first.
    """

    rank_class: RankClass
    blocks: Sequence[ReadyBlock]
    imports: Mapping[Place, list[Place]]
    launched: Sequence[float]
    interval: float
    queues: Mapping[str, Sequence[Queued]]
    begins: float = 0.0

    @classmethod
    def of(
        cls,
        rank_class: RankClass,
        blocks: Sequence[ReadyBlock],
        interval: float,
        *,
        start: float = 0.0,
        begins: float = 0.0,
        channels: Channels = MappingProxyType({}),
    ) -> Self:
        """The script of a rank class whose first op is launched at `start`; an unknown name is an error."""
        launched, count = [], 0
        for block in blocks:
            launched.append(begins + start + count * interval)
            count += len(block.ops)
        messages = {slot: channel for (index, slot), channel in channels.items() if index == rank_class.index}
        queues = _queues(blocks, launched, interval, messages)
        return cls(rank_class, blocks, _resolve(blocks), launched, interval, queues, begins)

    def host(self, position: int, place: int) -> float:
        """When the host launches an op, going through the program in order, one launch an interval.

        Assumes that the host never waits for the device within a step.
        """
        return self.launched[position] + place * self.interval

    def awaited(self, position: int, ready: ReadyOp) -> Iterable[Place]:
        """The op instances on other streams, or in earlier blocks, that an op waits for."""
        own = [(position, place) for place in ready.waits]
        return own + self.imports.get((position, ready.place), []) if ready.imports else own


def _resolve(blocks: Sequence[ReadyBlock]) -> dict[Place, list[Place]]:
    latest: dict[str, Place] = {}
    resolved: dict[Place, list[Place]] = {}
    for position, block in enumerate(blocks):
        for ready in block.importing:
            for name in ready.imports:
                if name not in latest:
                    raise ValueError(f"{ready.op.name} waits for {name!r}, but no op before it has that name")
            resolved[position, ready.place] = [latest[name] for name in ready.imports]
        latest.update({name: (position, place) for name, place in block.exports.items()})
    return resolved


def _queues(
    blocks: Sequence[ReadyBlock], launched: Sequence[float], interval: float, messages: Mapping[Slot, int]
) -> dict[str, list[Queued]]:
    """Every stream's items in order, with what does not depend on the replay."""
    queues: dict[str, list[Queued]] = {COMPUTE: []}
    calls: Counter[Slot] = Counter()
    for position, block in enumerate(blocks):
        for stream, items in block.queues.items():
            queue = queues.setdefault(stream, [])
            for item in items:
                first = item.ops[0] if isinstance(item, Run) else item
                host = launched[position] + first.place * interval
                waits = bool(first.waits or first.imports)
                if isinstance(item, Run):
                    queue.append(QueuedRun(position, item, host, first.op.stream != COMPUTE or not waits))
                    continue
                message = None
                if item.address and item.address.slot in messages:
                    slot = item.address.slot
                    message = messages[slot], calls[slot]
                    calls[slot] += 1
                queue.append(QueuedOp(position, item, host, message, not (waits or item.awaited)))
    return queues
