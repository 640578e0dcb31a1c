"""What the schedules share: placing stages, alternating F and B, splitting B in two, refusing bad counts."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from workloads.checks import is_whole
from workloads.schedule import Action, Schedule

MOST_FORWARDS = 4_000_000


def looped(name: str, orders: Sequence[tuple[Action, ...]], *, virtual: int = 1, **facts: Any) -> Schedule:
    """A schedule with stage s on rank s mod p, given each rank's order; `facts` are other fields of a schedule."""
    ranks = len(orders)
    placement = tuple(stage % ranks for stage in range(ranks * virtual))
    return Schedule(name, dict(enumerate(orders)), placement, **facts)


def v_shaped(name: str, orders: Sequence[tuple[Action, ...]], **facts: Any) -> Schedule:
    """A schedule of two stages a rank, down the ranks and up again: stage s on rank s, or else on 2p - 1 - s."""
    ranks = len(orders)
    return Schedule(name, dict(enumerate(orders)), (*range(ranks), *reversed(range(ranks))), **facts)


def bidirectional(name: str, orders: Sequence[tuple[Action, ...]], **facts: Any) -> Schedule:
    """Two chains of p stages, one from either end: stage p + s has the weights of stage s, and is on rank p - 1 - s."""
    ranks = len(orders)
    chains = tuple(range(ranks)), tuple(range(ranks, 2 * ranks))
    placement = (*range(ranks), *reversed(range(ranks)))
    weights = (*range(ranks), *range(ranks))
    return Schedule(name, dict(enumerate(orders)), placement, weights, chains, **facts)


def alternate(forwards: Sequence[Action], backwards: Sequence[Action], warmup: int) -> tuple[Action, ...]:
    """`warmup` forwards, then a forward and a backward in turn, then the backwards that are left.

    >>> forwards, backwards = ([Action(0, kind, microbatch) for microbatch in range(3)] for kind in "FB")
    >>> [str(action) for action in alternate(forwards, backwards, 1)]
    ['0F0', '0F1', '0B0', '0F2', '0B1', '0B2']
    """
    steady = [action for pair in zip(forwards[warmup:], backwards, strict=False) for action in pair]
    return (*forwards[:warmup], *steady, *backwards[len(forwards) - warmup :])


def one_forward_one_backward(stage: int, stages: int, microbatches: int) -> tuple[Action, ...]:
    """A stage's order in 1F1B, with as few warm-up forwards as keep all stages busy.

    >>> [str(action) for action in one_forward_one_backward(0, stages=2, microbatches=3)]
    ['0F0', '0F1', '0B0', '0F2', '0B1', '0B2']
    """
    forwards, backwards = ([Action(stage, kind, index) for index in range(microbatches)] for kind in "FB")
    return alternate(forwards, backwards, warmup=min(microbatches, stages - stage - 1))


def interleaved_order(
    rank: int, stages: int, microbatches: int, virtual: int, group: int, *, each_hop: int = 2
) -> tuple[Action, ...]:
    """A rank's order in rounds: `each_hop` (p-r-1) + (v-1)g forwards, then one forward and one backward in turn.

    >>> [str(action) for action in interleaved_order(1, stages=2, microbatches=2, virtual=2, group=2)]
    ['1F0', '1F1', '3F0', '3B0', '3F1', '3B1', '1B0', '1B1']
    """
    here = range(rank, stages * virtual, stages)
    forwards = in_rounds("F", here, microbatches, group)
    backwards = in_rounds("B", here[::-1], microbatches, group)
    warmup = each_hop * (stages - rank - 1) + (virtual - 1) * group
    return alternate(forwards, backwards, min(len(forwards), warmup))


def in_rounds(kind: str, stages: Sequence[int], microbatches: int, size: int) -> list[Action]:
    """A round of `size` microbatches on the first of a rank's stages, the same on the next one, and so on.

    >>> [str(action) for action in in_rounds("F", [0, 4], microbatches=3, size=2)]
    ['0F0', '0F1', '4F0', '4F1', '0F2', '4F2']
    """
    return [
        Action(stage, kind, microbatch)
        for start in range(0, microbatches, size)
        for stage in stages
        for microbatch in range(start, min(start + size, microbatches))
    ]


def split_backwards(order: Iterable[Action], lag: int) -> tuple[Action, ...]:
    """Every B as an I, followed by the W that is `lag` backwards behind; the W that are left come last.

    >>> order = [Action(0, "F", 0), Action(0, "B", 0), Action(0, "F", 1), Action(0, "B", 1)]
    >>> [str(action) for action in split_backwards(order, lag=1)]
    ['0F0', '0I0', '0F1', '0I1', '0W0', '0W1']
    """
    split: list[Action] = []
    due: deque[Action] = deque()
    for action in order:
        if action.kind != "B":
            split.append(action)
            continue
        split.append(action._replace(kind="I"))
        due.append(action._replace(kind="W"))
        if len(due) > lag:
            split.append(due.popleft())
    return (*split, *due)


def short_round(stages: int, microbatches: int, group: int) -> str:
    """How rounds break Megatron's rule, and the nearest legal counts; an empty text if they do not."""
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


def even_round(stages: int, microbatches: int) -> int:
    """Microbatches a round in PyTorch, where there are max(1, m // p) rounds.

    >>> even_round(stages=4, microbatches=10), even_round(stages=4, microbatches=3)
    (5, 3)
    """
    return microbatches // max(1, microbatches // stages)


def uneven_rounds(stages: int, microbatches: int) -> str:
    """How rounds break PyTorch's rule of equal length, and the nearest legal counts; an empty text if they do not."""
    if _is_even(stages, microbatches):
        return ""
    below = next(count for count in range(microbatches, 0, -1) if _is_even(stages, count))
    above = next(count for count in range(microbatches, microbatches + stages) if _is_even(stages, count))
    return (
        f"microbatches={microbatches} do not divide evenly into max(1, {microbatches} // stages={stages}) = "
        f"{microbatches // stages} rounds; nearest: microbatches={below} or {above}"
    )


def _is_even(stages: int, microbatches: int) -> bool:
    return microbatches % max(1, microbatches // stages) == 0


def check_counts(**counts: int) -> None:
    """Refuse counts that are no positive whole numbers, and products beyond any real step."""
    for name, value in counts.items():
        if not is_whole(value, 1):
            raise ValueError(f"{name}={value!r}: a schedule needs a whole number of at least 1")
    forwards = math.prod(counts.values())
    if forwards > MOST_FORWARDS:
        product = " × ".join(f"{name}={value}" for name, value in counts.items())
        raise ValueError(f"{product} = {forwards} chunks; at most {MOST_FORWARDS} can be scheduled")


def few_microbatches(stages: int, microbatches: int) -> tuple[str, ...]:
    """The warning that a pipeline with fewer microbatches than ranks deserves."""
    if microbatches >= stages:
        return ()
    return (
        f"microbatches={microbatches} on stages={stages}: at most {microbatches} of {stages} ranks compute at a time",
    )
