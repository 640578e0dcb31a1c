"""Runs replayed as one event each: exact while nothing foreign meets them, opened up as soon as something does.

A *flight* is a run of one rank class, or of all that its collectives join if they come to it at one instant.
Each rank class is a *leg* of it, with an event at its end. Contact on a link or on the SMs opens the flight:
all legs go on op by op from where they are. SMs that others hold all along count in, as long as they stay held.

Shifted times differ from replayed ones in the last bits. Where many equal flows share a narrow link, max-min
sharing itself magnifies such differences from round to round: there, steps that differ by 1e-12 somewhere may
end 1 % apart, with or without flights.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from simpy.events import Event

from simulator.blocks import Run
from simulator.engine import ClassState, Engine, Underway, Waits
from simulator.progress import Progress
from simulator.quotient import Stretch
from simulator.recording import OpRecord, RunRecord
from simulator.rehearsal import rehearse
from simulator.rendezvous import Call
from simulator.script import QueuedRun
from simulator.template import Template
from simulator.templates import Crew, Templates


class Leg:
    """One rank class's part of a flight, which lands at `lands`.

    `late` is how long it waits for the host; `resumed` is there once the flight is opened.
    """

    __slots__ = ("delay", "event", "lands", "late", "resumed", "state", "step", "template")
    event: Event

    def __init__(self, start: float, state: ClassState, step: QueuedRun, template: Template) -> None:
        self.state, self.step, self.template = state, step, template
        self.late = template.late(step.host - start, state.script.interval)
        self.delay = template.length + self.late
        self.lands = start + self.delay
        self.resumed: Mapping[int, Underway | None] | None = None


class Flight:
    """A run that is being replayed as one since `start`; `aloft` are those of its legs that are under way.

    `held` are the SMs that others hold of each rank class all along.
    """

    __slots__ = ("aloft", "held", "legs", "links", "start", "step")

    def __init__(
        self, step: QueuedRun, legs: Mapping[int, Leg], links: frozenset[int], held: Mapping[int, int], start: float
    ) -> None:
        self.step, self.legs, self.links, self.held, self.start = step, legs, links, held, start
        self.aloft = set(legs)


class Gathering:
    """Rank classes that have come to a run at this instant; `event` happens at its end."""

    __slots__ = ("event", "states", "step")

    def __init__(self, step: QueuedRun, event: Event) -> None:
        self.step, self.event = step, event
        self.states: list[ClassState] = []


class Flights:
    """All flights of a replay."""

    def __init__(self, engine: Engine, templates: Templates, network: str) -> None:
        self._engine, self._templates, self._network = engine, templates, network
        self._by_class: dict[int, Flight] = {}
        self._by_link: dict[int, Flight] = {}
        self._gatherings: dict[tuple[Crew, int, Run], Gathering] = {}

    def replay(self, state: ClassState, step: QueuedRun) -> Waits | None:
        """Replay a run as one, unless something foreign is in its way already."""
        crew = self._templates.crew(state.rank_class, step.run)
        if len(crew.rank_classes) > 1:
            return self._gather(state, step, crew)
        flight = self._take_off([state], step, crew)
        return None if flight is None else self._fly(flight, state.rank_class.index)

    def _gather(self, state: ClassState, step: QueuedRun, crew: Crew) -> Waits:
        """Wait for the others until the end of this instant, and take off together or not at all."""
        key = crew, step.position, step.run
        gathering = self._gatherings.get(key)
        if gathering is None:
            gathering = self._gatherings[key] = Gathering(step, Event(self._engine.environment))
            self._engine.instant.settle(partial(self._decide, key))
        gathering.states.append(state)
        flight = yield gathering.event
        if flight is None:
            yield from self._engine.step_through(state, step.position, step.run, {})
        else:
            yield from self._fly(flight, state.rank_class.index)

    def _decide(self, key: tuple[Crew, int, Run]) -> None:
        """The instant is over: take off if everybody is there."""
        gathering = self._gatherings.pop(key)
        crew, states = key[0], gathering.states
        complete = len(states) == len(crew.rank_classes)
        gathering.event.succeed(self._take_off(states, gathering.step, crew) if complete else None)

    def _take_off(self, states: Sequence[ClassState], step: QueuedRun, crew: Crew) -> Flight | None:
        """Begin a flight if nobody is busy, the links are free, and waits for the host are simply told."""
        for state in states:
            if state.processor.running or (state.tails and _tailed(state)):
                return None
        if crew.links and not self._free(crew.links):
            return None
        now = self._engine.environment.now
        held = {state.rank_class.index: state.processor.held for state in states}
        sms = tuple(held[index] for index in crew.rank_classes) if any(held.values()) else ()
        legs: dict[int, Leg] = {}
        for state in states:
            template = self._templates.find(state.rank_class, step.run, sms)
            if template is None:
                return None
            leg = legs[state.rank_class.index] = Leg(now, state, step, template)
            if leg.late and not (template.serial and len(states) == 1):
                return None
        for leg in legs.values():
            leg.event = self._engine.environment.timeout(leg.delay)
        flight = Flight(step, legs, crew.links, held, now)
        for index in legs:
            self._by_class[index] = flight
        for link in crew.links:
            self._by_link[link] = flight
        return flight

    def _free(self, links: frozenset[int]) -> bool:
        """Whether nothing is on links, and no other flight uses them."""
        return not self._engine.context.network.busy(links) and self._by_link.keys().isdisjoint(links)

    def _fly(self, flight: Flight, rank_class: int) -> Waits:
        """What a rank class goes through in a flight: to the end of its leg, or op by op from where that was opened."""
        leg = flight.legs[rank_class]
        if leg.resumed is None:
            yield leg.event
        state, step = leg.state, leg.step
        if leg.resumed is not None:
            yield from self._engine.step_through(state, step.position, step.run, leg.resumed)
            return
        self._land(flight, [rank_class])
        end = self._engine.environment.now
        state.recording.compute.append(
            RunRecord(step.position, step.run, flight.start, end, step.host, leg.late, leg.template)
        )
        for place in step.run.outward:
            state.finish((step.position, place))

    def _land(self, flight: Flight, rank_classes: Iterable[int]) -> None:
        for rank_class in rank_classes:
            flight.aloft.remove(rank_class)
            del self._by_class[rank_class]
        if not flight.aloft:
            for link in flight.links:
                del self._by_link[link]

    def entering(self, stretch: Stretch) -> None:
        """A flow is about to enter links: open the flights that use them."""
        for link in stretch.loads:
            if link in self._by_link:
                self._open(self._by_link[link])

    def holding(self, rank_class: int) -> None:
        """Something is about to take of a rank class's SMs, or to give some back: open its flight."""
        if rank_class in self._by_class:
            self._open(self._by_class[rank_class])

    def _open(self, flight: Flight) -> None:
        """Go on op by op: rehearse the run up to now, and take over what was in progress then.

        Legs that land at this very instant have nothing left to take over.
        """
        environment, step = self._engine.environment, flight.step
        legs = {index: flight.legs[index] for index in flight.aloft if flight.legs[index].lands > environment.now}
        self._land(flight, legs)
        elapsed, interval = environment.now - flight.start, flight.legs[min(flight.legs)].state.script.interval
        runs = dict.fromkeys(flight.legs, step.run)
        lead, quotient = step.host - flight.start, self._engine.quotient
        rehearsal = rehearse(quotient, runs, self._network, held=flight.held, lead=lead, interval=interval)
        if elapsed > 0:
            rehearsal.environment.run(until=elapsed)
        calls: dict[Call, Call] = {}
        for state in rehearsal.states:
            if state.rank_class.index in legs:
                leg = legs[state.rank_class.index]
                leg.resumed = self._resume(flight, leg, state, elapsed, calls)
                waiting, leg.event.callbacks = leg.event.callbacks, []
                environment.timeout(0.0).callbacks = waiting
        for exchange in rehearsal.rendezvous.open:
            mine = [calls[call] for call, _, _ in exchange.waiting if call in calls]
            if mine:
                self._engine.rendezvous.resume(mine, exchange, elapsed)

    def _resume(
        self, flight: Flight, leg: Leg, rehearsed: ClassState, elapsed: float, calls: dict[Call, Call]
    ) -> dict[int, Underway | None]:
        """Take down what a leg has done, and take over its kernels; its calls are noted, to be taken over together."""
        state, position = leg.state, leg.step.position
        done = rehearsed.recording
        for records, mine in ((done.compute, state.recording.compute), (done.beside, state.recording.beside)):
            mine += [_shift(record, position, flight.start) for record in records if isinstance(record, OpRecord)]
        resumed: dict[int, Underway | None] = {}
        for record in done.ops:
            resumed[record.ready.place] = None
            if record.ready.awaited:
                state.finish((position, record.ready.place))
        for found in rehearsed.underway.values():
            if found.work is None or found.ready.place in resumed:
                continue
            underway = Underway(position, found.ready, found.start + flight.start)
            resumed[found.ready.place] = state.underway[found.ready.op.stream] = underway
            if isinstance(found.work, Progress):
                underway.work = state.processor.start(found.work.remaining(elapsed))
            elif isinstance(found.work, Call):
                call = Call(state.rank_class, position, found.ready, found.work.address, underway.start)
                underway.work = calls[found.work] = call
        return resumed


def _tailed(state: ClassState) -> bool:
    """Whether something of an earlier run still goes on beside the compute stream."""
    return any(tail.is_alive for tail in state.tails.values())


def _shift(record: OpRecord, position: int, start: float) -> OpRecord:
    """A rehearsal's record, moved to where the run really is."""
    return OpRecord(position, record.ready, record.start + start, record.began + start, record.end + start)
