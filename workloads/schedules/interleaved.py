"""Interleaved 1F1B in Megatron's order: every rank holds several virtual stages and takes turns.

Source: Megatron-LM, arXiv:2104.04473, section 2.2, and its `schedules.py`; microbatches a round as a free
choice: The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.2. With v virtual stages a rank the bubble
shrinks to (p-1)/(vm+p-1); rank r has at most min(mv, (v-1)g + 2(p-r-1) + 1) in flight, g microbatches a round.
"""

from collections.abc import Iterator

from workloads.checks import check_switch
from workloads.schedule import Action, Schedule
from workloads.schedules._orders import alternate, check_counts, few_microbatches, looped


def build(
    stages: int, microbatches: int, *, virtual: int = 2, group: int | None = None, strict: bool = True
) -> Schedule:
    """Rounds of `group` microbatches (default: as many as ranks) through each of `virtual` stages a rank.

    `strict` refuses rounds that are shorter than the pipeline, the last one included: they enlarge the bubble
    or can never finish. `strict=False` generates whatever can finish, with a warning. One virtual stage a rank
    has no rounds: any number of microbatches will do.

    >>> print(build(2, 2, virtual=2))
    interleaved: ranks=2 stages=4 microbatches=2
    rank 0  0F0 0F1 2F0 2F1  .  2B0  .  2B1 0B0 0B1
    rank 1   .  1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
    """
    check_counts(stages=stages, virtual=virtual, microbatches=microbatches)
    check_counts(group=stages if group is None else group)
    check_switch(strict=strict)
    size = stages if group is None or virtual == 1 else group
    problem = _short_round(stages, microbatches, size) if virtual > 1 else ""
    if problem and strict:
        raise ValueError(problem)
    orders = [_order(rank, stages, microbatches, virtual, size) for rank in range(stages)]
    if virtual == 1:
        warnings = (*_idle_options(group, strict=strict), *few_microbatches(stages, microbatches))
    else:
        warnings = (problem or "strict=off changes nothing: no round is short",) if not strict else ()
    return looped("interleaved", orders, virtual=virtual, warnings=warnings)


def _idle_options(group: int | None, *, strict: bool) -> Iterator[str]:
    """Options without effect on one virtual stage a rank, where nothing goes round."""
    if group is not None:
        yield f"group={group} changes nothing with virtual=1"
    if not strict:
        yield "strict=off changes nothing with virtual=1"


def _short_round(stages: int, microbatches: int, group: int) -> str:
    """What is wrong with the rounds, and the nearest legal counts; empty if nothing is."""
    if group < stages:
        return f"group={group} is fewer microbatches a round than stages={stages}; nearest: group={stages}"
    rest = microbatches % group
    if rest == 0 or rest >= stages:
        return ""
    nearest = [str(count) for count in (microbatches - rest, microbatches - rest + stages) if count]
    rule = "0" if group == stages else f"0 or at least {stages}"
    return (
        f"microbatches={microbatches} in rounds of {group} leave {rest} over; with stages={stages} the rest must "
        f"be {rule}; nearest: microbatches={' or '.join(nearest)}"
    )


def _order(rank: int, stages: int, microbatches: int, virtual: int, group: int) -> tuple[Action, ...]:
    """One rank's order: warm-up of 2(p-r-1) + (v-1)g forwards, then one forward and one backward in turn."""
    forwards = _rounds("F", range(rank, stages * virtual, stages), microbatches, group)
    backwards = _rounds("B", range(rank, stages * virtual, stages)[::-1], microbatches, group)
    return alternate(forwards, backwards, min(len(forwards), 2 * (stages - rank - 1) + (virtual - 1) * group))


def _rounds(kind: str, stages: range, microbatches: int, group: int) -> list[Action]:
    """A round of microbatches on the first of a rank's stages, the same on the next, and so on."""
    return [
        Action(stage, kind, microbatch)
        for start in range(0, microbatches, group)
        for stage in stages
        for microbatch in range(start, min(start + group, microbatches))
    ]
