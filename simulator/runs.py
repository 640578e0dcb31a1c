"""Runs: stretches of a block that touch nothing outside, so that one replay of them serves as a template.

A run is consecutive ops of the compute stream together with the collectives among them (tensor
parallelism, say) on *inner* streams. Nothing inside waits for anything outside but the run's start, and
nothing outside waits for anything inside but its end; so as long as no foreign work meets it, it takes the
same time whenever it is replayed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workloads.ops import Collective, Compute
from workloads.program import Block

COMPUTE = "compute"


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """A block whose `after` names are places: for each op those in the block, and the names from earlier ones."""

    block: Block
    waits: tuple[tuple[int, ...], ...]
    imports: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, block: Block) -> "Resolved":
        """Resolve names to the op of that name before, in the block or else in an earlier one."""
        places: dict[str, int] = {}
        waits, imports = [], []
        for place, op in enumerate(block.ops):
            waits.append(tuple(places[name] for name in op.after if name in places))
            imports.append(tuple(name for name in op.after if name not in places))
            places[op.name] = place
        return cls(block, tuple(waits), tuple(imports))

    def stream(self, place: int) -> str:
        """The stream of an op."""
        return self.block.ops[place].stream

    def outer(self, inner: frozenset[str]) -> frozenset[str]:
        """Its streams that live beside runs: neither the compute stream nor one of `inner`."""
        return frozenset(op.stream for op in self.block.ops) - inner - {COMPUTE}

    def awaited(self, imported: frozenset[str], streams: Iterable[str] | None = None) -> frozenset[int]:
        """Places of ops that a later block waits for, or an op on another stream (one of `streams`, if given)."""
        allowed = None if streams is None else set(streams)
        found = {place for place, op in enumerate(self.block.ops) if op.name in imported}
        for place, waits in enumerate(self.waits):
            mine = self.stream(place)
            if allowed is None or mine in allowed:
                found.update(each for each in waits if self.stream(each) != mine)
        return frozenset(found)


def inner_streams(blocks: Sequence[Resolved], imported: frozenset[str]) -> frozenset[str]:
    """Streams that live within runs in every block; found by striking out those that do not."""
    streams = {op.stream for each in blocks for op in each.block.ops}
    inner = frozenset(streams - {COMPUTE})
    while True:
        kept = inner - {stream for each in blocks for stream in _breaking(each, inner, imported)}
        if kept == inner:
            return inner
        inner = kept


def gather(block: Resolved, inner: frozenset[str], imported: frozenset[str]) -> Iterator[tuple[int, ...]]:
    """A block's places in program order: a run's together, every other op alone."""
    outer = block.outer(inner)
    closing = block.awaited(imported, outer)
    run: list[int] = []
    for place, op in enumerate(block.block.ops):
        if op.stream in outer:
            yield (place,)
            continue
        alone = op.stream == COMPUTE and not isinstance(op, Compute)
        outside = any(each not in run and block.stream(each) != COMPUTE for each in block.waits[place])
        opening = outside or bool(block.imports[place])
        if run and (alone or (opening and op.stream == COMPUTE)):
            yield tuple(run)
            run = []
        if alone:
            yield (place,)
            continue
        run.append(place)
        if place in closing and op.stream == COMPUTE:
            yield tuple(run)
            run = []
    if run:
        yield tuple(run)


def _breaking(block: Resolved, inner: frozenset[str], imported: frozenset[str]) -> Iterator[str]:
    """Inner streams with an op that is no part of a run.

    It could start before the run, or something outside waits for it. An op starts no sooner than the one before it in
    its stream.
    """
    outer = block.outer(inner)
    awaited = block.awaited(imported, outer)
    before, anchors = -1, dict[str, int]()
    for run in gather(block, inner, imported):
        for place in run:
            op = block.block.ops[place]
            if op.stream not in inner:
                continue
            own = max((each for each in block.waits[place] if block.stream(each) == COMPUTE), default=-1)
            anchor = anchors[op.stream] = max(own, anchors.get(op.stream, -1))
            outside = any(block.stream(each) in outer for each in block.waits[place]) or block.imports[place]
            if not isinstance(op, Collective) or outside or place in awaited or anchor < max(before, 0):
                yield op.stream
        before = max([before, *(place for place in run if block.stream(place) == COMPUTE)])
