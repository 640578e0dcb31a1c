"""Recomputation: which activations are dropped after the forward pass and computed again for the backward pass.

Sources: arXiv:1604.06174 (checkpoints every sqrt(N) layers), arXiv:2205.05198 (selective), Megatron-LM's methods
uniform and block, PyTorch's activation checkpointing.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from workloads.checks import check_switch, is_whole
from workloads.plugins import as_text, parse, unknown

MODES = ("none", "selective", "full")
SQRT = "sqrt"


class Target(NamedTuple):
    """What a name in `modules=` means: the modules that are computed again, and whether their output is dropped too.

    Of `halved` ones half the output channels are kept, the others computed again.
    """

    modules: tuple[str, ...]
    drops_output: bool = True
    halved: tuple[str, ...] = ()


TARGETS = {
    "attention": (Target(("attention",), drops_output=False),),
    "norm": (Target(("norm1",)), Target(("norm2",))),
    "activation": (Target(("activation",)),),
    "mlp": (Target(("enter2", "gate_up", "up", "activation")),),
    "op": (
        Target(("norm1",)),
        Target(("rope", "qkv_bias")),
        Target(("proj",)),
        Target(("residual1", "norm2", "enter2", "gate_up", "activation"), halved=("gate_up",)),
    ),
}
"""What can be recomputed selectively: the attention core (its scores; the output is kept, as in Megatron-LM), outputs
of norms and of the activation, the feed-forward network up to its last product; `op`, every operator but attention and
every second product, as torchtitan's selective option of this name does. Assumes that of the products in between these
are the output projection and half of gate and up, which have 0.95 of their FLOPs in Llama 3 8B."""


@dataclass(frozen=True, slots=True)
class Recompute:
    """What is recomputed.

    `none`; `selective`, the `modules` of every layer (the attention core unless said otherwise, joined by +); `full`,
    whole layers: only the input of every group of `every` layers is kept (`sqrt`: the square root of a stage's
    layers), of the first `layers` layers of each stage (Megatron-LM's method block; by default of all), and with
    `head` of the head, too.

    >>> Recompute.parse("full,every=4").groups(10)
    [range(0, 4), range(4, 8), range(8, 10)]
    >>> Recompute.parse("full,every=sqrt,layers=9").groups(16), str(Recompute.parse("selective,modules=attention"))
    ([range(0, 4), range(4, 8), range(8, 9)], 'selective')
    """

    mode: str = "none"
    modules: tuple[str, ...] = ()
    every: int | str = 1
    layers: int | None = None
    head: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read text such as `full,every=4` or `selective,modules=norm+activation`."""
        mode, options = parse(text)
        if mode not in MODES:
            raise ValueError(unknown("recompute", mode, MODES))
        known = {"selective": ("modules",), "full": ("every", "layers", "head")}.get(mode, ())
        for key in options:
            if not known:
                raise ValueError(f"recompute={mode} has no options, and so no {key}")
            if key not in known:
                raise ValueError(unknown(f"option of recompute={mode}", key, known))
        modules = tuple(str(options.pop("modules", "attention")).split("+")) if mode == "selective" else ()
        return cls(mode, modules, **options)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(unknown("recompute", str(self.mode), MODES))
        if bool(self.modules) != (self.mode == "selective"):
            raise ValueError(f"recompute={self.mode} of modules={self.modules}: selective alone names modules")
        if not self.full and (self.every, self.layers, self.head) != (1, None, False):
            raise ValueError(f"recompute={self.mode}: every, layers and head are options of full")
        for name in self.modules:
            if name not in TARGETS:
                raise ValueError(unknown("module to recompute", name, TARGETS))
        if (
            len(set(self.modules)) < len(self.modules)
            or ({"mlp", "activation"} <= set(self.modules))
            or ("op" in self.modules and len(self.modules) > 1)
        ):
            why = "op includes all others" if "op" in self.modules else "mlp includes the activation"
            raise ValueError(f"modules={'+'.join(self.modules)} recomputes a module twice; {why}")
        if self.every != SQRT and not is_whole(self.every, 1):
            raise ValueError(f"every={as_text(self.every)}: layers a checkpoint, a whole number from 1 or sqrt")
        if self.layers is not None and not is_whole(self.layers, 0):
            raise ValueError(f"layers={as_text(self.layers)}: layers of each stage to recompute, a whole number")
        check_switch(head=self.head)

    def __str__(self) -> str:
        options = [] if self.modules in ((), ("attention",)) else [f"modules={'+'.join(self.modules)}"]
        options += [] if self.every == 1 else [f"every={self.every}"]
        options += [] if self.layers is None else [f"layers={self.layers}"]
        return ",".join([self.mode, *options, *(["head=on"] if self.head else [])])

    @property
    def full(self) -> bool:
        """Whether whole layers are recomputed."""
        return self.mode == "full"

    @property
    def targets(self) -> tuple[Target, ...]:
        """Stretches of modules within a layer that are recomputed."""
        return tuple(target for name in self.modules for target in TARGETS[name])

    def groups(self, layers: int) -> list[range]:
        """The layers of a stage that are recomputed, in groups of which only the input is kept."""
        if not self.full or not layers:
            return []
        count = layers if self.layers is None else min(self.layers, layers)
        every = max(1, round(math.sqrt(layers))) if isinstance(self.every, str) else self.every
        return [range(first, min(first + every, count)) for first in range(0, count, every)]


class Account(NamedTuple):
    """Layer forwards computed in all, and activations kept at most, in layers."""

    forwards: int
    kept: int


def naive_recompute(layers: int, checkpoints: int) -> Account:
    """The textbook account of a chain of `layers` layers with `checkpoints` activations kept.

    Each layer's backward starts again from the checkpoint before it and keeps nothing on the way, so that a stretch
    of n layers costs n (n + 1) / 2 forwards: O(N^2 / C) compute for O(C) memory. With one checkpoint, the input,
    O(N^2) and O(1); with sqrt(N) O(N sqrt(N)) and O(sqrt(N)); with all kept O(N) and O(N). What frameworks do instead,
    one more forward at most, is what `TrainingStep(recompute=…)` simulates.

    >>> naive_recompute(16, 1), naive_recompute(16, 4), naive_recompute(16, 16)
    (Account(forwards=136, kept=1), Account(forwards=40, kept=4), Account(forwards=16, kept=16))
    """
    if not is_whole(layers, 1) or not is_whole(checkpoints, 1, layers):
        raise ValueError(f"checkpoints={checkpoints} of layers={layers}: whole numbers, from 1 to the layers")
    return Account(sum(length * (length + 1) // 2 for length in _stretches(layers, checkpoints)), checkpoints)


def _stretches(layers: int, checkpoints: int) -> Iterator[int]:
    """Lengths of the stretches between checkpoints, as even as they can be."""
    for number in range(checkpoints):
        yield (number + 1) * layers // checkpoints - number * layers // checkpoints
