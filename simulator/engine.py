"""The replay: one simpy process per stream of every rank class, in order, over fluid SMs and links."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import simpy
from simpy.events import Event, Process

from simulator.blocks import ReadyOp, Run
from simulator.context import ReplayContext
from simulator.fluid import Sharing
from simulator.instant import Instant
from simulator.mailbox import Mailbox, Message
from simulator.network import SharedNetwork, UnsharedNetwork
from simulator.processor import Processor
from simulator.progress import Progress
from simulator.quotient import Quotient, RankClass
from simulator.recording import OpRecord, Recording
from simulator.rendezvous import Call, Rendezvous
from simulator.runs import COMPUTE
from simulator.script import MessageKey, Place, Queued, QueuedRun, Script

Waits = Generator[Event, Any, None]
NETWORKS: dict[str, type[SharedNetwork] | type[UnsharedNetwork]] = {
    "shared": SharedNetwork,
    "unshared": UnsharedNetwork,
}


@dataclass(slots=True, eq=False)
class Underway:
    """The op that a stream of a rank class is at: waiting to start while `work` is None, else in progress."""

    position: int
    ready: ReadyOp
    start: float
    work: Progress | Call | Message | None = None


class ClassState:
    """What a rank class has done so far, and who waits for what."""

    def __init__(self, script: Script, processor: Processor) -> None:
        self.script, self.rank_class, self.processor = script, script.rank_class, processor
        self.recording = Recording()
        self.done: set[Place] = set()
        self.waiters: dict[Place, Event] = {}
        self.tails: dict[str, Process] = {}
        self.underway: dict[str, Underway] = {}

    def finish(self, place: Place) -> None:
        """An op that others wait for is done."""
        self.done.add(place)
        waiter = self.waiters.pop(place, None)
        if waiter is not None:
            waiter.succeed()


class Shortcuts(Protocol):
    """Replays runs as one where it can."""

    def replay(self, state: ClassState, step: QueuedRun) -> Waits | None:
        """What the compute stream does instead of the ops of a step's run; None to go through them one by one."""
        ...


class Engine:
    """One replay of some of a quotient's rank classes, each with its script.

    `ahead` lets the network foresee the end of messages that nothing is in the way of.
    """

    def __init__(self, quotient: Quotient, scripts: Iterable[Script], network: str, *, ahead: bool = False) -> None:
        self.quotient = quotient
        self.environment = environment = simpy.Environment()
        self.shortcuts: Shortcuts | None = None
        self.instant = instant = Instant(environment)
        self.states = [ClassState(script, _processor(script.rank_class, environment, instant)) for script in scripts]
        self.context = ReplayContext(
            environment,
            NETWORKS[network](environment, instant, Sharing.of(quotient), ahead=ahead),
            {state.rank_class.index: state.processor for state in self.states},
            {state.rank_class.index: state.recording for state in self.states},
        )
        self.mailbox = Mailbox(self.context, quotient.communicators)
        self.rendezvous = Rendezvous(self.context, quotient.communicators)

    def start(self) -> list[Process]:
        """Begin the streams of all rank classes."""
        streams = [(state, queue) for state in self.states for queue in state.script.queues.values()]
        return [self.environment.process(self._stream(state, queue)) for state, queue in streams]

    def _stream(self, state: ClassState, queue: Sequence[Queued]) -> Waits:
        if state.script.begins:
            yield self.environment.timeout(state.script.begins)
        for step in queue:
            if isinstance(step, QueuedRun):
                yield from self._replay(state, step) if step.free else self._run(state, step)
            elif step.message and step.free and step.host <= self.environment.now:
                message = self.mailbox.reach(state.rank_class, step.position, step.ready, step.message)
                if message is not None:
                    yield from self._finish(state, Underway(step.position, step.ready, self.environment.now, message))
            else:
                yield from self._op(state, step.position, step.ready, step.message)

    def _run(self, state: ClassState, step: QueuedRun) -> Waits:
        """Wait for what a run needs, then replay it."""
        first = step.run.ops[0]
        yield from self._await(state, step.position, first)
        del state.underway[first.op.stream]
        yield from self._replay(state, step)

    def _replay(self, state: ClassState, step: QueuedRun) -> Waits:
        short = self.shortcuts.replay(state, step) if self.shortcuts else None
        return short if short is not None else self.step_through(state, step.position, step.run, {})

    def step_through(self, state: ClassState, position: int, run: Run, resumed: Mapping[int, Underway | None]) -> Waits:
        """Replay a run op by op; `resumed` holds ops that are in progress, or over if None, already."""
        for stream in run.streams:
            if stream != COMPUTE:
                inner = self._ops(state, position, run.on(stream), resumed, state.tails.get(stream))
                state.tails[stream] = self.environment.process(inner)
        yield from self._ops(state, position, run.on(COMPUTE), resumed)

    def _ops(
        self,
        state: ClassState,
        position: int,
        ops: Iterable[ReadyOp],
        resumed: Mapping[int, Underway | None],
        after: Process | None = None,
    ) -> Waits:
        if after is not None and after.is_alive:
            yield after
        for ready in ops:
            if ready.place not in resumed:
                yield from self._op(state, position, ready)
            elif (underway := resumed[ready.place]) is not None:
                yield from self._finish(state, underway)

    def _op(self, state: ClassState, position: int, ready: ReadyOp, message: MessageKey | None = None) -> Waits:
        """Wait for what the op needs, start it and see it through."""
        underway = yield from self._await(state, position, ready)
        launched = state.script.host(position, ready.place)
        if launched > self.environment.now:
            yield self.environment.timeout(launched - self.environment.now)
        underway.start = self.environment.now
        if ready.address is None:
            if ready.op.stream != COMPUTE and self.context.holding is not None:
                self.context.holding(state.rank_class.index)
            underway.work = state.processor.start(ready.seconds)
        elif message:
            underway.work = self.mailbox.reach(state.rank_class, position, ready, message)
        else:
            underway.work = call = Call(state.rank_class, position, ready, ready.address, underway.start)
            self.rendezvous.arrive(call)
        yield from self._finish(state, underway)

    def _await(self, state: ClassState, position: int, ready: ReadyOp) -> Generator[Event, Any, Underway]:
        """Wait for the ops that an op needs."""
        underway = state.underway[ready.op.stream] = Underway(position, ready, self.environment.now)
        for place in state.script.awaited(position, ready) if ready.waits or ready.imports else ():
            if place not in state.done:
                yield state.waiters.setdefault(place, Event(self.environment))
        return underway

    def _finish(self, state: ClassState, underway: Underway) -> Waits:
        """Wait for the end of an op in progress."""
        work, ready = underway.work, underway.ready
        state.underway[ready.op.stream] = underway
        if isinstance(work, Progress):
            yield work.event
            start = underway.start
            state.recording.add(OpRecord(underway.position, ready, start, start, self.environment.now))
        elif isinstance(work, Message):
            yield self.mailbox.event(work)
            self.mailbox.received(state.rank_class, underway.position, ready, underway.start, work)
        elif work is not None and work.event is not None:
            yield work.event
        del state.underway[ready.op.stream]
        if ready.awaited:
            state.finish((underway.position, ready.place))


def _processor(rank_class: RankClass, environment: simpy.Environment, instant: Instant) -> Processor:
    return Processor(environment, instant, rank_class.speed, rank_class.accelerator.sm_count)
