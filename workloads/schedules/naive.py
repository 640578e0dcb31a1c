"""Layers split over ranks without pipelining: one microbatch at a time, through all stages and back.

Source: the model parallelism that GPipe (arXiv:1811.06965, figure 2b) sets out from. Of p ranks one computes at a
time, so m microbatches take mp(F + B), F and B on one rank, plus 2(p-1) hops each; one microbatch is in flight.
"""

from workloads.schedule import Action, Schedule
from workloads.schedules._orders import check_counts, looped


def build(stages: int, microbatches: int) -> Schedule:
    """Forward and backward of a microbatch, before the next one starts.

    >>> print(build(2, 2))
    naive: ranks=2 stages=2 microbatches=2
    rank 0  0F0  .   .  0B0 0F1  .   .  0B1
    rank 1   .  1F0 1B0  .   .  1F1 1B1
    """
    check_counts(stages=stages, microbatches=microbatches)
    orders = [
        tuple(Action(stage, kind, microbatch) for microbatch in range(microbatches) for kind in "FB")
        for stage in range(stages)
    ]
    return looped("naive", orders)
