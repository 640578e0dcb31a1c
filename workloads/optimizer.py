"""Optimizers: the bytes that they keep, and the bytes that they move, for each parameter.

Sources: mixed-precision Adam, ZeRO, arXiv:1910.02054, section 3.1 (16 bytes a parameter); with FP32 gradients,
arXiv:2205.05198 (18); DeepSpeed's estimates of model states (4 + 16 / n); BF16 moments, DeepSeek-V3, arXiv:2412.19437;
8-bit moments, arXiv:2110.02861; Muon, arXiv:2502.16982; Lion, arXiv:2302.06675.
"""

import dataclasses
from dataclasses import dataclass
from typing import Self

from workloads.checks import is_number
from workloads.plugins import as_text, parse, unknown
from workloads.stack import Stack

FULL = 4
"""Bytes of a parameter from which on it needs no master copy."""
LARGEST = 64
"""Bytes that a coefficient may be at most."""
COEFFICIENTS = ("gradients", "reduce", "master", "moments", "copy")


@dataclass(frozen=True, slots=True)
class Optimizer:
    """Bytes that an optimizer takes for each parameter; the parameter's own come with the precision.

    `gradients` are kept in so many bytes (by default as large as the parameter) and reduced over replicas in `reduce`
    bytes (by default as kept). `master` is the copy that is updated where parameters have less than 4 bytes, `moments`
    are all running averages together, `copy` a copy of the gradients that the optimizer makes. The last three are its
    states, sharded by ZeRO-1. Assumes an update that reads and writes each of them once, in one kernel; and that Muon's
    orthogonalisation takes no time (below 1 % of a step's FLOPs for large batches, says its source).

    >>> adam = Optimizer.parse("adam,gradients=4")
    >>> adam.state_bytes(2), adam.total_bytes(2), str(adam)
    (12, 18, 'adam,gradients=4')
    """

    name: str
    gradients: float | None = None
    reduce: float | None = None
    master: float = 4
    moments: float = 8
    copy: float = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """A preset with other coefficients, such as `adam,gradients=4`."""
        name, options = parse(text)
        if name not in PRESETS:
            raise ValueError(unknown("optimizer", name, PRESETS))
        for key in options:
            if key not in COEFFICIENTS:
                raise ValueError(unknown(f"coefficient of optimizer {name}", key, COEFFICIENTS))
        return cls(name, **{**PRESETS[name], **options})

    def __post_init__(self) -> None:
        for key in COEFFICIENTS:
            value, travels = getattr(self, key), key in ("gradients", "reduce")
            if travels and value is None:
                continue
            if not is_number(value) or not 0 <= value <= LARGEST or (travels and not value):
                least = "above 0" if travels else "from 0"
                raise ValueError(
                    f"{key}={as_text(value)} of optimizer {self.name}: bytes per parameter, {least} to {LARGEST}"
                )

    def __str__(self) -> str:
        given = {key: getattr(self, key) for key in COEFFICIENTS}
        usual = Optimizer(self.name, **PRESETS.get(self.name, {}))
        changed = [f"{key}={as_text(value)}" for key, value in given.items() if value != getattr(usual, key)]
        return ",".join([self.name, *changed])

    def settled(self, stack: Stack) -> Self:
        """The same with a stack's bytes of gradients where these are left open, and its copy where there is none."""
        kept = stack.gradients if self.gradients is None else self.gradients
        reduced = stack.reduce if self.reduce is None else self.reduce
        copy = self.copy or (stack.copy if self.steps else 0)
        return dataclasses.replace(self, gradients=kept, reduce=reduced, copy=copy)

    @property
    def steps(self) -> bool:
        """Whether there is an update at all; without one a step ends with its gradients."""
        return self.name != "none"

    def gradient_bytes(self, element: int) -> float:
        """What is kept of a gradient."""
        return element if self.gradients is None else self.gradients

    def reduced_bytes(self, element: int) -> float:
        """What travels of a gradient."""
        return self.gradient_bytes(element) if self.reduce is None else self.reduce

    def master_bytes(self, element: int) -> float:
        """The copy that is updated; none of parameters that are as large themselves."""
        return self.master if element < FULL else 0

    def state_bytes(self, element: int) -> float:
        """What it keeps beside parameter and gradient."""
        return self.master_bytes(element) + self.moments + self.copy

    def total_bytes(self, element: int) -> float:
        """Everything: parameter, gradient, states."""
        return element + self.gradient_bytes(element) + self.state_bytes(element)

    def read_bytes(self, element: int) -> float:
        """What an update reads: gradient, the weight that is updated, moments."""
        return self.gradient_bytes(element) + (self.master_bytes(element) or element) + self.moments + self.copy

    def written_bytes(self, element: int) -> float:
        """What an update writes: states, the parameter, the cleared gradient."""
        return self.state_bytes(element) + element + self.gradient_bytes(element)


PRESETS: dict[str, dict[str, float]] = {
    "adam": {},
    "adam_fp32_gradients": {"gradients": 4},
    "adam_deepspeed": {"copy": 4},
    "adam_bf16": {"moments": 4},
    "adam_8bit": {"master": 0, "moments": 2},
    "simple": {"master": 0, "moments": 4},
    "muon": {"moments": 4},
    "lion": {"moments": 4},
    "sgd": {"moments": 4},
    "none": {"master": 0, "moments": 0},
}
"""Presets, as what differs from mixed-precision Adam (master 4, moments 4 + 4). With parameters of 2 bytes in all:
adam 16, adam_fp32_gradients 18 (Megatron-LM), adam_deepspeed 20 (an FP32 copy of the gradients, sharded with the
states), adam_bf16 12 (BF16 moments), adam_8bit 6 (no master copy), simple 8 (four times 2), muon, lion and sgd with
momentum 12."""
