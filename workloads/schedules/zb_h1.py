"""ZB-H1: 1F1B with the backward split in two, so that gradients of weights fill what was bubble.

Source: Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 2; with virtual stages it is PyTorch's
`ScheduleInterleavedZeroBubble`. For m >= 2p and W <= F the span of a rank is m(F + B) + (p-1)(F + I - W)/v; rank r
has at most min(mv, (v-1)g + p) in flight until their W, g microbatches a round, and with v = 1 p-r until their I.
"""

from workloads.checks import check_switch
from workloads.schedule import Schedule
from workloads.schedules._orders import (
    check_counts,
    even_round,
    few_microbatches,
    interleaved_order,
    looped,
    split_backwards,
    uneven_rounds,
)


def build(stages: int, microbatches: int, *, virtual: int = 1, strict: bool = True) -> Schedule:
    """Rounds as in PyTorch: max(1, m // p) of them, all equally long.

    A warm-up of p-r-1 forwards, and one round on each virtual stage but one; then F, I and, from the r-th such step
    on, the W that is longest due. `strict=False` allows a last round that is shorter than the others, with a warning.

    >>> print(build(2, 4))
    zb_h1: ranks=2 stages=2 microbatches=4
    rank 0  0F0 0F1  .  0I0 0W0 0F2 0I1 0W1 0F3 0I2 0W2 0I3 0W3
    rank 1   .  1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1F3 1I3 1W2 1W3
    """
    check_counts(stages=stages, virtual=virtual, microbatches=microbatches)
    check_switch(strict=strict)
    problem = uneven_rounds(stages, microbatches)
    if problem and strict:
        raise ValueError(problem)
    size = even_round(stages, microbatches)
    warnings = (problem or "strict=off changes nothing: all rounds are equally long",) if not strict else ()
    orders = [
        split_backwards(interleaved_order(rank, stages, microbatches, virtual, size, each_hop=1), lag=rank)
        for rank in range(stages)
    ]
    return looped("zb_h1", orders, virtual=virtual, warnings=(*warnings, *few_microbatches(stages, microbatches)))
