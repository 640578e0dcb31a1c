"""GPipe: every forward, then every backward.

Source: GPipe, arXiv:1811.06965. Bubble (p-1)/(m+p-1) of the pipeline phase for p ranks and m microbatches;
each rank holds all m microbatches. Backwards run in the order of the forwards, as in PyTorch, or in the
opposite order, as the paper's figure 2c draws them; bubble and memory are the same.
"""

from workloads.checks import check_switch
from workloads.schedule import Action, Schedule
from workloads.schedules._orders import alternate, check_counts, few_microbatches, looped


def build(stages: int, microbatches: int, *, reverse: bool = False) -> Schedule:
    """All forwards, then all backwards, first in first out; with `reverse`, last in first out.

    >>> print(build(2, 2))
    gpipe: ranks=2 stages=2 microbatches=2
    rank 0  0F0 0F1  .   .  0B0 0B1
    rank 1   .  1F0 1F1 1B0 1B1
    """
    check_counts(stages=stages, microbatches=microbatches)
    check_switch(reverse=reverse)
    orders = [_order(stage, microbatches, reverse=reverse) for stage in range(stages)]
    return looped("gpipe", orders, warnings=few_microbatches(stages, microbatches))


def _order(stage: int, microbatches: int, *, reverse: bool) -> tuple[Action, ...]:
    forwards, backwards = ([Action(stage, kind, index) for index in range(microbatches)] for kind in "FB")
    return alternate(forwards, backwards[::-1] if reverse else backwards, warmup=microbatches)
