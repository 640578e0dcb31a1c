"""Depth-first: as few microbatches as fill the pipeline go through all of a rank's stages before the next ones start.

Source: Breadth-First Pipeline Parallelism, arXiv:2211.05953, which calls Megatron's interleaved 1F1B depth-first; so
does The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.2. It is `interleaved` with as many microbatches a
round as ranks: makespan m(F + B) + (p-1)(F + B)/v, and min(mv, (v-1)p + 2(p-r-1) + 1) in flight on rank r.
"""

from workloads.schedule import Schedule
from workloads.schedules._orders import check_counts, few_microbatches, interleaved_order, looped, short_round


def build(stages: int, microbatches: int, *, virtual: int = 2) -> Schedule:
    """Rounds of as many microbatches as ranks; with virtual stages, m must be a multiple of them.

    >>> print(build(2, 2))
    depth_first: ranks=2 stages=4 microbatches=2
    rank 0  0F0 0F1 2F0 2F1  .  2B0  .  2B1 0B0 0B1
    rank 1   .  1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
    """
    check_counts(stages=stages, virtual=virtual, microbatches=microbatches)
    problem = short_round(stages, microbatches, stages) if virtual > 1 else ""
    if problem:
        raise ValueError(problem)
    orders = [interleaved_order(rank, stages, microbatches, virtual, stages) for rank in range(stages)]
    return looped("depth_first", orders, virtual=virtual, warnings=few_microbatches(stages, microbatches))
