"""What all ranks did when: records of every rank class, expanded to columns on demand."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from simulator.account import Account
from simulator.accounting import ACTIONS, account, axis_of
from simulator.blocks import ReadyOp
from simulator.demand import Floats
from simulator.quotient import Quotient
from simulator.recording import Recording, RunRecord
from simulator.script import Script
from workloads.ops import P2P, Collective, HostCopy, Op
from workloads.program import Replay

WORKS: dict[type[Op], str] = {Collective: "collective", P2P: "p2p", HostCopy: "host_copy"}
"""What spans call ops that move bytes."""
Columns = dict[str, "np.ndarray[Any, Any] | list[Any]"]


@dataclass(frozen=True, eq=False)
class Timeline:
    """The recordings of a quotient's rank classes, in the order of its rank classes."""

    quotient: Quotient
    scripts: tuple[Script, ...]
    recordings: tuple[Recording, ...]

    @cached_property
    def accounts(self) -> list[Account]:
        """Where each rank class's time went."""
        return [account(script, recording) for script, recording in zip(self.scripts, self.recordings, strict=True)]

    @cached_property
    def end(self) -> float:
        """The end of the last op, seconds."""
        return max(recording.end for recording in self.recordings)

    @property
    def phase(self) -> tuple[float, float]:
        """The pipeline phase: from the first F to the end of the last B or W, over all rank classes."""
        begins = min(account.begins for account in self.accounts)
        return min(begins, self.end), max(account.ends for account in self.accounts)

    @property
    def ops_replayed(self) -> int:
        """Op instances of all rank classes."""
        return sum(len(block.ops) for script in self.scripts for block in script.blocks)

    @cached_property
    def link_bytes(self) -> Floats:
        """Bytes that cross the representative of each link class in the step."""
        carried = np.zeros(len(self.quotient.capacities))
        for communicator in self.quotient.communicators:
            index, slot, _ = min(communicator.senders or communicator.members)
            calls = Counter(
                op.address.payload
                for block in self.scripts[index].blocks
                for op in block.ops
                if op.address and op.address.slot == slot
            )
            for payload, count in calls.items():
                for stretch in communicator.transfers[payload].stretches:
                    for link, weights in stretch.loads.items():
                        carried[link] += count * stretch.work * sum(weight * many for weight, many in weights)
        return carried

    def spans(self) -> Columns:
        """One row per op of each rank class: see `Result.to_frame`."""
        columns: dict[str, list[Any]] = {}
        for script, recording in zip(self.scripts, self.recordings, strict=True):
            for part in self._spans(script, recording):
                for name, values in part.items():
                    columns.setdefault(name, []).append(values)
        return {name: np.concatenate(values) for name, values in columns.items()}

    def actions(self) -> Columns:
        """One row per action of each rank class, from its first kernel to its last; other kernels one by one.

        Both actions of an overlapped pair last as long as the pair.
        """
        rows: list[tuple[int, int, int, str, int, float, float, bool]] = []
        for script, recording in zip(self.scripts, self.recordings, strict=True):
            rank_class = script.rank_class
            for position, start, end in pieces(script, recording):
                parts = rank_class.order[position].parts
                for block, microbatch, _ in parts:
                    who = rank_class.rank, rank_class.ranks, block.stage, block.kind, microbatch
                    rows.append((*who, start, end, len(parts) > 1))
        names = (
            "rank",
            "ranks_in_class",
            "stage",
            "action",
            "microbatch",
            "start_seconds",
            "end_seconds",
            "overlapped",
        )
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        return dict(zip(names, map(list, columns), strict=True))

    def _spans(self, script: Script, recording: Recording) -> Iterator[Columns]:
        """Columns of a rank class, its single ops first, then its runs."""
        ops = list(recording.ops)
        if ops:
            times = [np.array(each) for each in zip(*((op.start, op.began, op.end) for op in ops), strict=True)]
            facts = _Facts.of([op.ready for op in ops], self.quotient, script)
            yield self._rows(script, [op.position for op in ops], facts, times, [op.message for op in ops])
        cache: dict[int, _Facts] = {}
        for run in recording.compute:
            if isinstance(run, RunRecord):
                if id(run.run) not in cache:
                    cache[id(run.run)] = _Facts.of(run.run.ops, self.quotient, script)
                count = len(run.run.ops)
                yield self._rows(script, [run.position] * count, cache[id(run.run)], shifted(run, script), [-1] * count)

    def _rows(
        self, script: Script, positions: list[int], facts: "_Facts", times: list[Floats], message: list[int]
    ) -> Columns:
        rank_class = script.rank_class
        names = facts.columns["name"]
        places = [self._place(rank_class.order[at], name) for at, name in zip(positions, names, strict=True)]
        return {
            "rank": np.full(len(positions), rank_class.rank),
            "ranks_in_class": np.full(len(positions), rank_class.ranks),
            **facts.columns,
            "stage": np.array([place.block.stage for place in places]),
            "action": np.array([place.block.kind for place in places], object),
            "microbatch": np.array([place.microbatch for place in places]),
            "start_seconds": times[0],
            "began_seconds": times[1],
            "end_seconds": times[2],
            "message": np.array(message),
        }

    def _place(self, replay: Replay, name: str) -> Replay:
        """The part of a pair that an op belongs to."""
        beside = replay.block.beside is not None and name in self.quotient.program.blocks[replay.block].beside
        return replay.parts[beside]


def pieces(script: Script, recording: Recording) -> list[tuple[int, float, float]]:
    """(position, start, end) of a rank class's kernels in order, those of one action in one piece."""
    merged: list[tuple[int, float, float]] = []
    for record in recording.compute:
        if isinstance(record, RunRecord) or record.ready.address is None:
            start = record.start
            action = script.rank_class.order[record.position].block.kind in ACTIONS
            if action and merged and merged[-1][0] == record.position:
                start = merged.pop()[1]
            merged.append((record.position, start, record.end))
    return merged


def shifted(record: RunRecord, script: Script) -> list[Floats]:
    """Starts, transfer starts and ends of the ops of a run that was replayed as one."""
    template = record.template
    late = template.delays(record.host - record.start, script.interval)
    stretch = (record.end - record.start - late[-1]) / template.length if template.length else 1.0
    return [record.start + late + stretch * times for times in (template.starts, template.began, template.ends)]


@dataclass(frozen=True, slots=True, eq=False)
class _Facts:
    """Columns that depend on the ops alone."""

    columns: Columns = field(default_factory=dict)

    @classmethod
    def of(cls, ops: "list[ReadyOp] | tuple[ReadyOp, ...]", quotient: Quotient, script: Script) -> "_Facts":
        rows = [_fact(ready, quotient, script) for ready in ops]
        texts = ("stream", "name", "work", "kind", "axis", "algorithm")
        columns = dict(zip((*texts, "bytes", "recompute"), zip(*rows, strict=True), strict=True))
        types = {"bytes": float, "recompute": bool}
        return cls({name: np.array(values, types.get(name, object)) for name, values in columns.items()})


def _fact(ready: ReadyOp, quotient: Quotient, script: Script) -> tuple[str, str, str, str, str, str, float, bool]:
    op = ready.op
    work = next((name for kind, name in WORKS.items() if isinstance(op, kind)), "compute")
    algorithm, size = "", 0.0
    if ready.address is not None:
        size = ready.address.payload.bytes
        for part in script.rank_class.parts.get(ready.address.slot, ()):
            algorithm = quotient.communicators[part.communicator].transfers[ready.address.payload].algorithm
    return op.stream, op.name, work, kind_of(op), axis_of(op), algorithm, size, getattr(op, "recompute", False)


def kind_of(op: Op) -> str:
    """The op's kind: gemm, all_reduce, send and so on."""
    return str(getattr(op, "kind", ""))


def per_rank(timeline: Timeline) -> Mapping[str, list[float]]:
    """Seconds of each rank class by what they went into, one entry per rank class."""
    begins, ends = timeline.phase
    axes = sorted({axis for account in timeline.accounts for axis in account.exposed})
    split = [account.split(begins, ends, timeline.end) for account in timeline.accounts]
    return {
        "compute_seconds": [account.compute for account in timeline.accounts],
        "bubble_seconds": [bubble for bubble, _ in split],
        **{
            f"exposed_{axis}_seconds": [account.exposed.get(axis, 0.0) for account in timeline.accounts]
            for axis in axes
        },
        "launch_seconds": [account.launch for account in timeline.accounts],
        "idle_seconds": [idle for _, idle in split],
    }


__all__ = ["ACTIONS", "Timeline", "kind_of", "per_rank", "pieces", "shifted"]
