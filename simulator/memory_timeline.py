"""Memory over the simulated step: how many bytes each rank holds from when on."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from simulator.timeline import pieces
from workloads.footprint import Flights, Flying, Footprint, Moment, Order, by_row, running

if TYPE_CHECKING:
    from simulator.result import Result

Times = Mapping[int, tuple[float, float]]
"""Start and end, in seconds, of the entries of an order by their position."""
Parts = tuple[tuple[int, str, int], ...]
"""(stage, kind, part) of an action, or of the two of a pair."""
NOTHING: Parts = ()
"""While no action runs."""


class Change(NamedTuple):
    """From `time` on, so many microbatches are in flight and so many bytes are in rows."""

    time: float
    flying: int
    rows: Mapping[str, float]


def frame(result: "Result") -> pd.DataFrame:
    """One row per rank class and change of its memory: the bytes that its ranks hold from then on, by row and in all.

    A step function: the values hold until the next row of the same rank, and the last ones to the end of the step. A
    microbatch in flight counts once on each of the rank's stages.

    >>> from simulator import simulate
    >>> from workloads import TrainingStep
    >>> result = simulate(TrainingStep("llama3_8b,layers=4", "pp=2 tp=4", batch=4, sequence=2048), "dgx_h100")
    >>> frame(result).groupby("rank")["microbatches_in_flight"].max().tolist()
    [2, 1]
    """
    columns: dict[str, list[float]] = {name: [] for name in ("rank", "ranks_in_class", "time_seconds")}
    columns["microbatches_in_flight"] = []
    program, timeline = result.program, result.timeline
    lines: list[Mapping[str, float]] = []
    for place, script, recording in zip(result.memory_places, timeline.scripts, timeline.recordings, strict=True):
        if place not in program.memory:
            continue
        rank_class = script.rank_class
        times = {position: (start, end) for position, start, end in pieces(script, recording)}
        for change in changes(program.memory[place], rank_class.order, times):
            facts = (rank_class.rank, rank_class.ranks, change.time, change.flying)
            for column, fact in zip(columns.values(), facts, strict=True):
                column.append(fact)
            lines.append(change.rows)
    found = pd.DataFrame(lines).add_suffix("_bytes").fillna(0.0)
    total = [sum(line.values()) for line in lines]
    return pd.concat([pd.DataFrame(columns), found], axis=1).assign(total_bytes=pd.Series(total, dtype=float))


def changes(footprint: Footprint, order: Order, times: Times) -> Iterator[Change]:
    """The changes of a rank's memory, in order of time; an action without a kernel takes no time.

    Assumes that the parts of an action, one a layer, take equally long from its first kernel to its last.

    >>> from workloads.footprint import Item
    >>> held, parts = {0: {Item("activations"): 3.0}}, [{Item("logits"): 1.0}, {Item("activations"): -2.0}]
    >>> footprint = Footprint({Item("parameters"): 10.0}, held, {(0, "B"): parts})
    >>> order = (((0, "F", "only"), 0), ((0, "B", "only"), 0))
    >>> for change in changes(footprint, order, {0: (2.0, 3.0), 1: (3.0, 5.0)}):
    ...     print(change.time, change.flying, change.rows)
    0.0 0 {'parameters': 10.0}
    2.0 1 {'parameters': 10.0, 'activations': 3.0}
    3.0 1 {'parameters': 10.0, 'activations': 3.0, 'logits': 1.0}
    4.0 1 {'parameters': 10.0, 'activations': 1.0}
    5.0 0 {'parameters': 10.0}
    """

    @cache
    def at(flying: Flying, parts: Parts) -> Mapping[str, float]:
        return by_row(footprint.items(Moment(flying, parts)))

    before: Change | None = None
    many = {action: len(items) for action, items in footprint.working.items()}
    for time, flying, parts in _moments(order, times, many):
        change = Change(time, sum(count for _, count, _ in flying), at(flying, parts))
        if before is None or change[1:] != before[1:]:
            yield change
        before = change


def _moments(order: Order, times: Times, many: Mapping[tuple[int, str], int]) -> Iterator[tuple[float, Flying, Parts]]:
    """(time, microbatches in flight, parts): where a part of an action starts, and where none follows one at once."""
    flights, now = Flights(), 0.0
    for position, entry in enumerate(order):
        actions = running(entry)
        if not actions:
            continue
        start, end = times.get(position, (now, now))
        if start > now:
            yield now, flights.now(), NOTHING
        flights.start(actions)
        count = max(many.get(action, 1) for action in actions)
        for number in range(count):
            parts = tuple((*action, number * many.get(action, 1) // count) for action in actions)
            yield start + (end - start) * number / count, flights.now(), parts
        flights.end(actions)
        now = end
    yield now, flights.now(), NOTHING
