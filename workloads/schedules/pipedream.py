"""PipeDream: 1F1B that never drains the pipeline, because each microbatch updates the weights by itself.

Source: PipeDream, arXiv:1806.03377 (SOSP 2019). Rank r admits p-r microbatches, then takes a backward and a forward
in turn, for as long as training lasts. A microbatch's backward needs the weights of its forward, so rank r keeps p-r
versions of them; in flight are at most p-r microbatches too. The pipeline fills once and drains once a training, and
between has no bubble.
"""

from workloads.schedule import Schedule
from workloads.schedules._orders import check_counts, few_microbatches, looped, one_forward_one_backward


def build(stages: int, microbatches: int) -> Schedule:
    """The first `microbatches` of the endless stream, up to their last backward.

    Their order is that of 1F1B, which differs only in waiting for the last of them before it updates weights. Filling
    and draining are in this finite piece of the stream: m microbatches take (m + p - 1)(F + B) for m >= p. A step of m
    in the steady state takes what m more microbatches add to the makespan of a piece, which is m(F + B), plus
    2c(p-1)m/p if a hop takes c (mode latency, p divides m): see `ScheduleResult.steady_period`. Assumes, in whole
    steps, one update a step, where every microbatch has its own.

    >>> build(4, 8).versions, build(4, 8).peak_in_flight
    ((4, 3, 2, 1), (4, 3, 2, 1))
    """
    check_counts(stages=stages, microbatches=microbatches)
    orders = [one_forward_one_backward(stage, stages, microbatches) for stage in range(stages)]
    versions = tuple(stages - rank for rank in range(stages))
    return looped("pipedream", orders, versions=versions, warnings=few_microbatches(stages, microbatches))
