"""Interleaved 1F1B: every rank holds several virtual stages and takes turns.

Source: Megatron-LM, arXiv:2104.04473, section 2.2, and its `schedules.py`; microbatches a round as a free
choice: The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.2. PyTorch's `ScheduleInterleaved1F1B` counts
rounds in its own way and orders them alike. With v virtual stages a rank the bubble shrinks to (p-1)/(vm+p-1); rank r
has at most min(mv, (v-1)g + 2(p-r-1) + 1) in flight, g microbatches a round.
"""

from collections.abc import Iterator

from workloads.checks import check_switch
from workloads.plugins import unknown
from workloads.schedule import Schedule
from workloads.schedules._orders import (
    check_counts,
    even_round,
    few_microbatches,
    interleaved_order,
    looped,
    short_round,
    uneven_rounds,
)

RULES = ("megatron", "pytorch")


def build(
    stages: int,
    microbatches: int,
    *,
    virtual: int = 2,
    group: int | None = None,
    strict: bool = True,
    rounds: str = "megatron",
) -> Schedule:
    """Rounds of microbatches through each of `virtual` stages a rank.

    With `rounds="megatron"` a round has `group` microbatches, by default as many as there are ranks. `strict`
    refuses rounds that are shorter than the pipeline, the last one included: they enlarge the bubble or can never
    finish. One virtual stage a rank has no rounds: any number of microbatches will do. With `rounds="pytorch"` there
    are max(1, m // p) rounds, and `strict` refuses m that do not divide by them. `strict=False` generates whatever can
    finish, with a warning.

    >>> print(build(2, 2, virtual=2))
    interleaved: ranks=2 stages=4 microbatches=2
    rank 0  0F0 0F1 2F0 2F1  .  2B0  .  2B1 0B0 0B1
    rank 1   .  1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
    """
    check_counts(stages=stages, virtual=virtual, microbatches=microbatches)
    check_counts(group=stages if group is None else group)
    check_switch(strict=strict)
    if rounds not in RULES:
        raise ValueError(unknown("rounds", rounds, RULES))
    if rounds == "pytorch" and group is not None:
        raise ValueError(f"group={group} with rounds=pytorch, which sets it itself; give rounds=megatron or no group")
    if rounds == "pytorch":
        size, problem = even_round(stages, microbatches), uneven_rounds(stages, microbatches)
    else:
        size = stages if group is None or virtual == 1 else group
        problem = short_round(stages, microbatches, size) if virtual > 1 else ""
    if problem and strict:
        raise ValueError(problem)
    orders = [interleaved_order(rank, stages, microbatches, virtual, size) for rank in range(stages)]
    warnings = [problem] if problem else few_microbatches(stages, microbatches)
    idle = _idle_options(virtual, group, problem, strict=strict)
    return looped("interleaved", orders, virtual=virtual, warnings=(*idle, *warnings))


def _idle_options(virtual: int, group: int | None, problem: str, *, strict: bool) -> Iterator[str]:
    """Options without effect: nothing goes round on one virtual stage a rank, and not every round is short."""
    if virtual == 1 and group is not None:
        yield f"group={group} changes nothing with virtual=1"
    if not strict and not problem:
        yield "strict=off changes nothing" + (" with virtual=1" if virtual == 1 else ": no round is short")
