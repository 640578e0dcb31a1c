"""Breadth-first: all microbatches on a rank's first stage, then all on its next one; backwards in reverse.

Source: Breadth-First Pipeline Parallelism, arXiv:2211.05953; PyTorch's `ScheduleLoopedBFS`. With v virtual stages a
rank and m >= p microbatches the makespan is that of interleaved 1F1B, m(F + B) + (p-1)(F + B)/v, but every rank
holds all mv. In exchange weights are gathered and gradients reduced once a stage, and hops stay hidden for longer.
"""

from workloads.schedule import Action, Schedule
from workloads.schedules._orders import check_counts, few_microbatches, looped


def build(stages: int, microbatches: int, *, virtual: int = 2) -> Schedule:
    """All forwards, stage by stage, then all backwards in the opposite order of stages and microbatches.

    >>> print(build(2, 2, virtual=2))
    breadth_first: ranks=2 stages=4 microbatches=2
    rank 0  0F0 0F1 2F0 2F1  .   .  2B1 2B0 0B1 0B0
    rank 1   .  1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0
    """
    check_counts(stages=stages, virtual=virtual, microbatches=microbatches)
    orders = [_order(range(rank, stages * virtual, stages), microbatches) for rank in range(stages)]
    return looped("breadth_first", orders, virtual=virtual, warnings=few_microbatches(stages, microbatches))


def _order(stages: range, microbatches: int) -> tuple[Action, ...]:
    forwards = [Action(stage, "F", microbatch) for stage in stages for microbatch in range(microbatches)]
    return (*forwards, *(Action(stage, "B", microbatch) for stage, _, microbatch, _ in reversed(forwards)))
