"""ZB-V: two stages a rank in the shape of a V, split backwards, no bubble if F, I and W take equally long.

Source: Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 6, and the fixed order of PyTorch's
`ScheduleZBVZeroBubble`. For m >= 2p-1 and W <= F <= I the span of a rank is m(F + B) + 2(p-1)(max(f, i) - w), small
letters for one stage; every rank has at most 2p stages' worth in flight, which is what 1F1B has on its first rank.
"""

from collections import Counter

from workloads.schedule import Action, Schedule
from workloads.schedules._orders import check_counts, few_microbatches, v_shaped


def build(stages: int, microbatches: int) -> Schedule:
    """The order for at least 2p-1 microbatches, without those that there are not.

    >>> print(build(2, 3))
    zb_v: ranks=2 stages=4 microbatches=3
    rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2
    rank 1   .  1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2
    """
    check_counts(stages=stages, virtual=2, microbatches=microbatches)
    orders = [_order(rank, stages, microbatches) for rank in range(stages)]
    return v_shaped("zb_v", orders, warnings=few_microbatches(stages, microbatches))


def _order(rank: int, ranks: int, microbatches: int) -> tuple[Action, ...]:
    """Every kind on every stage counts microbatches from 0."""
    stage_of = {"down": rank, "up": 2 * ranks - 1 - rank}
    counts: Counter[tuple[str, str]] = Counter()
    order = []
    for kind, way in _steps(rank, ranks, max(microbatches, 2 * ranks - 1)):
        microbatch = counts[kind, way]
        counts[kind, way] += 1
        if microbatch < microbatches:
            order.append(Action(stage_of[way], kind, microbatch))
    return tuple(order)


def _steps(rank: int, ranks: int, microbatches: int) -> list[tuple[str, str]]:
    """Kinds in order, each on the stage of the way down or up: warm-up, steady state, cool-down."""
    below = ranks - rank
    backward_down, backward_up = ([("I", way), ("W", way)] for way in ("down", "up"))
    forward_down, forward_up = [("F", "down")], [("F", "up")]
    with_forward = microbatches - (2 * ranks - rank - 1)
    steady = microbatches - ranks
    return [
        *forward_down * (2 * below - 1),
        *(forward_up + forward_down) * rank,
        *(forward_up + backward_up) * below,
        *(forward_down + backward_down + forward_up + backward_up) * with_forward,
        *(backward_down + forward_up + backward_up) * (steady - with_forward),
        *[("I", "down"), ("I", "up")] * rank,
        *backward_down * below,
        *[("W", "up")] * rank,
        *[("W", "down")] * rank,
    ]
