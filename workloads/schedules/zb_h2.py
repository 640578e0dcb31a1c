"""ZB-H2: a longer warm-up than ZB-H1, and with it almost no bubble at twice the memory of 1F1B.

Source: Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 2. For m >= 2p and W <= min(F, I) the bubble in
the span of a rank is (p-1)(F + I - 2W); every rank has at most 2p-1 in flight until their W.
"""

from workloads.schedule import Action, Schedule
from workloads.schedules._orders import alternate, check_counts, few_microbatches, looped, split_backwards


def build(stages: int, microbatches: int) -> Schedule:
    """2(p-r)-1 forwards on rank r, then I, W (from the (2r+1)-th I on) and F in turn.

    >>> print(build(2, 4))
    zb_h2: ranks=2 stages=2 microbatches=4
    rank 0  0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3
    rank 1   .  1F0 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3
    """
    check_counts(stages=stages, microbatches=microbatches)
    orders = [_order(stage, stages, microbatches) for stage in range(stages)]
    return looped("zb_h2", orders, warnings=few_microbatches(stages, microbatches))


def _order(stage: int, stages: int, microbatches: int) -> tuple[Action, ...]:
    forwards, backwards = ([Action(stage, kind, index) for index in range(microbatches)] for kind in "FB")
    warmup = min(microbatches, 2 * (stages - stage - 1))
    return split_backwards(alternate(forwards, backwards, warmup), lag=2 * stage)
