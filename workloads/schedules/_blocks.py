"""Building blocks of pipelines in the shape of a V: what one microbatch does, repeated every six steps.

Source: Pipeline Parallelism with Controllable Memory, arXiv:2405.15362, sections 3 and 4. In a block every action is
one step long; microbatch after microbatch it is shifted by six steps, the work of a rank with two stages. How long a
stage keeps a microbatch in the block, over six, is how many it holds. In all blocks here forwards and backwards pass
from rank to rank in even steps, down, up, down and up again; each leg has its own step and each turn its own delay.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from workloads.schedules._compact import Judge, Score, Search
from workloads.schedules._orders import check_counts
from workloads.schedules._timing import Figures, Limits, Orders, Pipeline, check_times

PERIOD = 6
TRIED, STARTS, WORK = 60, 16, 500_000
Offsets = tuple[int, ...]
Block = tuple[Offsets, ...]
LEGS = ("F0", "F1", "I1", "I0")
KINDS = {"forward": "F", "backward_input": "I", "backward_weight": "W", "backward": "B"}


@lru_cache(maxsize=8)
def blocks(ranks: int) -> tuple[Block, ...]:
    """Every rank's steps at which a microbatch is due: F down and up, I down and up, W up and down; shortest first.

    >>> blocks(1)[0]
    ((0, 1, 2, 3, 4, 5),)
    """
    found = [tuple(map(_with_weights, zip(*legs, strict=True))) for legs in _legs(ranks, ())]
    return tuple(sorted(found, key=lambda block: (block[0][3], max(map(held, block)), block)))


def _legs(ranks: int, legs: tuple[Offsets, ...]) -> Iterator[tuple[Offsets, ...]]:
    """The four legs of every block that begins with some, no rank doing two things at a step."""
    if len(legs) == len(LEGS):
        yield legs
        return
    down = len(legs) % 2 == 0
    start = legs[-1][0 if down else -1] if legs else -1
    for turn in range(1, PERIOD + 1 if legs else 2):
        for step in range(1, PERIOD + 1 if ranks > 1 else 2):
            way = [start + turn + step * rank for rank in range(ranks)]
            leg = tuple(way if down else reversed(way))
            if all((one - other) % PERIOD for before in legs for one, other in zip(leg, before, strict=True)):
                yield from _legs(ranks, (*legs, leg))


def _with_weights(offsets: Offsets) -> Offsets:
    """A rank's offsets with W of both stages in the steps left free, as soon as may be."""
    one, other = sorted(set(range(PERIOD)) - {offset % PERIOD for offset in offsets})
    up, down = offsets[2] + 1, offsets[3] + 1
    ways = (
        (up + (one - up) % PERIOD, down + (other - down) % PERIOD),
        (up + (other - up) % PERIOD, down + (one - down) % PERIOD),
    )
    return (*offsets, *min(ways, key=sum))


def held(offsets: Offsets) -> int:
    """Six times the chunks that a rank holds on average, from F to the end of W, or of B, which is two steps long."""
    return offsets[-2] - offsets[1] + offsets[-1] - offsets[0] + (2 if len(offsets) == PERIOD else 4)


def makespan_first(figures: Figures) -> Score:
    """The makespan counts, then the span, then what is held."""
    return figures.makespan, figures.span, figures.until_weight, figures.until_input


def pipeline_of(stages: int, microbatches: int, times: dict[str, float], hop: float) -> Pipeline:
    """A V with times of all of a rank's two stages together; checked."""
    check_counts(stages=stages, virtual=2, microbatches=microbatches)
    check_times(**times, hop=hop)
    kinds = {KINDS[name]: time / 2 for name, time in times.items()}
    return Pipeline((*range(stages), *reversed(range(stages))), microbatches, kinds, hop)


def searched(
    pipeline: Pipeline, limits: Limits, judge: Judge, blocks: Iterable[Block], besides: Sequence[Orders] = ()
) -> Orders:
    """The best order that compaction makes of the first blocks that keep the limits, and of some other orders."""
    nearest = sorted(blocks, key=lambda block: max(0, max(map(held, block)) - PERIOD * limits.until_weight))
    starts: list[tuple[Score, int, Orders]] = []
    for orders in [*besides, *(repeated(pipeline, block) for block in nearest[:TRIED])]:
        figures = pipeline.figures(orders)
        if limits.keep(figures):
            starts.append((judge(figures), len(starts), orders))
    return Search(pipeline, limits, judge, WORK).best_of([orders for _, _, orders in sorted(starts)[:STARTS]])[1]


def leanest(pipeline: Pipeline) -> Limits:
    """The limits that the block holding least keeps."""
    few = sorted(blocks(pipeline.ranks), key=lambda block: max(map(held, block)))[:STARTS]
    figures = [pipeline.figures(repeated(pipeline, block)) for block in few]
    least = min(figures, key=lambda each: (each.until_weight, each.until_input))
    return Limits(least.until_input, least.until_weight)


def repeated(pipeline: Pipeline, block: Block) -> Orders:
    """Every rank's order when a block is repeated for each microbatch.

    Assumes every action as many steps long as in the block; the pipeline's own times are for the search to heed.
    """
    return [_order(pipeline, rank, offsets) for rank, offsets in enumerate(block)]


def _order(pipeline: Pipeline, rank: int, offsets: Offsets) -> list[int]:
    """Offsets are of F down and up, then of the backwards up and down, kind after kind."""
    down, up = rank, 2 * pipeline.ranks - 1 - rank
    actions = [(down, "F"), (up, "F"), *((stage, kind) for kind in pipeline.kinds[1:] for stage in (up, down))]
    steps = [
        (step + PERIOD * microbatch, pipeline.number(stage, kind, microbatch))
        for (stage, kind), step in zip(actions, offsets, strict=True)
        for microbatch in range(pipeline.microbatches)
    ]
    return [action for _, action in sorted(steps)]
