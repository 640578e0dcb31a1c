"""Rehearsals: a run replayed alone, once, so that it can be shifted in time wherever it occurs."""

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from simulator.accounting import account
from simulator.addresses import Payload
from simulator.blocks import ReadyBlock, Run
from simulator.engine import Engine
from simulator.quotient import Quotient, RankClass
from simulator.runs import COMPUTE
from simulator.script import Script
from simulator.template import Template, Trailing


def rehearse(
    quotient: Quotient,
    runs: Mapping[int, Run],
    network: str,
    *,
    held: Mapping[int, int],
    lead: float = 0.0,
    interval: float = 0.0,
) -> Engine:
    """A started engine that replays only these runs, one per rank class, all from 0 on.

    `held` are the SMs that others hold of rank classes meanwhile. `lead` is when the host launches their first
    op, `interval` the time between its launches.
    """
    scripts = []
    for index, run in runs.items():
        start = lead - interval * run.ops[0].place
        scripts.append(Script.of(quotient.rank_classes[index], [_alone(run)], interval, start=start))
    engine = Engine(quotient, scripts, network)
    for state in engine.states:
        state.processor.held = held.get(state.rank_class.index, 0)
        run = runs[state.rank_class.index]
        inside = {ready.place for ready in run.ops}
        state.done.update((0, place) for ready in run.ops for place in ready.waits if place not in inside)
    engine.start()
    return engine


def template(engine: Engine, rank_class: RankClass, run: Run) -> Template | None:
    """The template of a rank class's run, from a rehearsal that is over.

    None if the run did not end, if something in it goes on when the compute stream has gone on, or if
    something outside could go on before the run's end.
    """
    state = next(state for state in engine.states if state.rank_class is rank_class)
    records = {record.ready.place: record for record in state.recording.ops}
    if len(records) < len(run.ops):
        return None
    ordered = [records[ready.place] for ready in run.ops]
    awaited = [each.end for each in ordered if each.ready.op.stream == COMPUTE or each.ready.place in run.joined]
    length = max(awaited, default=0.0)
    if any(record.end > length for record in ordered) or any(records[place].end < length for place in run.closing):
        return None
    booked = account(state.script, state.recording, to_end=False)
    serial = all(after.start >= before.end for before, after in itertools.pairwise(ordered))
    return Template(
        starts=np.array([each.start for each in ordered]),
        began=np.array([each.began for each in ordered]),
        ends=np.array([each.end for each in ordered]),
        launches=np.array([float(ready.place - run.ops[0].place) for ready in run.ops]),
        last_launch=float(run.ops[-1].place - run.ops[0].place),
        length=length,
        serial=serial,
        account=booked,
        trailing=tuple(
            Trailing(each.ready, length - each.start, length - each.began, length - each.end)
            for each in ordered
            if each.end > booked.last
        ),
    )


def calls(rank_class: RankClass, run: Run) -> Iterator[tuple[Payload, int]]:
    """What a run moves, and the communicator classes on which it does."""
    for address in dict.fromkeys(ready.address for ready in run.ops if ready.address is not None):
        for part in rank_class.parts.get(address.slot, ()):
            yield address.payload, part.communicator


def _alone(run: Run) -> ReadyBlock:
    """A block that is nothing but the run."""
    return ReadyBlock(run.ops, {COMPUTE: (run,)}, {}, ())
