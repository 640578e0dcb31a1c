"""V-1F1B: two stages a rank in the shape of a V, backwards whole, at about three quarters of 1F1B's memory.

Source: Pipeline Parallelism with Controllable Memory, arXiv:2405.15362: its building blocks without a split backward.
Every rank holds at most max(p + 2, 3p/2) chunks, 1F1B's first rank 2p. No closed form; for F = I = W = 10 and m = 3p
the bubble is at most 75 for p = 4, with 6 chunks held, and 165 for p = 8, with 12. Building blocks are compacted
forwards and backwards in time.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import combinations_with_replacement

from workloads.schedule import Schedule
from workloads.schedules._blocks import PERIOD, Block, makespan_first, pipeline_of, searched
from workloads.schedules._orders import few_microbatches, v_shaped
from workloads.schedules._timing import Limits

LENGTHS = (1, 1, 2, 2)
Place = tuple[int, int]


def build(
    stages: int,
    microbatches: int,
    *,
    forward: float = 1.0,
    backward_input: float = 1.0,
    backward_weight: float = 1.0,
    hop: float = 0.0,
) -> Schedule:
    """The shortest makespan found for the times, which are of a rank's two stages together.

    >>> print(build(2, 3))
    v_1f1b: ranks=2 stages=4 microbatches=3
    rank 0  0F0 0F1  .  3F0 3B0 0F2 3F1 3B1 0B0 3F2 3B2 0B1  .  0B2
    rank 1   .  1F0 2F0 1F1 2F1 2B0 1F2 1B0 2F2 2B1 1B1 2B2 1B2
    """
    times = {"forward": forward, "backward": backward_input + backward_weight}
    pipeline = pipeline_of(stages, microbatches, times, hop)
    limits = Limits(until_weight=max(stages + 2, (3 * stages + 1) // 2))
    orders = searched(pipeline, limits, makespan_first, _blocks(stages))
    return v_shaped("v_1f1b", pipeline.actions(orders), warnings=few_microbatches(stages, microbatches))


@lru_cache(maxsize=8)
def _blocks(ranks: int) -> list[Block]:
    """Blocks in which every action is due as early as the one before it allows, but for one or two; shortest first."""
    places = [(leg, rank) for leg in range(len(LENGTHS)) for rank in range(ranks)]
    late: list[dict[Place, int]] = [{}, *({place: 1} for place in places)]
    late += [
        {one: 2} if one == other else {one: 1, other: 1} for one, other in combinations_with_replacement(places, 2)
    ]
    found = {block for delays in late if (block := _block(ranks, delays))}
    return sorted(found, key=lambda block: (block[0][3], block))


def _block(ranks: int, delays: Mapping[Place, int]) -> Block | None:
    """The steps at which each rank begins its F down and up and its B down and up; none if they do not fit."""
    taken = [frozenset[int]()] * ranks
    due: list[list[int]] = [[] for _ in range(ranks)]
    now = 0
    for leg, length in enumerate(LENGTHS):
        for rank in range(ranks) if leg % 2 == 0 else reversed(range(ranks)):
            fitting = (step for step in range(now, now + 4 * PERIOD) if _fits(taken[rank], step, leg))
            step = next((step for late, step in enumerate(fitting) if late == delays.get((leg, rank), 0)), None)
            if step is None:
                return None
            due[rank].append(step)
            taken[rank] |= _steps(step, length)
            now = step + length
    return tuple(map(tuple, due))


def _steps(step: int, length: int) -> frozenset[int]:
    return frozenset((step + each) % PERIOD for each in range(length))


@lru_cache(maxsize=4096)
def _room(taken: frozenset[int], leg: int) -> bool:
    """Whether the legs from one on have room in what is left of a rank's period."""
    return leg == len(LENGTHS) or any(_fits(taken, step, leg) for step in range(PERIOD))


def _fits(taken: frozenset[int], step: int, leg: int) -> bool:
    """Whether a rank may begin a leg at a step, with room for those to come."""
    steps = _steps(step, LENGTHS[leg])
    return not steps & taken and _room(taken | steps, leg + 1)
