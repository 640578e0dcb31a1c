"""Blocks made ready for replay: names resolved, kernels timed, runs gathered, one queue per stream."""

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.addresses import Address, address
from simulator.compute import ComputeModel
from simulator.runs import COMPUTE, Resolved, gather, inner_streams
from topologies import Accelerator
from workloads.ops import Compute, Op
from workloads.program import Block, Program


@dataclass(frozen=True, slots=True, eq=False)
class ReadyOp:
    """An op of a block, ready for replay.

    `waits` are the places in the block of the ops on other streams that it waits for; `imports` the names
    it takes from earlier blocks. `awaited`: whether an op on another stream, or in a later block, waits for it.
    """

    place: int
    op: Op
    seconds: float
    address: Address | None
    waits: tuple[int, ...]
    imports: tuple[str, ...]
    awaited: bool


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Consecutive ops that can be replayed as one, as long as nothing foreign meets them.

    `outward` are the places of ops that something outside waits for; `joined` those that the compute stream
    waits for before it goes on behind the run; `closing` those that other blocks or outer streams wait for.
    """

    ops: tuple[ReadyOp, ...]
    outward: tuple[int, ...]
    joined: frozenset[int]
    closing: frozenset[int]

    @property
    def streams(self) -> list[str]:
        """The streams of its ops."""
        return list(dict.fromkeys(ready.op.stream for ready in self.ops))

    def on(self, stream: str) -> tuple[ReadyOp, ...]:
        """The run's ops on one stream, in order."""
        return tuple(ready for ready in self.ops if ready.op.stream == stream)


@dataclass(frozen=True, slots=True, eq=False)
class ReadyBlock:
    """A block as queues: for each stream that is not inner to runs, what it replays in order.

    `exports` are the places of ops that later blocks wait for by name, `importing` the ops that wait so.
    """

    ops: tuple[ReadyOp, ...]
    queues: Mapping[str, tuple[ReadyOp | Run, ...]]
    exports: Mapping[str, int]
    importing: tuple[ReadyOp, ...]


class BlockCompiler:
    """Makes a program's blocks ready, each distinct block once per accelerator."""

    def __init__(self, program: Program, compute: ComputeModel) -> None:
        self._compute = compute
        self._blocks = {id(block): Resolved.of(block) for block in program.blocks.values()}
        found = list(self._blocks.values())
        self._imported = frozenset(name for each in found for names in each.imports for name in names)
        self.inner = inner_streams(found, self._imported)
        self._ready: dict[tuple[int, Accelerator], ReadyBlock] = {}

    def ready(self, block: Block, accelerator: Accelerator) -> ReadyBlock:
        """The block's queues on an accelerator."""
        key = id(block), accelerator
        if key not in self._ready:
            self._ready[key] = self._make(self._blocks[id(block)], accelerator)
        return self._ready[key]

    def _make(self, block: Resolved, accelerator: Accelerator) -> ReadyBlock:
        awaited = block.awaited(self._imported)
        ops = [self._op(block, place, accelerator, place in awaited) for place in range(len(block.block.ops))]
        closing = block.awaited(self._imported, block.outer(self.inner))
        queues: dict[str, list[ReadyOp | Run]] = {}
        for places in gather(block, self.inner, self._imported):
            first = ops[places[0]]
            if first.op.stream in self.inner or (first.op.stream == COMPUTE and first.address is None):
                queues.setdefault(COMPUTE, []).append(_run(block, [ops[place] for place in places], closing))
            else:
                queues.setdefault(first.op.stream, []).append(first)
        exports = {ready.op.name: ready.place for ready in ops if ready.op.name in self._imported}
        importing = tuple(ready for ready in ops if ready.imports)
        return ReadyBlock(tuple(ops), {stream: tuple(items) for stream, items in queues.items()}, exports, importing)

    def _op(self, block: Resolved, place: int, accelerator: Accelerator, awaited: bool) -> ReadyOp:
        op = block.block.ops[place]
        return ReadyOp(
            place=place,
            op=op,
            seconds=self._compute.seconds(op, accelerator) if isinstance(op, Compute) else 0.0,
            address=address(op),
            waits=tuple(each for each in block.waits[place] if block.stream(each) != op.stream),
            imports=block.imports[place],
            awaited=awaited,
        )


def _run(block: Resolved, ops: list[ReadyOp], awaited: frozenset[int]) -> Run:
    """One run of a block; `awaited` are the block's places that something outside runs waits for."""
    places = {ready.place for ready in ops}
    following = range(max(places) + 1, len(block.block.ops))
    closing = awaited & places
    outward = closing | {each for place in following for each in block.waits[place] if each in places}
    following_compute = next((place for place in following if block.stream(place) == COMPUTE), None)
    joined = block.waits[following_compute] if following_compute is not None else ()
    return Run(tuple(ops), tuple(sorted(outward)), frozenset(joined), closing)
