"""Where a rank's time went: compute, bubble, exposed communication, launches, idle; they add up to the step.

Assumes that a rank computes whenever its compute stream runs a kernel, however few SMs the kernel gets.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from simulator.account import Account
from simulator.addresses import HOST
from simulator.recording import OpRecord, Recording, RunRecord
from simulator.runs import COMPUTE
from simulator.script import Place, Script
from simulator.template import Template
from workloads.ops import MARK, P2P, Collective, HostCopy, Op

ACTIONS = ("F", "B", "I", "W")
"""Kinds of blocks that make up the pipeline phase."""


def axes_of(op: Op) -> tuple[str, ...]:
    """The axes that an op communicates along, host for copies to and from there; none for compute."""
    if isinstance(op, HostCopy):
        return (HOST,)
    if isinstance(op, Collective):
        return op.axes
    return (op.axis,) if isinstance(op, P2P) else ()


def axis_of(op: Op) -> str:
    """The axis, or product of axes, that an op communicates along, as a label; empty for compute."""
    return "×".join(axes_of(op))


def account(script: Script, recording: Recording, *, to_end: bool = True) -> Account:
    """Go through what a rank's compute stream did, explaining every gap by what it waited for.

    A rank that has nothing left to compute still waits for what it communicates; without `to_end` that is left open.
    """
    return _Accountant(script, recording).close(to_end=to_end)


@dataclass(slots=True)
class _Runs:
    """Occurrences of one template in a rank's step: how many, their seconds, and those spent late for the host."""

    count: int = 0
    seconds: float = 0.0
    late: float = 0.0


class _Accountant:
    """One pass over the records of a rank."""

    def __init__(self, script: Script, recording: Recording) -> None:
        self._script, self._recording = script, recording
        self._account = Account()
        self._found: dict[Place, OpRecord] = {}
        self._before: dict[Place, OpRecord] = {}
        self._runs: dict[Template, _Runs] = {}
        self._ends: list[OpRecord] = []
        self._indexed = False
        self._sent: list[OpRecord] | None = None
        self._is_action = [replay.block.kind in ACTIONS for replay in script.rank_class.order]

    def close(self, *, to_end: bool) -> Account:
        """The rank's account, up to the end of its last op or of the last one on the compute stream."""
        account, cursor = self._account, 0.0
        for record in self._recording.compute:
            if record.start > cursor:
                self._gap(cursor, record)
            cursor = record.end
            if isinstance(record, RunRecord):
                self._tally(record)
                cursor -= record.template.tail
            elif record.ready.address is None:
                account.compute += record.end - record.start
            else:
                self._transfer(record, record.start, record.end)
                continue
            if self._is_action[record.position] and not _is_mark(record):
                account.begins = min(account.begins, record.start)
                account.ends = cursor
        self._close_runs()
        last = max([*self._recording.beside, *self._ends], key=lambda record: record.end, default=None)
        if to_end and last is not None and last.end > cursor:
            self._explain(last, cursor, last.end)
            cursor = last.end
        account.last = cursor
        return account

    def _tally(self, record: RunRecord) -> None:
        """Note a run that was replayed as one; its template's account is booked once for all its occurrences."""
        runs = self._runs.setdefault(record.template, _Runs())
        runs.count += 1
        runs.seconds += record.end - record.start
        runs.late += record.late
        self._ends = [
            OpRecord(record.position, ready, record.end - start, record.end - began, record.end - end)
            for ready, start, began, end in record.template.trailing
        ]
        self._index(self._ends)

    def _close_runs(self) -> None:
        """Book every template's account as often as it occurred, and what its kernels took longer."""
        book = self._account
        for template, runs in self._runs.items():
            account, count = template.account, runs.count
            book.launch += count * account.launch + runs.late
            book.idle += count * (account.idle + sum(high - low for low, high in account.waits))
            for axis, exposed in account.exposed.items():
                book.exposed[axis] += count * exposed
            book.compute += count * account.compute + (runs.seconds - runs.late - count * template.length)

    def _gap(self, low: float, record: OpRecord | RunRecord) -> None:
        """The compute stream stood still before a record: first for messages to leave, then for the record itself."""
        if self._sent is None:
            self._sent = sorted(self._recording.sent, key=lambda record: record.start, reverse=True)
        while self._sent and self._sent[-1].start <= record.start:
            sent = self._sent.pop()
            if sent.start > low and sent.ready.op.stream == COMPUTE:
                self._wait(low, sent)
                low = sent.start
        self._wait(low, record)

    def _wait(self, low: float, record: OpRecord | RunRecord) -> None:
        """What a record waited for since `low`: ops on other streams first, then the host."""
        ready = record.run.ops[0] if isinstance(record, RunRecord) else record.ready
        found = self._latest(self._script.awaited(record.position, ready))
        until = low if found is None else min(max(low, found.end), record.start)
        if found is not None:
            self._explain(found, low, until)
        self._account.launch += record.start - until

    def _explain(self, record: OpRecord, low: float, high: float) -> None:
        """Book a wait for an op from `low` to `high`: its transfer, its peers, then whatever it waited for itself."""
        while high > low:
            self._transfer(record, max(low, record.start), high)
            high = min(high, record.start)
            if high <= low:
                return
            place = record.position, record.ready.place
            found = self._latest([*self._script.awaited(record.position, record.ready), place], before=place)
            until = low if found is None else min(max(low, found.end), high)
            self._account.launch += high - until
            if found is None:
                return
            record, high = found, until

    def _transfer(self, record: OpRecord, low: float, high: float) -> None:
        """Book a stretch of waiting in which an op was launched: exposed while it runs, before that for others."""
        if high <= low:
            return
        if record.ready.address is None:
            self._account.idle += high - low
            return
        began = min(max(low, record.began), high)
        self._account.exposed[axis_of(record.ready.op)] += high - began
        if began > low:
            if "pp" in axes_of(record.ready.op):
                self._account.waits.append((low, began))
            else:
                self._account.idle += began - low

    def _latest(self, places: Iterable[Place], before: Place | None = None) -> OpRecord | None:
        """The last to end of some ops, and of the op that preceded `before` in its stream."""
        if not self._indexed:
            self._indexed = True
            self._index(self._recording.ops)
        found = [self._found[place] for place in places if place != before and place in self._found]
        if before is not None and before in self._before:
            found.append(self._before[before])
        return max(found, key=lambda record: record.end, default=None)

    def _index(self, records: Iterable[OpRecord]) -> None:
        latest: dict[str, OpRecord] = {}
        for record in records:
            place = record.position, record.ready.place
            self._found[place] = record
            stream = record.ready.op.stream
            if stream != COMPUTE:
                if stream in latest:
                    self._before[place] = latest[stream]
                latest[stream] = record


def _is_mark(record: OpRecord | RunRecord) -> bool:
    """Whether nothing was computed: a mark of a place in the stream."""
    ops = record.run.ops if isinstance(record, RunRecord) else (record.ready,)
    return all(getattr(ready.op, "kind", "") == MARK for ready in ops)
