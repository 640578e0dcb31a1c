"""Changes to a step that save memory, the nearest first: what costs little time before what costs much."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from workloads import strategies
from workloads.plan import ParallelPlan
from workloads.strategies.dp import Data

if TYPE_CHECKING:
    from workloads.step import TrainingStep

Change = tuple[str, dict[str, Any]]


def remedies(step: "TrainingStep") -> Iterator[tuple[str, "TrainingStep"]]:
    """Every change that makes a legal step, as text and as the changed step.

    First a sharded optimizer, then cheap recomputation, smaller microbatches, full recomputation, sharded gradients and
    parameters, an optimizer at the host, and at last these and full recomputation together.

    >>> from workloads import TrainingStep
    >>> step = TrainingStep("llama3_8b", "dp=8", batch=16, sequence=8192, microbatch=2)
    >>> [text for text, _ in remedies(step)][:4]
    ['dp=8,zero=1', 'recompute=selective,modules=norm+activation', 'microbatch=1', 'recompute=full']
    """
    for text, fields in _changes(step):
        try:
            yield text, step.replace(**fields)
        except ValueError:
            continue


def _changes(step: "TrainingStep") -> Iterator[Change]:
    """Changes of fields, legal or not."""
    shards = list(_shards(step.plan))
    away: list[Change] = [] if step.offload else [("offload=optimizer", {"offload": "optimizer"})]
    full: Change = ("recompute=full", {"recompute": "full"})
    cheap = "selective" if step.attention == "unfused" else "selective,modules=norm+activation"
    yield from shards[:1]
    if step.recompute.mode == "none":
        yield f"recompute={cheap}", {"recompute": cheap}
    yield from ((f"microbatch={size}", {"microbatch": size}) for size in _halves(step.microbatch))
    everything = step.recompute.full and step.recompute.layers is None
    if not everything:
        yield full
    yield from (*shards[1:], *away)
    together = [] if everything else [full]
    for text, fields in (*shards, *away):
        yield from ((f"{text} with {more}", fields | added) for more, added in together)
    for text, fields in shards if away else ():
        both = (f"{text} with {away[0][0]}", fields | away[0][1])
        yield from ((f"{both[0]} and {more}", both[1] | added) for more, added in together)


def _halves(microbatch: int) -> Iterator[int]:
    """Half of a microbatch, half of that, down to one sequence."""
    while microbatch > 1:
        microbatch //= 2
        yield microbatch


def _shards(plan: ParallelPlan) -> Iterator[Change]:
    """More of the states of a replica sharded over `dp`: optimizer, gradients, parameters."""
    for index, strategy in enumerate(plan.strategies):
        if isinstance(strategy, Data) and strategy.degree > 1:
            sharded = [replace(strategy, zero=zero, overlap=True) for zero in range(strategy.zero + 1, 3)]
            axes = [each.axis for each in plan.strategies]
            more = [] if "fsdp" in axes else [strategies.build("fsdp", strategy.degree)]
            for each in (*sharded, *more):
                changed = (*plan.strategies[:index], each, *plan.strategies[index + 1 :])
                yield str(each), {"plan": ParallelPlan(changed)}
