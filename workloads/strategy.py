"""What one mesh axis is used for: the hooks of a strategy, each of which does nothing by default.

A strategy checks that it fits the step, shards layers, says which share of parameters, gradients and optimizer
states a rank keeps, and weaves gathers and reductions into drafts. It never mentions schedules. With degree 1
every strategy is the identity.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from workloads.checks import is_whole
from workloads.layers import Layer
from workloads.microbatch import Microbatch
from workloads.ops import Op
from workloads.plugins import as_text

if TYPE_CHECKING:
    from workloads.lowering.draft import Draft
    from workloads.stack import Stack
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
        if not is_whole(self.degree, 1, LARGEST_DEGREE):
            raise ValueError(f"{self.axis}={self.degree}: a degree is a whole number from 1 to {LARGEST_DEGREE}")

    @property
    def axes(self) -> dict[str, int]:
        """The mesh axes of its ranks with their degrees, outermost first; one, unless its ranks form groups."""
        return {self.axis: self.degree}

    def __str__(self) -> str:
        """The text that builds it: axis, degree, and the options that are not at their default."""
        options = (f"{key}={as_text(value)}" for key, value in self.options())
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
            yield from (f"{self.axis}=1: {key}={as_text(value)} changes nothing" for key, value in self.options())

    def settled(self, stack: "Stack") -> Self:
        """The same with a stack's defaults where it leaves something open."""
        return self

    def check(self, step: "TrainingStep") -> None:
        """Raise ValueError, with the numbers and the rule, if the step cannot be cut this way."""

    def shard(self, layer: Layer) -> Layer:
        """The part of a layer that one rank computes."""
        return layer

    @property
    def accumulates(self) -> bool:
        """Whether gradients are reduced over its ranks in the step's last microbatch alone."""
        return False

    @property
    def regathers(self) -> bool:
        """Whether shares of parameters are gathered for every pass, and freed after it."""
        return False

    @property
    def fetches(self) -> bool:
        """Whether parameters may come from the host for every pass."""
        return True

    @property
    def reduces_late(self) -> bool:
        """Whether gradients are reduced over its ranks only after the last backward."""
        return False

    @property
    def splits_gradients(self) -> tuple[str, ...]:
        """Axes whose ranks hold different gradients once these are reduced, so that a norm adds up over them."""
        return tuple(self.axes)

    def share(self, state: str) -> float:
        """The share a rank keeps of the `parameters`, `gradients` or `optimizer` states of its sharded layers.

        Also of the gradients that are `accumulated` over microbatches, of the `boundary`, the activation between
        two layers, and of the `message` that carries it to the next stage.
        """
        return 1.0

    def received(self, microbatch: Microbatch, hidden: float) -> tuple[Op, ...]:
        """What makes a whole activation of `hidden` channels of what a stage received of it."""
        return ()

    def gathered(self, used: Sequence[float]) -> float:
        """Elements of gathered parameters at the peak, given those that each unit (layer) of a rank uses."""
        return 0.0

    def unscattered(self, units: Sequence[Sequence[float]], microbatch: Microbatch) -> float:
        """Elements of gradients at the peak that are not scattered yet.

        Given the sizes of the gradients of each unit in the order in which they become ready.
        """
        return 0.0

    def weave(self, draft: "Draft") -> None:
        """Insert gathers and reductions into the ops of an action."""

    def open(self, stage: int, parameters: float, tensors: int, microbatch: Microbatch) -> tuple[Op, ...]:
        """What the step begins with on a stage, whose parameters are so many tensors.

        The stage's first forward waits for these ops.
        """
        return ()

    @property
    def opens_ahead(self) -> bool:
        """Whether a stage waits for its own opening ops only, while those of later stages go on beside it."""
        return True

    def close(self, stages: Sequence[float], after: tuple[str, ...], microbatch: Microbatch) -> tuple[Op, ...]:
        """What follows a rank's last backward (the ops `after`), given the gradients kept of each of its stages."""
        return ()

    def marks(self) -> tuple[str, ...]:
        """Names of the ops after which a rank's gradients are final."""
        return ()
