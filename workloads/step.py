"""One training step: a model, a plan and a batch, checked against each other."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Self, TypeVar, cast

from workloads import models, stacks
from workloads.checks import check_switch, check_whole, nearest_multiples
from workloads.footprint import Footprint, Order
from workloads.microbatch import Microbatch
from workloads.offload import Offload
from workloads.optimizer import Optimizer
from workloads.plan import ParallelPlan
from workloads.plugins import as_text, unknown
from workloads.precision import PRECISIONS
from workloads.program import Program
from workloads.recompute import Recompute
from workloads.schedule import Action, Schedule
from workloads.stack import Stack
from workloads.stages import Stage, Style, build_stages, layout_text
from workloads.transformer import CONVENTIONS, Transformer

LARGEST = 10**9
USUAL = {
    "recompute": "none",
    "optimizer": "adam",
    "offload": "none",
    "stack": stacks.CURRENT,
    "attention": "None",
    "fusion": "None",
    "graphs": "None",
}
"""Options of a step that are named only where they differ from this."""
NOTHING = Recompute()
ADAM = Optimizer("adam")
NOWHERE = Offload()
STACK = stacks.build(stacks.CURRENT)

Built = TypeVar("Built")


@dataclass(frozen=True, slots=True, init=False)
class TrainingStep:
    """One optimizer step of a model, cut up by a plan.

    `batch` is global and in sequences, `microbatch` in sequences per rank, `sequence` in tokens. Model and plan
    may be given as text, and so may `recompute` (`full,every=4`: see `Recompute`) and `optimizer`
    (`adam,gradients=4`: see `Optimizer`; `none` ends the step with the gradients) and `offload`, what is kept at the
    host (`optimizer,to=nvme`: see `Offload`). `precision` is that of the GEMMs. The software `stack` says what the plan
    and the optimizer leave open (see `Stack`), and by default also these: `attention`, the implementation of the
    attention core; `fusion`, without which elementwise kernels are several and move more; `graphs`, with which the host
    launches no kernels. `convention` says how model FLOPs are counted.

    >>> step = TrainingStep("llama3_8b", plan="pp=2 dp=4 tp=2", batch=32, sequence=8192)
    >>> step.microbatches, step.tokens
    (8, 262144)
    >>> print(step)
    llama3_8b · pp=2 dp=4 tp=2 · batch 32 × sequence 8192 · microbatch 1 · bf16
    """

    model: Transformer
    plan: ParallelPlan
    batch: int
    sequence: int
    microbatch: int = 1
    precision: str = "bf16"
    recompute: Recompute = NOTHING
    optimizer: Optimizer = ADAM
    offload: Offload = NOWHERE
    stack: Stack = STACK
    attention: str | None = None
    fusion: bool | None = None
    graphs: bool | None = None
    convention: str = "causal"
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False, init=False)

    def __init__(  # noqa: PLR0913 (one argument for each field; written out because text is accepted too)
        self,
        model: str | Transformer,
        plan: str | ParallelPlan,
        batch: int,
        sequence: int,
        *,
        microbatch: int = 1,
        precision: str = "bf16",
        recompute: str | Recompute = "none",
        optimizer: str | Optimizer = "adam",
        offload: str | Offload = "none",
        stack: str | Stack = stacks.CURRENT,
        attention: str | None = None,
        fusion: bool | None = None,
        graphs: bool | None = None,
        convention: str = "causal",
    ) -> None:
        values = {
            "model": _parsed("model", Transformer, models.build, model),
            "plan": _parsed("plan", ParallelPlan, ParallelPlan.parse, plan),
            "batch": _whole(batch),
            "sequence": _whole(sequence),
            "microbatch": _whole(microbatch),
            "recompute": _parsed("recompute", Recompute, Recompute.parse, recompute),
            "optimizer": _parsed("optimizer", Optimizer, Optimizer.parse, optimizer),
            "offload": _parsed("offload", Offload, Offload.parse, offload),
            "stack": _parsed("stack", Stack, stacks.build, stack),
        }
        names = {"precision": precision, "attention": attention, "convention": convention}
        for name, value in (values | names | {"fusion": fusion, "graphs": graphs, "cache": {}}).items():
            object.__setattr__(self, name, value)
        self._check_numbers()
        self._check_names()
        self._check_batch()
        for strategy in self.settled_plan.strategies:
            strategy.check(self)
        self._check_offload()

    def __str__(self) -> str:
        size = f"batch {self.batch} × sequence {self.sequence} · microbatch {self.microbatch}"
        texts = {name: as_text(getattr(self, name)) for name in USUAL}
        options = [f"{name} {text}" for name, text in texts.items() if text != USUAL[name]]
        return " · ".join([self.model.name, str(self.plan), size, self.precision, *options])

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.init}
        return functools.partial(type(self), **fields), ()

    def replace(self, /, **changes: Any) -> Self:
        """The same step with other fields.

        >>> TrainingStep("llama3_8b", plan="dp=4", batch=32, sequence=8192).replace(plan="dp=8").microbatches
        4
        """
        known = [each.name for each in dataclasses.fields(self) if each.init]
        for name in changes:
            if name not in known:
                raise ValueError(unknown("field of a step", name, known))
        return dataclasses.replace(self, **changes)

    @property
    def software(self) -> Stack:
        """The stack with what the step itself says."""
        own = {name: getattr(self, name) for name in ("attention", "fusion", "graphs")}
        return self._once(
            "software", lambda: self.stack.replace(**{name: each for name, each in own.items() if each is not None})
        )

    @property
    def settled_plan(self) -> ParallelPlan:
        """The plan with the stack's defaults where it leaves something open."""
        return self._once("settled plan", lambda: self.plan.settled(self.stack))

    @property
    def settled_optimizer(self) -> Optimizer:
        """The optimizer with the stack's bytes of gradients where it leaves them open."""
        return self._once("settled optimizer", lambda: self.optimizer.settled(self.stack))

    def program(self) -> Program:
        """What every rank does, lowered once and kept."""
        from workloads.lowering.lower import lower

        return self._once("program", lambda: lower(self))

    def footprints(self) -> Mapping[tuple[int, ...], Footprint]:
        """What the memory of each pp coordinate holds, known without lowering the step."""
        from workloads.memory import footprints

        return self._once("footprints", lambda: footprints(self))

    def program_orders(self) -> Mapping[tuple[int, ...], Order]:
        """The actions of each pp coordinate, as its footprint takes them."""
        orders = self.schedule.orders.items()
        return {(rank,): [_entry(action) for action in order] for rank, order in orders}

    def remedies(self) -> Iterator[tuple[str, "TrainingStep"]]:
        """Changes that save memory, as text and as the changed step, the nearest first."""
        from workloads.remedies import remedies

        return remedies(self)

    @property
    def tokens(self) -> int:
        """Tokens of the step over all ranks."""
        return self.batch * self.sequence

    @property
    def microbatches(self) -> int:
        """Microbatches of one replica."""
        return self.batch // (self._replicas() * self.microbatch)

    @property
    def rank_microbatch(self) -> Microbatch:
        """One microbatch, before a tensor split."""
        precision, optimizer = PRECISIONS[self.precision], self.settled_optimizer
        kept, reduced = optimizer.gradient_bytes(precision.element), optimizer.reduced_bytes(precision.element)
        return Microbatch(self.microbatch * self.sequence, self.sequence, precision, kept, reduced)

    @property
    def schedule(self) -> Schedule:
        """The pipeline schedule."""
        return self._once("schedule", lambda: self.settled_plan.pipeline.order(self.microbatches))

    @property
    def layer_counts(self) -> tuple[int, ...]:
        """Layers of each stage."""
        weights = self.schedule.weights
        counts = self.plan.pipeline.split(self.model.layers, len(set(weights)))
        return tuple(counts[each] for each in weights)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Every stage with the layers that one rank computes."""
        style = Style(self.software.attention, self.software.fusion, self.software.fused_loss)
        strategies = self.settled_plan.strategies
        return self._once(
            "stages", lambda: build_stages(self.model, self.layer_counts, self.schedule, strategies, style)
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know of the plan, the schedule and the split."""
        counts = self.plan.pipeline.split(self.model.layers, len(set(self.schedule.weights)))
        text = f"{sum(counts)} layers are split unevenly over {len(counts)} stages: {layout_text(counts)}"
        uneven = [text] if len(set(counts)) > 1 else []
        return (*self.plan.warnings, *self.schedule.warnings, *uneven, *self._idle_recompute())

    @property
    def has_transient_parameters(self) -> bool:
        """Whether parameters come to the accelerator for every pass and leave it again."""
        return self.offload.keeps("parameters") or any(strategy.regathers for strategy in self.plan.strategies)

    def has_tied_copy(self, stages: Iterable[int]) -> bool:
        """Whether these stages hold one of two copies of a tied embedding, at the ends of the only chain."""
        first, *_, last = (*self.schedule.chains[0], *self.schedule.chains[-1])
        apart = self.schedule.placement[first] != self.schedule.placement[last]
        return bool(self.model.tied and self.model.vocab and apart and {first, last} & set(stages))

    def _once(self, name: str, build: Callable[[], Built]) -> Built:
        """Build a value on first use and keep it."""
        if name not in self.cache:
            self.cache[name] = build()
        return cast(Built, self.cache[name])

    def _idle_recompute(self) -> Iterator[str]:
        """Recomputation that frees nothing."""
        if "attention" in self.recompute.modules and self.software.attention != "unfused":
            others = "" if len(self.recompute.modules) > 1 else "; modules=norm+mlp would free some"
            yield f"recompute={self.recompute} repeats fused attention, which keeps no scores to be freed{others}"
        if self.recompute.full and self.recompute.layers == 0 and not self.recompute.head:
            yield f"recompute={self.recompute} recomputes nothing"
        most = max(self.layer_counts)
        for name in ("layers", "every"):
            given = getattr(self.recompute, name)
            if isinstance(given, int) and given > most:
                yield f"{name}={given} of recompute={self.recompute}: no stage has more than {most} layers"
        if self.recompute.head and not self.model.vocab:
            yield f"recompute={self.recompute}: head=on changes nothing, {self.model.name} has no head"

    def _replicas(self) -> int:
        """Ranks that work on different sequences."""
        return math.prod(strategy.degree for strategy in self.plan.strategies if strategy.splits_batch)

    def _check_numbers(self) -> None:
        for name in ("batch", "sequence", "microbatch"):
            check_whole(name, getattr(self, name), 1, LARGEST)
        self.model.check_sequence(self.sequence)

    def _check_names(self) -> None:
        check_switch(fusion=self.software.fusion, graphs=self.software.graphs)
        known = {"precision": PRECISIONS, "convention": CONVENTIONS}
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise ValueError(unknown(name, str(getattr(self, name)), values))

    def _check_batch(self) -> None:
        """Every replica gets the same number of whole microbatches."""
        each = self._replicas() * self.microbatch
        if self.batch % each:
            split = [f"{strategy.axis} {strategy.degree}" for strategy in self.plan.strategies if strategy.splits_batch]
            product = " × ".join([*split, f"microbatch {self.microbatch}"])
            raise ValueError(
                f"batch={self.batch} is not divisible by {product} = {each}; "
                f"nearest: {nearest_multiples(self.batch, each)}"
            )

    def _check_offload(self) -> None:
        """Gradients that leave in every microbatch, or while the backward pass goes on, have to be reduced by then.

        Parameters that are at the host are updated there, and whole or in the same shares.
        """
        if not self.offload:
            return
        if not self.optimizer.steps:
            raise ValueError(f"offload={self.offload}: with optimizer=none there is nothing to update at the host")
        for typed, strategy in zip(self.plan.strategies, self.settled_plan.strategies, strict=True):
            if self.offload.keeps("parameters") and strategy.degree > 1 and not strategy.fetches:
                raise ValueError(
                    f"offload={self.offload} fetches parameters for every pass, whole or in shares that are gathered "
                    f"for every pass, and {typed} has neither; use dp with zero=0 or fsdp with reshard=on"
                )
            if strategy.degree > 1 and strategy.splits_batch:
                once = strategy.accumulates and self.offload.keeps("gradients") and self.microbatches > 1
                if once or strategy.reduces_late:
                    why = "in every microbatch" if once else "as they become complete"
                    raise ValueError(
                        f"offload={self.offload} sends gradients {why}, but {typed} reduces them at the end of the "
                        f"step; {'use zero=2 or fsdp with sync=on' if once else 'use overlap=on'}"
                    )


def _entry(action: Action) -> tuple[tuple[Any, ...], int]:
    """An action as an entry of a program's order."""
    first, *others = ((each.stage, each.kind, "") for each in action.singles)
    return (*first, *others), action.microbatch


def _parsed(name: str, kind: type[Built], read: Callable[[str], Built], value: Any) -> Built:
    """A value of a kind, or the text of one."""
    if isinstance(value, str):
        return read(value)
    if not isinstance(value, kind):
        raise ValueError(f"{name}={value!r} is neither text nor {kind.__name__}")  # noqa: TRY004
    return value


def _whole(value: Any) -> Any:
    """Whole numbers of any kind, numpy's too, as plain ones; everything else as it is, to be refused."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value
