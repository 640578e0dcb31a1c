"""1F1B: after a warm-up, every forward is followed by a backward.

Source: PipeDream-Flush, arXiv:2006.09503; Megatron-LM, arXiv:2104.04473, figure 4. The bubble is GPipe's,
(p-1)/(m+p-1), but rank r holds at most p-r microbatches instead of all m. Megatron-LM waits for every message, nearest
to which is that a transfer starts once its receiver waits.
"""

from workloads.schedule import Schedule
from workloads.schedules._orders import check_counts, few_microbatches, looped, one_forward_one_backward


def build(stages: int, microbatches: int) -> Schedule:
    """p-r-1 forwards on rank r, then one forward and one backward in turn.

    >>> print(build(2, 2))
    one_f_one_b: ranks=2 stages=2 microbatches=2
    rank 0  0F0 0F1  .  0B0  .  0B1
    rank 1   .  1F0 1B0 1F1 1B1
    """
    check_counts(stages=stages, microbatches=microbatches)
    orders = [one_forward_one_backward(stage, stages, microbatches) for stage in range(stages)]
    return looped("one_f_one_b", orders, p2p="recv_block", warnings=few_microbatches(stages, microbatches))
