"""Zero-bubble schedules by search: the smallest bubble under a limit of memory, given times of F, I, W and hops.

Source: Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 3.1, whose ZB-1p and ZB-2p are `memory=1` and
`memory=2`. The search is not theirs: ZB-H1, ZB-H2 and orders with as many forwards first as the times ask for
are compacted forwards and backwards in time. First the longest span of a rank is made as short as can be found, then
the makespan, then the most that is in flight until W. So `memory=1` is never worse than ZB-H1, without hops
and for W <= F a bubble of (p-1)(F + I - W) by span, and `memory=2` never worse than ZB-H2, (p-1)(F + I - 2W).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product, zip_longest

from workloads.schedule import Schedule
from workloads.schedules import zb_h1, zb_h2
from workloads.schedules._compact import Score, Search
from workloads.schedules._orders import check_counts, few_microbatches, looped
from workloads.schedules._timing import Figures, Limits, Orders, Pipeline, check_number, check_times

ROUNDINGS = (0.0, 0.25, 0.5, 0.75, 1.0)
WORK = 600_000
ENOUGH = 4


def build(
    stages: int,
    microbatches: int,
    *,
    memory: float = 1.0,
    forward: float = 1.0,
    backward_input: float = 1.0,
    backward_weight: float = 1.0,
    hop: float = 0.0,
) -> Schedule:
    """No rank holds more than `memory` times as many microbatches as there are ranks.

    Assumes that I lets go of half of what F keeps and W of the other half, so that with `memory=2` more microbatches
    than 2p may be between their F and their W.

    >>> print(build(2, 3))
    zb_auto: ranks=2 stages=2 microbatches=3
    rank 0  0F0 0F1  .  0I0 0W0 0F2 0I1 0W1 0I2 0W2
    rank 1   .  1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2
    """
    check_counts(stages=stages, microbatches=microbatches)
    check_times(forward=forward, backward_input=backward_input, backward_weight=backward_weight, hop=hop)
    check_number(memory=memory)
    if not memory >= 1:
        raise ValueError(
            f"memory={memory:g} times {stages} ranks; the first of them needs room for {stages} microbatches: memory=1"
        )
    times = {"F": forward, "I": backward_input, "W": backward_weight}
    pipeline = Pipeline(range(stages), microbatches, times, hop)
    orders = _leanest(pipeline, min(memory * stages, microbatches))
    return looped("zb_auto", pipeline.actions(orders), warnings=few_microbatches(stages, microbatches))


def _leanest(pipeline: Pipeline, most: float) -> Orders:
    """The best order found, and of the same bubble the one that holds the fewest microbatches until W."""
    limits = Limits(mean=most)
    starts = [*_longer(pipeline, limits), *_starts(pipeline, limits)]
    score, orders = Search(pipeline, limits, _judge, WORK).best_of(starts)
    low, high = int(most), int(score[2])
    while low < high:
        limits = Limits(mean=most, until_weight=(low + high) // 2)
        search = Search(pipeline, limits, _judge, WORK // 5, goal=score[:2])
        found = search.best_of([_with_weights(pipeline, limits, orders), *_starts(pipeline, limits)])
        if found[0][:2] <= score[:2]:
            score, orders = found
            high = int(score[2])
        else:
            low = (low + high) // 2 + 1
    return orders


def _longer(pipeline: Pipeline, limits: Limits) -> Iterator[Orders]:
    """For many microbatches, the best order found for fewer, going on as it does before its last microbatches."""
    fewer = ENOUGH * pipeline.ranks
    if pipeline.microbatches <= fewer:
        return
    short = Pipeline(pipeline.placement, fewer, pipeline.times, pipeline.hop)
    _, orders = Search(short, limits, _judge, WORK).best_of(_starts(short, limits))
    longer = [_stretched(short, order, pipeline, rank) for rank, order in enumerate(orders)]
    if pipeline.finishes(longer) and limits.keep(pipeline.figures(longer)):
        yield longer


def _stretched(short: Pipeline, order: list[int], pipeline: Pipeline, rank: int) -> list[int]:
    """A rank's order with more rounds of I, W and F after one of the last forwards."""
    more = pipeline.microbatches - short.microbatches
    counts = dict.fromkeys("IWF", 0)
    new: list[int] = []
    added = 0
    for action in order:
        _, kind, microbatch, _ = short.action(action)
        new.append(pipeline.number(rank, kind, microbatch + added))
        counts[kind] += 1
        if kind == "F" and microbatch == short.microbatches - 1 - short.ranks // 2:
            rounds = product(range(more), counts)
            new += [pipeline.number(rank, kind, counts[kind] + number) for number, kind in rounds]
            added = more
    return new


def _judge(figures: Figures) -> Score:
    return figures.span, figures.makespan, figures.until_weight, figures.until_input


def _starts(pipeline: Pipeline, limits: Limits) -> list[Orders]:
    """ZB-H1 and ZB-H2 as far as they keep the limits, and orders that fill the wait for the first I with forwards."""
    fixed = [build(pipeline.stages, pipeline.microbatches) for build in (_zb_h1, zb_h2.build)]
    starts = [pipeline.numbers(schedule.orders.values()) for schedule in fixed]
    starts = [orders for orders in starts if limits.keep(pipeline.figures(orders))]
    times, most = pipeline.times, int(min(limits.mean, limits.until_weight))
    trip = (times["F"] + times["I"] + 2 * pipeline.hop) / times["F"] if times["F"] else 2.0
    ahead = range(pipeline.ranks)[::-1]
    warmups = [[1 + rest for rest in ahead], [1 + 2 * rest for rest in ahead]]
    warmups += [[1 + int(rest * trip + more + 1e-9) for rest in ahead] for more in ROUNDINGS]
    upto = (2**power for power in range(pipeline.ranks.bit_length()))
    warmups += [[1 + int(rest * trip + 1e-9) + (rank < last) for rank, rest in enumerate(ahead)] for last in upto]
    different = sorted({tuple(min(count, most) for count in warmup) for warmup in warmups})
    for warmup in different:
        orders = _without_weights(pipeline, warmup)
        same_on_all = replace(limits, until_weight=min(limits.until_weight, warmup[0]))
        starts += [_with_weights(pipeline, each, orders) for each in (limits, same_on_all)]
    return starts


def _zb_h1(stages: int, microbatches: int) -> Schedule:
    return zb_h1.build(stages, microbatches, strict=False)


def _without_weights(pipeline: Pipeline, warmup: Sequence[int]) -> Orders:
    """So many forwards on each rank, then I and F in turn."""
    orders = []
    for rank, count in enumerate(warmup):
        forwards, inputs = (
            [pipeline.number(rank, kind, microbatch) for microbatch in range(pipeline.microbatches)] for kind in "FI"
        )
        pairs = zip_longest(inputs, forwards[count:])
        orders.append(forwards[:count] + [action for pair in pairs for action in pair if action is not None])
    return orders


def _with_weights(pipeline: Pipeline, limits: Limits, orders: Orders) -> Orders:
    """The orders of F and I, with each W as late as there is room for the next F."""
    first, size = pipeline.number(0, "W", 0), pipeline.stages * pipeline.microbatches
    found: Orders = []
    for order in orders:
        new: list[int] = []
        due = deque[int]()
        inputs = 0
        for action in order:
            if action < size:
                inputs += 1
                while not limits.allow(inputs, inputs + len(due)):
                    new.append(due.popleft())
            elif action < first:
                inputs -= 1
                due.append(action + size)
            if action < first:
                new.append(action)
        found.append(new + list(due))
    return found
