"""Pipeline parallelism: ranks hold stages of consecutive layers, and a schedule orders their microbatches."""

import dataclasses
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from workloads.checks import check_switch
from workloads.ops import P2P_MODES
from workloads.plugins import as_text, unknown
from workloads.schedule import Schedule
from workloads.stages import layers_per_stage, layout_text, read_layout
from workloads.strategy import Strategy

if TYPE_CHECKING:
    from workloads.stack import Stack
    from workloads.step import TrainingStep

KEPT = 8
"""Schedules that are kept, the latest ones."""
OPTIONS = ("schedule", "layers", "p2p", "account_for_embedding", "account_for_loss")


@dataclass(frozen=True, slots=True)
class Pipeline(Strategy):
    """`schedule` by name, `layers` as layout text such as 7-8x14-7, and the schedule's own options.

    `p2p` says who is held by a message (see `workloads.ops.P2P`), by default as the stack does, or else as in the
    framework that runs the schedule. `account_for_embedding` and `account_for_loss` count embedding and head as a layer
    each when layers are split evenly, as Megatron-LM's options of these names do.
    """

    axis: ClassVar[str] = "pp"

    schedule: str = "one_f_one_b"
    layers: str | None = None
    p2p: str | None = None
    account_for_embedding: bool = False
    account_for_loss: bool = False
    extra: tuple[tuple[str, Any], ...] = ()

    def options(self) -> Iterator[tuple[str, Any]]:
        """The schedule's options are written like its own."""
        given = ((field.name, getattr(self, field.name), field.default) for field in dataclasses.fields(self)[1:-1])
        yield from ((name, value) for name, value, default in given if value != default)
        yield from self.extra

    def settled(self, stack: "Stack") -> Self:
        """Messages as the stack sends them, where that is left open."""
        return self if self.p2p is not None else dataclasses.replace(self, p2p=stack.p2p)

    def check(self, step: "TrainingStep") -> None:
        """The layers fit the stages."""
        self.split(step.model.layers, len(set(step.schedule.weights)))

    def split(self, layers: int, stages: int) -> tuple[int, ...]:
        """Layers of each stage (each set of weights)."""
        ends = (self.account_for_embedding, self.account_for_loss) if self.degree > 1 else (False, False)
        return layers_per_stage(layers, stages, self.layout, ends)

    @property
    def layout(self) -> str | None:
        """The layout text; none on a single rank, where it changes nothing."""
        return self.layers if self.degree > 1 else None

    def order(self, microbatches: int) -> Schedule:
        """The schedule for so many microbatches; a single rank has one stage whatever the options say."""
        if self.degree == 1:
            return _scheduled("one_f_one_b", 1, microbatches)
        schedule = _scheduled(self.schedule, self.degree, microbatches, **dict(self.extra))
        return schedule if self.p2p is None else dataclasses.replace(schedule, p2p=self.p2p)


@lru_cache(maxsize=KEPT, typed=True)
def _scheduled(name: str, stages: int, microbatches: int, **options: Any) -> Schedule:
    """A schedule, kept for steps that have the same one: a large one, or one by search, takes a second to make."""
    from workloads import schedules

    return schedules.build(name, stages, microbatches, **options)


def build(  # noqa: PLR0917 (one argument for each option)
    degree: int,
    schedule: str = "one_f_one_b",
    layers: str | int | None = None,
    p2p: str | None = None,
    account_for_embedding: bool = False,
    account_for_loss: bool = False,
    **extra: Any,
) -> Pipeline:
    """Pipeline parallelism of `degree` ranks; further options go to the schedule (virtual, group, strict …).

    Aliases, the order of options and options at their default make no difference.

    >>> print(build(4, schedule="1f1b"), build(4, schedule="interleaved", group=8, virtual=2))
    pp=4 pp=4,schedule=interleaved,group=8
    """
    from workloads import schedules

    schedule = as_text(schedule)
    defaults = schedules.defaults(schedule)
    for key, value in extra.items():
        if key not in defaults:
            owners = [name for name in schedules.names() if key in schedules.defaults(name)]
            hint = f"; {key} is an option of schedule={' and schedule='.join(owners)}" if owners else ""
            what = f"option of pp,schedule={schedule}"
            raise ValueError(unknown(what, key, [*OPTIONS, *defaults]) + hint)
        if not isinstance(value, Hashable):
            raise ValueError(f"{key}={value!r} of schedule={schedule} is neither a number nor a word")  # noqa: TRY004
    changed = ((key, extra[key]) for key in defaults if key in extra and not _same(extra[key], defaults[key]))
    layout = None if layers is None else layout_text(read_layout(as_text(layers)))
    if p2p is not None and p2p not in P2P_MODES:
        raise ValueError(unknown("p2p", as_text(p2p), P2P_MODES))
    check_switch(account_for_embedding=account_for_embedding, account_for_loss=account_for_loss)
    if layout and (account_for_embedding or account_for_loss):
        raise ValueError(f"layers={layout} says what every stage has; account_for_… is for an even split")
    name = schedules.resolve(schedule)
    return Pipeline(degree, name, layout, p2p, account_for_embedding, account_for_loss, tuple(changed))


def _same(value: object, default: object) -> bool:
    """Equal and of one type: `strict=1` is not `strict=on`, and is for the schedule to refuse."""
    return value == default and type(value) is type(default)
