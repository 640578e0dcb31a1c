"""How a step is cut up over ranks: strategies, outermost first."""

import math
from dataclasses import dataclass
from typing import Self

from workloads import strategies
from workloads.mesh import DeviceMesh
from workloads.plugins import parse, unknown
from workloads.stack import Stack
from workloads.strategies.pp import Pipeline
from workloads.strategies.pp import build as pipeline
from workloads.strategy import Strategy


@dataclass(frozen=True, slots=True)
class ParallelPlan:
    """Strategies, outermost first: the last axis is on neighbouring ranks.

    >>> plan = ParallelPlan.parse("pp=16,schedule=interleaved,virtual=8 dp=128,zero=1 tp=8")
    >>> plan.world_size, plan.degree("dp"), plan.degree("fsdp")
    (16384, 128, 1)
    >>> print(plan)
    pp=16,schedule=interleaved,virtual=8 dp=128,zero=1 tp=8
    """

    strategies: tuple[Strategy, ...]

    def __post_init__(self) -> None:
        if not self.strategies:
            raise ValueError("the plan is empty; write for example dp=8")
        axes = [strategy.axis for strategy in self.strategies]
        for axis in axes:
            if axes.count(axis) > 1:
                raise ValueError(f"{axis} is given {axes.count(axis)} times in {str(self)!r}; an axis is given once")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read plan text: strategies separated by blanks, each `axis=degree,option=value,…`."""
        return cls(tuple(_strategy(word) for word in text.split()))

    def __str__(self) -> str:
        return " ".join(map(str, self.strategies))

    @property
    def mesh(self) -> DeviceMesh:
        """The ranks, with one axis for each strategy, or two where its ranks form groups.

        >>> dict(ParallelPlan.parse("dp=16,zero=1,shard=8 tp=4").mesh.axes)
        {'dp': 2, 'dp_shard': 8, 'tp': 4}
        """
        return DeviceMesh({axis: degree for strategy in self.strategies for axis, degree in strategy.axes.items()})

    @property
    def world_size(self) -> int:
        """Product of all degrees."""
        return math.prod(strategy.degree for strategy in self.strategies)

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline strategy; of degree 1 where the plan has none."""
        found = next((strategy for strategy in self.strategies if isinstance(strategy, Pipeline)), None)
        return found or pipeline(1)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the strategies want the user to know."""
        return tuple(warning for strategy in self.strategies for warning in strategy.warnings())

    @property
    def inside_out(self) -> tuple[Strategy, ...]:
        """The strategies in the order in which they handle gradients: sharding before replication."""
        return tuple(sorted(self.strategies, key=lambda strategy: strategy.weaves))

    def settled(self, stack: Stack) -> Self:
        """The same plan with a stack's defaults where strategies leave something open."""
        return type(self)(tuple(strategy.settled(stack) for strategy in self.strategies))

    def degree(self, axis: str) -> int:
        """Degree of a strategy; 1 where the plan does not have it."""
        return next((strategy.degree for strategy in self.strategies if strategy.axis == axis), 1)

    def share(self, state: str) -> float:
        """The share of a state that a rank keeps under all strategies together."""
        return math.prod(strategy.share(state) for strategy in self.strategies)


def _strategy(word: str) -> Strategy:
    """One strategy from `axis=degree,option=value,…`."""
    first, options = parse(word)
    axis, equals, degree = first.partition("=")
    if axis not in strategies.names():
        raise ValueError(unknown("axis", axis, strategies.names()))
    if not equals or not degree.removeprefix("-").isdecimal():
        raise ValueError(f"{first!r} is not axis=degree; write for example {axis}=8")
    return strategies.build(axis, int(degree), **options)
