"""1F1B: after a warm-up, every forward is followed by a backward.

Source: PipeDream-Flush, arXiv:2006.09503; Megatron-LM, arXiv:2104.04473, figure 4. The bubble is GPipe's,
(p-1)/(m+p-1), but rank r holds at most p-r microbatches instead of all m. Megatron-LM waits for every message, nearest
to which is that a transfer starts once its receiver waits.
"""

from workloads.schedule import Action, Schedule
from workloads.schedules._orders import alternate, check_counts, few_microbatches, looped


def build(stages: int, microbatches: int) -> Schedule:
    """p-r-1 forwards on rank r, then one forward and one backward in turn.

    >>> print(build(2, 2))
    one_f_one_b: ranks=2 stages=2 microbatches=2
    rank 0  0F0 0F1  .  0B0  .  0B1
    rank 1   .  1F0 1B0 1F1 1B1
    """
    check_counts(stages=stages, microbatches=microbatches)
    orders = [_order(stage, stages, microbatches) for stage in range(stages)]
    return looped("one_f_one_b", orders, p2p="recv_block", warnings=few_microbatches(stages, microbatches))


def _order(stage: int, stages: int, microbatches: int) -> tuple[Action, ...]:
    forwards, backwards = ([Action(stage, kind, index) for index in range(microbatches)] for kind in "FB")
    return alternate(forwards, backwards, warmup=min(microbatches, stages - stage - 1))
