"""Layers spread over pipeline stages so that the slowest rank is as fast as it can be."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import topologies
from simulator.result import Result
from simulator.simulation import simulate
from topologies import Topology
from workloads import TrainingStep
from workloads.plan import ParallelPlan
from workloads.stages import layout_text

MOVES = 6
"""Moves of a layer that are tried in a round, the most promising ones."""
ROUNDS = 8


def balance(step: TrainingStep, topology: Topology | str) -> TrainingStep:
    """The step with the layout of layers that evens the time of its stages, if that makes it faster; else the step.

    Two steps are simulated to tell what a layer takes from what embedding and head take; from an even split of the time
    on, layers are moved one by one as long as one of the most promising moves makes the simulated step faster. Assumes
    that a stage's time grows by the same with each of its layers.

    >>> step = TrainingStep("llama3_8b", plan="pp=4 tp=2", batch=16, sequence=4096)
    >>> print(balance(step, "dgx_h100").plan)
    pp=4,layers=9-8x2-7 tp=2
    """
    cluster = topologies.build(topology) if isinstance(topology, str) else topology
    counts = _counts(step)
    if len(counts) < 2:
        return step
    load = _measured(step, cluster, counts)
    best, least = counts, _seconds(step, cluster)
    tried = {tuple(counts)}
    evenly = [load.spread(sum(counts), by_rank=by_rank) for by_rank in (True, False)]
    candidates = [*evenly, *list(load.moves(counts))[:MOVES]]
    for _ in range(ROUNDS):
        new = [each for each in candidates if tuple(each) not in tried]
        tried.update(map(tuple, new))
        times = [(_seconds(_with(step, each), cluster), each) for each in new]
        if not times or min(times)[0] >= least:
            break
        least, best = min(times)
        candidates = list(load.moves(best))[:MOVES]
    return step if best == counts else _with(step, best)


@dataclass(frozen=True, slots=True)
class Load:
    """What stages, one for each set of weights, take: `fixed` times beside `each` for every layer.

    `ranks` are the sets of weights of each rank.
    """

    fixed: Sequence[float]
    each: float
    ranks: Sequence[Sequence[int]]

    def slowest(self, counts: Sequence[int]) -> tuple[float, float]:
        """The time of the slowest rank, and of the slowest stage."""
        times = [fixed + count * self.each for fixed, count in zip(self.fixed, counts, strict=True)]
        return max(sum(times[weight] for weight in rank) for rank in self.ranks), max(times)

    def spread(self, layers: int, *, by_rank: bool) -> list[int]:
        """So many layers, one by one to where the stage is fastest with it, or the rank and then the stage.

        >>> Load([1.0, 0.0, 0.0, 2.5], 1.0, [[0], [1], [2], [3]]).spread(8, by_rank=False)
        [2, 3, 3, 0]
        """
        counts = [0] * len(self.fixed)
        for _ in range(layers):
            times = [self._with_another(counts, stage) for stage in range(len(counts))]
            keys = times if by_rank else [time[::-1] for time in times]
            counts[keys.index(min(keys))] += 1
        return counts

    def moves(self, counts: Sequence[int]) -> Iterator[list[int]]:
        """Layouts with one layer moved, the one with the fastest slowest rank first."""
        found = []
        for giver, many in enumerate(counts):
            for taker in range(len(counts)) if many else ():
                if taker != giver:
                    moved = list(counts)
                    moved[giver], moved[taker] = many - 1, counts[taker] + 1
                    found.append((self.slowest(moved), moved))
        yield from (moved for _, moved in sorted(found))

    def _with_another(self, counts: Sequence[int], stage: int) -> tuple[float, float]:
        """The times of the slowest rank of a stage, and of the stage, with one layer more."""
        times = [fixed + count * self.each for fixed, count in zip(self.fixed, counts, strict=True)]
        return max(sum(times[each] for each in rank) for rank in self.ranks if stage in rank), times[stage]


def _measured(step: TrainingStep, cluster: Topology, counts: list[int]) -> Load:
    """What stages take, told from the step and another one with one layer moved between its ends."""
    giver = max(range(len(counts)), key=lambda stage: (counts[stage], stage))
    taker = 0 if giver else len(counts) - 1
    moved = [count + (stage == taker) - (stage == giver) for stage, count in enumerate(counts)]
    times, others = (_times(simulate(each, cluster)) for each in (step, _with(step, moved)))
    layer = ((others[taker] - times[taker]) + (times[giver] - others[giver])) / 2
    fixed = [time - count * layer for time, count in zip(times, counts, strict=True)]
    places = zip(step.schedule.placement, step.schedule.weights, strict=True)
    ranks: list[list[int]] = [[] for _ in range(step.schedule.ranks)]
    for rank, weight in places:
        ranks[rank].append(weight)
    return Load(fixed, layer, ranks)


def _seconds(step: TrainingStep, cluster: Topology) -> float:
    return simulate(step, cluster, detail="actions").step_time


def _counts(step: TrainingStep) -> list[int]:
    """Layers of each set of weights."""
    return [count for _, count in sorted(dict(zip(step.schedule.weights, step.layer_counts, strict=True)).items())]


def _with(step: TrainingStep, counts: Sequence[int]) -> TrainingStep:
    """The step with these layers on its stages."""
    pipeline = replace(
        step.plan.pipeline, layers=layout_text(counts), account_for_embedding=False, account_for_loss=False
    )
    strategies = tuple(pipeline if each.axis == "pp" else each for each in step.plan.strategies)
    return step.replace(plan=ParallelPlan(strategies))


def _times(result: Result) -> list[float]:
    """Seconds of all actions of one microbatch on the stage of each set of weights, the median over microbatches."""
    actions = result.to_frame("actions")
    seconds = actions.assign(seconds=actions["end_seconds"] - actions["start_seconds"])
    schedule = result.step.schedule if isinstance(result.step, TrainingStep) else None
    assert schedule is not None
    each = seconds[seconds["action"].isin(list("FBIW"))].groupby(["stage", "microbatch"])["seconds"].sum()
    stages = each.groupby("stage").median()
    found = dict(zip((schedule.weights[stage] for stage in stages.index), stages, strict=True))
    return [found[weight] for weight in sorted(found)]
