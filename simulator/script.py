"""What a node replays: ready blocks in order, with the names between them resolved."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from simulator.blocks import ReadyBlock, ReadyOp
from simulator.quotient import Node
from simulator.runs import COMPUTE

Place = tuple[int, int]
"""An op instance of a node: (position in its order, place in the block)."""


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """A node's blocks in order.

    `imports` resolves, for ops that name ops of earlier blocks, the latest of that name before them. The
    host launches the first op of a block at `launched` seconds, and one op every `interval`.
    """

    node: Node
    blocks: Sequence[ReadyBlock]
    imports: Mapping[Place, list[Place]]
    launched: Sequence[float]
    interval: float

    @classmethod
    def of(cls, node: Node, blocks: Sequence[ReadyBlock], interval: float) -> Self:
        """The script of a node; a name that no op before has is an error."""
        launched, count = [], 0
        for block in blocks:
            launched.append(count * interval)
            count += len(block.ops)
        return cls(node, blocks, _resolve(blocks), launched, interval)

    @property
    def streams(self) -> list[str]:
        """Every stream with a queue, the compute stream first."""
        streams = {stream for block in self.blocks for stream in block.queues}
        return sorted(streams, key=lambda stream: (stream != COMPUTE, stream))

    def host(self, position: int, place: int) -> float:
        """When the host launches an op, going through the program in order, one launch an interval.

        Assumes that the host never waits for the device within a step.
        """
        return self.launched[position] + place * self.interval

    def awaited(self, position: int, ready: ReadyOp) -> Iterable[Place]:
        """The op instances on other streams, or in earlier blocks, that an op waits for."""
        own = [(position, place) for place in ready.waits]
        return own + self.imports[position, ready.place] if ready.imports else own


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
