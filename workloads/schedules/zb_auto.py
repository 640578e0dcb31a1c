"""Zero-bubble schedules by search: the smallest bubble under a limit of memory, given times of F, I, W and hops.

Source: Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 3.1, whose ZB-1p and ZB-2p are `memory=1` and
`memory=2`. The search is not theirs: orders between 1F1B's and those of ZB-H2, with as many forwards first as the times
ask for, are compacted forwards and backwards in time. First the longest span of a rank is made as short as
can be found, then the makespan, then the most that is in flight until W. Without hops and for W <= F, `memory=1` has
ZB-H1's bubble by span, (p-1)(F + I - W).
"""

from collections import deque
from collections.abc import Sequence
from itertools import zip_longest

from workloads.schedule import Schedule
from workloads.schedules._compact import Score, Search
from workloads.schedules._orders import check_counts, few_microbatches, looped
from workloads.schedules._timing import Figures, Limits, Orders, Pipeline, check_times

ROUNDINGS = (0.0, 0.25, 0.5, 0.75, 1.0)
WORK = 400_000


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

    Assumes that I lets go of half of what F keeps and W of the other half.

    >>> print(build(2, 3))
    """
    check_counts(stages=stages, microbatches=microbatches)
    check_times(forward=forward, backward_input=backward_input, backward_weight=backward_weight, hop=hop)
    if memory < 1:
        raise ValueError(
            f"memory={memory:g} times {stages} ranks; the first of them needs room for {stages} microbatches: memory=1"
        )
    times = {"F": forward, "I": backward_input, "W": backward_weight}
    pipeline = Pipeline(range(stages), microbatches, times, hop)
    orders = _leanest(pipeline, memory * stages)
    return looped("zb_auto", pipeline.actions(orders), warnings=few_microbatches(stages, microbatches))


def _leanest(pipeline: Pipeline, most: float) -> Orders:
    """The best order found, and of the same bubble the one that holds the fewest microbatches until W."""
    limits = Limits(mean=most)
    score, orders = Search(pipeline, limits, _judge, WORK).best_of(_starts(pipeline, limits))
    low, high = int(min(most, pipeline.microbatches)), int(score[2])
    while low < high:
        limits = Limits(mean=most, weight=(low + high) // 2)
        search = Search(pipeline, limits, _judge, WORK // 4, goal=score[:2])
        found = search.best_of([_with_weights(pipeline, limits, orders), *_starts(pipeline, limits)])
        if found[0][:2] <= score[:2]:
            score, orders = found
            high = int(score[2])
        else:
            low = (low + high) // 2 + 1
    return orders


def _judge(figures: Figures) -> Score:
    return figures.span, figures.makespan, figures.weight, figures.input


def _starts(pipeline: Pipeline, limits: Limits) -> list[Orders]:
    """1F1B's and ZB-H2's warm-up, and those that fill the wait for the first I with forwards, more or less."""
    times, most = pipeline.times, int(min(limits.mean, limits.weight))
    trip = (times["F"] + times["I"] + 2 * pipeline.hop) / times["F"] if times["F"] else 2.0
    ahead = range(pipeline.ranks)[::-1]
    warmups = [[1 + rest for rest in ahead], [1 + 2 * rest for rest in ahead]]
    warmups += [[1 + int(rest * trip + more + 1e-9) for rest in ahead] for more in ROUNDINGS]
    different = sorted({tuple(min(count, most) for count in warmup) for warmup in warmups})
    return [_with_weights(pipeline, limits, _without_weights(pipeline, warmup)) for warmup in different]


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
        input = 0
        for action in order:
            if action < size:
                input += 1
                while not limits.allow(input, input + len(due)):
                    new.append(due.popleft())
            elif action < first:
                input -= 1
                due.append(action + size)
            if action < first:
                new.append(action)
        found.append(new + list(due))
    return found
