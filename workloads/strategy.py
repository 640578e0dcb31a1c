"""What one mesh axis is used for: the hooks of a strategy, each of which does nothing by default.

A strategy checks that it fits the step, shards layers, says which share of parameters, gradients and optimizer
states a rank keeps, and weaves gathers and reductions into drafts. It never mentions schedules. With degree 1
every strategy is the identity.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from workloads.layers import Layer
from workloads.modules import Microbatch
from workloads.ops import Op

if TYPE_CHECKING:
    from workloads.lowering.draft import Draft
    from workloads.step import TrainingStep

LARGEST_DEGREE = 2**20


@dataclass(frozen=True, slots=True)
class Strategy:
    """One use of one axis, `degree` ranks wide. Subclasses add options as fields with defaults.

    `splits_batch` says that its ranks work on different sequences; `weaves` orders the weaving (low first).
    """

    axis: ClassVar[str]
    splits_batch: ClassVar[bool] = False
    weaves: ClassVar[int] = 0

    degree: int

    def __post_init__(self) -> None:
        whole = isinstance(self.degree, int) and not isinstance(self.degree, bool)
        if not whole or not 1 <= self.degree <= LARGEST_DEGREE:
            raise ValueError(f"{self.axis}={self.degree}: a degree is a whole number from 1 to {LARGEST_DEGREE}")

    def __str__(self) -> str:
        """The text that builds it: axis, degree, and the options that are not at their default."""
        options = (f"{key}={_text(value)}" for key, value in self.options())
        return ",".join([f"{self.axis}={self.degree}", *options])

    def options(self) -> Iterator[tuple[str, Any]]:
        """The options that are not at their default."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "degree" and value != field.default:
                yield field.name, value

    def warnings(self) -> Iterator[str]:
        """What the user should know; by default, that options of a degree of 1 change nothing."""
        if self.degree == 1:
            yield from (f"{self.axis}=1: {key}={_text(value)} changes nothing" for key, value in self.options())

    def check(self, step: "TrainingStep") -> None:
        """Raise ValueError, with the numbers and the rule, if the step cannot be cut this way."""

    def shard(self, layer: Layer) -> Layer:
        """The part of a layer that one rank computes."""
        return layer

    def share(self, state: str) -> float:
        """The share a rank keeps of the `parameters`, `gradients` or `optimizer` states of its sharded layers.

        Also of the `boundary`: the activation between two layers.
        """
        return 1.0

    def gathered(self, units: Sequence[float]) -> float:
        """Elements of gathered parameters and unscattered gradients at the peak, given each unit (layer) of a rank."""
        return 0.0

    def weave(self, draft: "Draft") -> None:
        """Insert gathers and reductions into the ops of an action."""

    def open(self, stage: int, parameters: float, microbatch: Microbatch) -> tuple[Op, ...]:
        """What the step begins with on a stage; its first forward waits for these ops."""
        return ()

    def close(self, stages: Sequence[float], after: tuple[str, ...], microbatch: Microbatch) -> tuple[Op, ...]:
        """What follows a rank's last backward (the ops `after`), given the gradients kept of each of its stages."""
        return ()

    def marks(self) -> tuple[str, ...]:
        """Names of the ops after which a rank's gradients are final."""
        return ()


def _text(value: Any) -> str:
    """An option's value as one types it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def check_switch(**switches: object) -> None:
    """Refuse an option that is neither on nor off.

    >>> check_switch(overlap=True)
    """
    for name, value in switches.items():
        if value is not True and value is not False:
            raise ValueError(f"{name}={value} is neither on nor off")


def nearest_multiples(value: int, step: int) -> str:
    """The positive multiples of `step` on both sides of `value`.

    >>> nearest_multiples(100, 16), nearest_multiples(3, 16)
    ('96 or 112', '16')
    """
    below = value // step * step
    return f"{below} or {below + step}" if below else str(below + step)


def nearest_divisors(number: int, value: int) -> str:
    """The divisors of `number` on both sides of `value`.

    >>> nearest_divisors(128, 3), nearest_divisors(32, 100)
    ('2 or 4', '32')
    """
    below = next(each for each in range(min(value, number), 0, -1) if number % each == 0)
    above = next((each for each in range(value, number + 1) if number % each == 0), None)
    return f"{below} or {above}" if above else str(below)
