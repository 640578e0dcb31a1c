"""Software stacks: what a training framework does to a step beside the plan, as documented facts.

A stack says which kernels run and what overlaps; it holds no seconds. How fast its kernels are and how fast its host
launches them are constants of the simulator.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

from workloads.attention import IMPLEMENTATIONS
from workloads.checks import check_switch, is_number
from workloads.ops import P2P_MODES
from workloads.plugins import as_text, unknown

SWITCHES = (
    "fusion",
    "graphs",
    "fused_loss",
    "fused_optimizer",
    "eager_loss",
    "keeps_outputs",
    "overlap_gradients",
    "overlap_tensor",
    "fused_accumulation",
    "async_reduction",
    "pruned_recompute",
    "distributed_optimizer",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Facts of a software stack, each of which a step or its plan may overrule.

    `attention` is its attention kernel (see `workloads.attention`); without `fusion` elementwise kernels are several
    and move more; with `graphs` CUDA graphs launch the kernels; with `fused_loss` logits are read
    once for the loss and overwritten by their gradient; without `fused_optimizer` the update is many kernels.
    An `eager_loss` takes memory for an FP32 tensor of each of its operations; a pipeline that `keeps_outputs` holds
    what a stage has sent until its backward. The optimizer takes `copy` bytes per parameter for copies of the gradients
    of its share (if it names none itself), and gradients are reduced in flat buckets of `bucket` at once (0: in place).
    Gradients are kept in `gradients` bytes and travel in `reduce` bytes (None: as the optimizer says). Unless
    `overlap_gradients`, data parallel ranks reduce gradients and gather parameters while nothing is computed; `gather`
    is how they gather what ZeRO left in shares (see `workloads.strategies.dp`); with
    `overlap_tensor` tensor parallel collectives are pipelined with the products beside them. Without
    `fused_accumulation` a kernel of its own adds up each weight's gradient; without `async_reduction` weight gradients
    wait for the all-reduce of the input's. With `pruned_recompute` a layer that is computed again is so up to the input
    of its last product, as no gradient needs what comes after. `p2p` is its mode of messages between stages (None: that
    of the schedule). `distributed_optimizer` says that its published recipes use ZeRO-1 where nothing else is said; it
    changes no plan. `sources` say where each fact is documented.
    """

    name: str
    attention: str = "flash"
    fusion: bool = True
    graphs: bool = False
    fused_loss: bool = False
    fused_optimizer: bool = True
    eager_loss: bool = False
    keeps_outputs: bool = False
    copy: float = 0
    bucket: float = 0
    gradients: float | None = None
    reduce: float | None = None
    overlap_gradients: bool = True
    overlap_tensor: bool = False
    fused_accumulation: bool = True
    async_reduction: bool = True
    pruned_recompute: bool = False
    gather: str = "all_gather"
    p2p: str | None = None
    distributed_optimizer: bool = True
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), compare=False, repr=False)

    def __post_init__(self) -> None:
        check_switch(**{name: getattr(self, name) for name in SWITCHES})
        if self.attention not in IMPLEMENTATIONS:
            raise ValueError(unknown("attention", str(self.attention), IMPLEMENTATIONS))
        if self.p2p is not None and self.p2p not in P2P_MODES:
            raise ValueError(unknown("p2p", as_text(self.p2p), P2P_MODES))
        for name in ("gradients", "reduce"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and value > 0):
                raise ValueError(f"{name}={as_text(value)} of a stack: bytes per parameter, above 0")
        for name in ("copy", "bucket"):
            value = getattr(self, name)
            if not (is_number(value) and value >= 0):
                unit = "bytes per parameter" if name == "copy" else "parameters"
                raise ValueError(f"{name}={as_text(value)} of a stack: {unit}, a number from 0")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), {**self.facts(), "name": self.name, "sources": dict(self.sources)})

    def __str__(self) -> str:
        return self.name

    def facts(self) -> dict[str, Any]:
        """Its facts by name.

        >>> from workloads import stacks
        >>> stacks.build("megatron_2021").facts()["attention"]
        'unfused'
        """
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name in FACTS}

    def replace(self, /, **changes: Any) -> Self:
        """The same stack with other facts."""
        for key in changes:
            if key not in (*FACTS, "name"):
                raise ValueError(unknown("fact of a stack", key, FACTS))
        return dataclasses.replace(self, **changes)

    def variant(self, name: str, sources: Mapping[str, str], /, **changes: Any) -> Self:
        """The same stack with other facts, under a name of its own; `sources` say where those are documented."""
        told = MappingProxyType({**self.sources, **sources})
        return dataclasses.replace(self.replace(name=name, **changes), sources=told)


FACTS = tuple(each.name for each in dataclasses.fields(Stack) if each.name not in ("name", "sources"))


def _restored(kind: type[Stack], values: dict[str, Any]) -> Stack:
    """A stack from its pickled fields; read-only mappings do not pickle."""
    return kind(**{**values, "sources": MappingProxyType(values["sources"])})
