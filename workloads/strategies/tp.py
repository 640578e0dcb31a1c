"""Tensor parallelism: attention by heads, feed-forward by columns then rows, the vocabulary in shares.

Sources: Megatron-LM, arXiv:1909.08053; sequence parallelism, arXiv:2205.05198. Assumes that the gradients of
the replicated norms need no collective of their own (they are 1e-4 of a layer's). Messages between stages in shares
that are gathered again: arXiv:2104.04473, section 4.1 (scatter/gather), and DeepSpeed's partitioned pipeline tensors.
Overlap: Transformer Engine's user buffers (Megatron-LM's --tp-comm-overlap), and asynchronous tensor parallelism of
PyTorch. Assumes that a product in pieces takes as long as a whole one, that all pieces of a scatter but the last may
travel from the start of the product that makes them, and that embedding and head are not overlapped.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from workloads.checks import check_switch, nearest_divisors, nearest_multiples
from workloads.layers import Layer
from workloads.microbatch import Microbatch
from workloads.modules import Split
from workloads.ops import Op
from workloads.strategy import Strategy

if TYPE_CHECKING:
    from workloads.stack import Stack
    from workloads.step import TrainingStep
    from workloads.transformer import Transformer


@dataclass(frozen=True, slots=True)
class Tensor(Strategy):
    """`sp` (sequence parallelism) also splits the tokens between the tensor regions.

    With `overlap` the gather before a product and the scatter after it go in as many pieces as there are ranks, and all
    pieces but one run beside the product: forward, and before the gradient of a row-split product (None: as the stack).
    Without `sp`, with `scatter` every rank sends a share of the activation to the next stage, which gathers it.
    """

    axis: ClassVar[str] = "tp"

    sp: bool = True
    overlap: bool | None = None
    scatter: bool = True

    def settled(self, stack: "Stack") -> Self:
        """Overlap as the stack has it, where it is left open; without sequence parallelism there is none."""
        return self if self.overlap is not None else replace(self, overlap=stack.overlap_tensor and self.sp)

    def check(self, step: "TrainingStep") -> None:
        """Heads, key-value heads, feed-forward channels and (with `sp`) tokens divide evenly."""
        self._check_heads(step.model)
        if step.model.ffn % self.degree:
            near = nearest_divisors(step.model.ffn, self.degree)
            raise ValueError(f"ffn={step.model.ffn} is not divisible by tp={self.degree}; nearest tp: {near}")
        tokens = step.sequence * step.microbatch
        if self.sp and tokens % self.degree:
            near = nearest_multiples(tokens, self.degree)
            raise ValueError(
                f"sequence {step.sequence} × microbatch {step.microbatch} = {tokens} tokens are not divisible by "
                f"tp={self.degree}, as sp needs; nearest: {near} tokens, or sp=off"
            )

    def _check_heads(self, model: "Transformer") -> None:
        if model.heads % self.degree:
            near = nearest_divisors(model.heads, self.degree)
            raise ValueError(f"heads={model.heads} are not divisible by tp={self.degree}; nearest tp: {near}")
        kv_heads = model.kv_heads
        if kv_heads % self.degree and self.degree % kv_heads:
            legal = [
                t for t in range(1, model.heads + 1) if model.heads % t == 0 and not (kv_heads % t and t % kv_heads)
            ]
            below, above = max(t for t in legal if t < self.degree), [t for t in legal if t > self.degree][:1]
            near = " or ".join(map(str, [below, *above]))
            raise ValueError(f"kv_heads={kv_heads} and tp={self.degree} do not divide each other; nearest tp: {near}")

    def shard(self, layer: Layer) -> Layer:
        """Every module's share; the boundaries get their collectives."""
        overlap = bool(self.overlap) and layer.kind == "layer"
        return layer if self.degree == 1 else layer.split(Split(self.axis, self.degree, self.sp, overlap))

    def share(self, state: str) -> float:
        """With `sp` a rank holds its tokens of the activation between layers only, and sends these alone.

        Without it, with `scatter` it still sends no more than its share.
        """
        shared = {"boundary": self.sp, "message": self.sp or self.scatter}
        return 1 / self.degree if shared.get(state) else 1.0

    def received(self, microbatch: Microbatch, hidden: float) -> tuple[Op, ...]:
        """Without `sp`, what was sent in shares is gathered again."""
        if self.degree == 1 or self.sp or not self.scatter:
            return ()
        return (microbatch.collective("recv.gather", "all_gather", self.axis, hidden),)


def build(degree: int, sp: bool = True, overlap: bool | None = None, scatter: bool = True) -> Strategy:
    """Tensor parallelism of `degree` ranks, with sequence parallelism unless `sp=off`."""
    check_switch(sp=sp, scatter=scatter)
    if overlap is not None:
        check_switch(overlap=overlap)
    if overlap and not sp:
        raise ValueError("overlap=on of tp pipelines the gathers and scatters of sequence parallelism; use sp=on")
    return Tensor(degree, sp, overlap, scatter)
