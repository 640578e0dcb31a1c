"""What the schedules share: placing stages in a loop, alternating F and B, refusing bad counts."""

import math
from collections.abc import Sequence
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
