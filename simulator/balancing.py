"""Layers spread over pipeline stages so that the slowest stage is as fast as it can be."""

import heapq
from collections.abc import Sequence
from dataclasses import replace

import topologies
from simulator.result import Result
from simulator.simulation import simulate
from topologies import Topology
from workloads import TrainingStep
from workloads.plan import ParallelPlan
from workloads.stages import layout_text


def balance(step: TrainingStep, topology: Topology | str) -> TrainingStep:
    """The step with the layout of layers that evens the time of its stages, if that makes it faster; else the step.

    Two steps are simulated to tell what a layer takes from what embedding and head take, a third to see the outcome.
    Assumes that a stage's time grows by the same with each of its layers.

    >>> step = TrainingStep("llama3_8b", plan="pp=4 tp=2", batch=16, sequence=4096)
    >>> print(balance(step, "dgx_h100").plan)
    pp=4,layers=8-9x2-6 tp=2
    """
    cluster = topologies.build(topology) if isinstance(topology, str) else topology
    counts, before = _counts(step), simulate(step, cluster)
    if len(counts) < 2:
        return step
    giver = max(range(len(counts)), key=lambda stage: (counts[stage], stage))
    taker = 0 if giver else len(counts) - 1
    moved = [count + (stage == taker) - (stage == giver) for stage, count in enumerate(counts)]
    times, others = _times(before), _times(simulate(_with(step, moved), cluster))
    layer = ((others[taker] - times[taker]) + (times[giver] - others[giver])) / 2
    fixed = [time - count * layer for time, count in zip(times, counts, strict=True)]
    even = _with(step, spread(sum(counts), fixed, layer))
    return even if simulate(even, cluster).step_time < before.step_time else step


def spread(layers: int, fixed: Sequence[float], each: float) -> list[int]:
    """Layers for stages that take `fixed` times beside `each` for every layer, one by one to what is fastest then.

    >>> spread(8, [1.0, 0.0, 0.0, 2.5], 1.0)
    [2, 3, 3, 0]
    """
    counts = [0] * len(fixed)
    heap = [(time + each, stage) for stage, time in enumerate(fixed)]
    heapq.heapify(heap)
    for _ in range(layers):
        time, stage = heapq.heappop(heap)
        counts[stage] += 1
        heapq.heappush(heap, (time + each, stage))
    return counts


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
