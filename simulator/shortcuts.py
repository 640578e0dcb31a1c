"""Runs replayed as one event: exact while nothing foreign meets them, opened up as soon as something does."""

from collections.abc import Mapping

from simpy.events import Event

from simulator.engine import Engine, NodeState, Underway, Waits
from simulator.progress import Progress
from simulator.quotient import Stretch
from simulator.recording import OpRecord, RunRecord
from simulator.rehearsal import rehearse
from simulator.rendezvous import Call
from simulator.script import RunStep
from simulator.template import Template
from simulator.templates import Templates


class Flight:
    """A run that is being replayed as one since `start`; `event` happens when it lands.

    `host` is when its first op was launched, `late` how long the run waits for the host; `resumed` is there
    once contact has opened it.
    """

    __slots__ = ("event", "host", "late", "links", "position", "resumed", "run", "start", "state", "template")
    event: Event

    def __init__(self, state: NodeState, step: RunStep, found: Template, links: frozenset[int], start: float) -> None:
        self.state, self.template, self.start = state, found, start
        self.position, self.run, self.host, _ = step
        self.late = found.late(self.host - start, state.script.interval)
        self.links = links
        self.resumed: Mapping[int, Underway | None] | None = None


class Flights:
    """Runs as one event each. Contact on a link or on the SMs opens a flight: it goes on op by op from there."""

    def __init__(self, engine: Engine, templates: Templates, network: str) -> None:
        self._engine, self._templates, self._network = engine, templates, network
        self._by_node: dict[int, Flight] = {}
        self._by_link: dict[int, Flight] = {}

    def replay(self, state: NodeState, step: RunStep) -> Waits | None:
        """Replay a run as one, unless something foreign is in its way already."""
        run = step.run
        if not state.processor.idle or any(tail.is_alive for tail in state.tails.values()):
            return None
        links = self._templates.own_links(state.node, run)
        if links is None or self._engine.scene.network.busy(links) or any(link in self._by_link for link in links):
            return None
        found = self._templates.find(state.node, run)
        if found is None:
            return None
        flight = Flight(state, step, found, links, self._engine.environment.now)
        if not found.serial and flight.late:
            return None
        return self._fly(flight)

    def _fly(self, flight: Flight) -> Waits:
        state, environment = flight.state, self._engine.environment
        self._by_node[state.node.index] = flight
        self._by_link.update(dict.fromkeys(flight.links, flight))
        flight.event = environment.timeout(flight.template.length + flight.late)
        yield flight.event
        if flight.resumed is not None:
            yield from self._engine.step_through(state, flight.position, flight.run, flight.resumed)
            return
        self._land(flight)
        record = RunRecord(
            flight.position, flight.run, flight.start, environment.now, flight.host, flight.late, flight.template
        )
        state.recording.compute.append(record)
        for place in flight.run.outward:
            state.finish((flight.position, place))

    def _land(self, flight: Flight) -> None:
        del self._by_node[flight.state.node.index]
        for link in flight.links:
            del self._by_link[link]

    def links(self, stretch: Stretch) -> None:
        """A flow is about to enter links: open the flights that use them."""
        for link in stretch.loads:
            if link in self._by_link:
                self._open(self._by_link[link])

    def node(self, index: int) -> None:
        """A transfer is about to hold a node's SMs: open its flight."""
        if index in self._by_node:
            self._open(self._by_node[index])

    def _open(self, flight: Flight) -> None:
        """Go on op by op: rehearse the run up to now, and take over what was in progress then."""
        self._land(flight)
        state, environment = flight.state, self._engine.environment
        elapsed = environment.now - flight.start
        rehearsal = rehearse(
            self._engine.quotient,
            {state.node.index: flight.run},
            self._network,
            flight.host - flight.start,
            state.script.interval,
        )
        if elapsed > 0:
            rehearsal.environment.run(until=elapsed)
        resumed: dict[int, Underway | None] = {}
        done = rehearsal.states[0].recording
        for records, mine in ((done.compute, state.recording.compute), (done.beside, state.recording.beside)):
            mine += [
                _shift(record, flight.position, flight.start) for record in records if isinstance(record, OpRecord)
            ]
        for record in done.ops:
            resumed[record.ready.place] = None
            if record.ready.awaited:
                state.finish((flight.position, record.ready.place))
        for underway in rehearsal.states[0].underway.values():
            if underway.work is not None and underway.ready.place not in resumed:
                resumed[underway.ready.place] = self._take_over(flight, underway, rehearsal, elapsed)
        flight.resumed = resumed
        waiting, flight.event.callbacks = flight.event.callbacks, []
        opened = environment.timeout(0.0)
        opened.callbacks = waiting

    def _take_over(self, flight: Flight, found: Underway, rehearsal: Engine, elapsed: float) -> Underway:
        state = flight.state
        underway = Underway(flight.position, found.ready, found.start + flight.start)
        state.underway[found.ready.op.stream] = underway
        if isinstance(found.work, Progress):
            underway.work = state.processor.start(found.work.remaining(elapsed))
            return underway
        assert isinstance(found.work, Call)
        underway.work = call = Call(state.node, flight.position, found.ready, found.work.address, underway.start)
        exchange = next(
            each for each in rehearsal.rendezvous.open if any(waiting[0] is found.work for waiting in each.waiting)
        )
        self._engine.rendezvous.resume(call, exchange, elapsed)
        return underway


def _shift(record: OpRecord, position: int, start: float) -> OpRecord:
    """A rehearsal's record, moved to where the run really is."""
    return OpRecord(position, record.ready, record.start + start, record.began + start, record.end + start)


class Actions:
    """Runs as one piece of work on the SMs, whatever meets them: the detail level `actions`.

    Assumes that what a run communicates stays undisturbed, and that SMs held by other collectives slow the
    whole run in proportion. Exact where the run's inner communication meets no foreign traffic and no SMs
    are held.
    """

    def __init__(self, engine: Engine, templates: Templates) -> None:
        self._engine, self._templates = engine, templates

    def replay(self, state: NodeState, step: RunStep) -> Waits | None:
        """Replay a run as one piece of work."""
        if state.tails and any(tail.is_alive for tail in state.tails.values()):
            return None
        found = self._templates.find(state.node, step.run)
        return None if found is None else self._work(state, step, found)

    def _work(self, state: NodeState, step: RunStep, found: Template) -> Waits:
        environment = self._engine.environment
        position, run, host, _ = step
        start = environment.now
        late = found.late(host - start, state.script.interval)
        yield state.processor.start((found.length + late) * state.node.speed).event
        state.recording.compute.append(RunRecord(position, run, start, environment.now, host, late, found))
        for place in run.outward:
            state.finish((position, place))
