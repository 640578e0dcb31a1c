"""What a node replays: ready blocks in order, with the names between them resolved."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from simulator.addresses import Slot
from simulator.blocks import ReadyBlock, ReadyOp, Run
from simulator.quotient import Node
from simulator.runs import COMPUTE

Place = tuple[int, int]
"""An op instance of a node: (position in its order, place in the block)."""


class Step(NamedTuple):
    """One item of a stream's queue: the host launches it at `host`, and it is call `number` on its slot.

    `free` says that it waits for nothing on other streams, and nothing there waits for it.
    """

    position: int
    item: ReadyOp | Run
    host: float
    number: int
    free: bool


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """A node's blocks in order.

    `imports` resolves, for ops that name ops of earlier blocks, the latest of that name before them. The
    host launches the first op of a block at `launched` seconds, and one op every `interval`. `queues` holds
    what each stream goes through, the compute stream first.
    """

    node: Node
    blocks: Sequence[ReadyBlock]
    imports: Mapping[Place, list[Place]]
    launched: Sequence[float]
    interval: float
    queues: Mapping[str, Sequence[Step]]

    @classmethod
    def of(cls, node: Node, blocks: Sequence[ReadyBlock], interval: float, start: float = 0.0) -> Self:
        """The script of a node whose first op is launched at `start`; an unknown name is an error."""
        launched, count = [], 0
        for block in blocks:
            launched.append(start + count * interval)
            count += len(block.ops)
        return cls(node, blocks, _resolve(blocks), launched, interval, _queues(blocks, launched, interval))

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


def _queues(blocks: Sequence[ReadyBlock], launched: Sequence[float], interval: float) -> dict[str, list[Step]]:
    """Every stream's items in order, with what does not depend on the replay."""
    queues: dict[str, list[Step]] = {COMPUTE: []}
    calls: Counter[Slot] = Counter()
    for position, block in enumerate(blocks):
        for stream, items in block.queues.items():
            queue = queues.setdefault(stream, [])
            for item in items:
                first = item.ops[0] if isinstance(item, Run) else item
                slot = first.address.slot if first.address else None
                host = launched[position] + first.place * interval
                queue.append(Step(position, item, host, calls[slot] if slot else 0, _is_free(item)))
                if slot:
                    calls[slot] += 1
    return queues


def _is_free(item: ReadyOp | Run) -> bool:
    """Whether an item waits for nothing on other streams, and for a single op nothing there waits for it.

    A run that begins on an inner stream waits for the compute stream only, which has come to it.
    """
    if isinstance(item, Run):
        first = item.ops[0]
        return first.op.stream != COMPUTE or not (first.waits or first.imports)
    return not (item.waits or item.imports or item.awaited)
