"""The detail level `actions`: every run of a schedule action is one piece of work."""

from simulator.blocks import Run
from simulator.engine import ClassState, Engine, Waits
from simulator.recording import RunRecord
from simulator.script import QueuedRun
from simulator.template import Template
from simulator.templates import Crew, Templates


class Actions:
    """Runs as one piece of work on the SMs, whatever meets them: the detail level `actions`.

    Assumes that what a run communicates stays undisturbed, and that SMs held by other collectives slow the
    whole run in proportion. Exact where the run's inner communication meets no foreign traffic and no SMs
    are held. Where it does share links the step comes out too short, by at most the time that the two kinds of
    traffic would need there one after the other; where SMs are held it comes out too long, since communication
    inside the run is slowed like its kernels.
    """

    def __init__(self, engine: Engine, templates: Templates) -> None:
        self._engine, self._templates = engine, templates
        self._whole: dict[tuple[Crew, int, Run], bool] = {}

    def replay(self, state: ClassState, step: QueuedRun) -> Waits | None:
        """Replay a run as one piece of work, or op by op; whoever comes first decides for all that it joins."""
        crew = self._templates.crew(state.rank_class, step.run)
        key = crew, step.position, step.run
        whole = self._whole.get(key)
        if whole is None:
            whole = not (state.tails and any(tail.is_alive for tail in state.tails.values()))
            if len(crew.rank_classes) > 1:
                self._whole[key] = whole
        found = self._templates.find(state.rank_class, step.run) if whole else None
        return None if found is None else self._work(state, step, found)

    def _work(self, state: ClassState, step: QueuedRun, found: Template) -> Waits:
        environment = self._engine.environment
        position, run, host, _ = step
        start = environment.now
        late = found.late(host - start, state.script.interval)
        yield state.processor.start((found.length + late) * state.rank_class.speed).event
        state.recording.compute.append(RunRecord(position, run, start, environment.now, host, late, found))
        for place in run.outward:
            state.finish((position, place))
