"""Changes to a step that save memory, and combinations of them: what costs little time before what costs much."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from workloads import strategies
from workloads.plan import ParallelPlan
from workloads.strategies.dp import Data
from workloads.strategy import Strategy

if TYPE_CHECKING:
    from workloads.step import TrainingStep

ZERO = {1: 0.01, 2: 0.05}
FSDP, CHEAP, FULL, HALF, AWAY = 0.10, 0.05, 0.33, 0.03, 1.0
"""What changes cost, as shares of a step's time. Assumes that they add up, and that they are the same for every step:
nearly nothing for an optimizer in shares, more for gradients that are scattered in every microbatch and for parameters
gathered in it, a third for another forward pass, little for smaller microbatches, most for the way to a host."""


class Change(NamedTuple):
    """Fields of a step with other values, and what that costs."""

    price: float
    texts: tuple[str, ...]
    fields: dict[str, Any]

    def __str__(self) -> str:
        first, *others = self.texts
        *before, last = others or ("",)
        return f"{first} with {', '.join(before)} and {last}" if before else f"{first} with {last}" if last else first


NOTHING = Change(0.0, (), {})


def remedies(step: "TrainingStep") -> Iterator[tuple[str, "TrainingStep"]]:
    """Every combination of changes that makes a legal step, the cheapest first, as text and as the changed step.

    More of the states of replicas in shares, cheap or full recomputation, smaller microbatches, an optimizer at the
    host.

    >>> from workloads import TrainingStep
    >>> step = TrainingStep("llama3_8b", "dp=8", batch=16, sequence=8192, microbatch=2)
    >>> [text for text, _ in remedies(step)][:4]
    ['dp=8,zero=1', 'microbatch=1', 'dp=8,zero=1 with microbatch=1', 'recompute=selective,modules=norm+activation']
    """
    for change in sorted(_combinations(step), key=lambda each: (each.price, len(each.texts))):
        try:
            yield str(change), step.replace(**change.fields)
        except ValueError:
            continue


def _combinations(step: "TrainingStep") -> Iterator[Change]:
    """Some change or none of every kind, at least one in all; legal or not."""
    for parts in product(_shards(step.plan), _recomputations(step), _microbatches(step), _offloads(step)):
        fields = {key: value for part in parts for key, value in part.fields.items()}
        if fields:
            yield Change(math.fsum(part.price for part in parts), sum((part.texts for part in parts), ()), fields)


def _shards(plan: ParallelPlan) -> Iterator[Change]:
    """More of the states of a replica sharded over `dp`: optimizer, gradients, parameters."""
    yield NOTHING
    for index, strategy in enumerate(plan.strategies):
        if isinstance(strategy, Data) and strategy.degree > 1:
            more = {zero: _with(strategy, zero) for zero in range(strategy.zero + 1, 3)}
            priced: list[tuple[float, Strategy]] = [(ZERO[zero], each) for zero, each in more.items()]
            if "fsdp" not in [each.axis for each in plan.strategies]:
                priced.append((FSDP, strategies.build("fsdp", strategy.degree)))
            for price, each in priced:
                changed = (*plan.strategies[:index], each, *plan.strategies[index + 1 :])
                yield Change(price, (str(each),), {"plan": ParallelPlan(changed)})


def _with(strategy: Data, zero: int) -> Data:
    """The same with more in shares: ZeRO-2 always overlaps and knows no groups, the rest is as the user has it."""
    changed = replace(strategy, zero=zero)
    return replace(changed, overlap=strategy.overlap or None, group=None) if zero == 2 else changed


def _recomputations(step: "TrainingStep") -> Iterator[Change]:
    """What is cheap to compute again, where nothing is yet; everything, where not all of it is."""
    yield NOTHING
    cheap = "selective" if step.software.attention == "unfused" else "selective,modules=norm+activation"
    prices = {cheap: CHEAP} if step.recompute.mode == "none" else {}
    if not (step.recompute.full and step.recompute.layers is None):
        prices["full"] = FULL
    yield from (Change(price, (f"recompute={text}",), {"recompute": text}) for text, price in prices.items())


def _microbatches(step: "TrainingStep") -> Iterator[Change]:
    """Half of a microbatch, half of that, down to one sequence."""
    yield NOTHING
    size, price = step.microbatch, 0.0
    while size > 1:
        size, price = size // 2, price + HALF
        yield Change(price, (f"microbatch={size}",), {"microbatch": size})


def _offloads(step: "TrainingStep") -> Iterator[Change]:
    """The optimizer at the host."""
    yield NOTHING
    if not step.offload:
        yield Change(AWAY, ("offload=optimizer",), {"offload": "optimizer"})
