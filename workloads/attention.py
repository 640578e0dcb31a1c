"""The attention core: one fused kernel, or the products and the softmax of an older implementation."""

import dataclasses
from dataclasses import dataclass
from typing import Self

from workloads.mask import Mask
from workloads.microbatch import Microbatch
from workloads.modules import Channels, Module, Split
from workloads.ops import Compute, Op

WHOLE = Mask()
IMPLEMENTATIONS = ("flash", "flash2", "triton", "unfused")
"""`flash` is the fastest fused kernel of an accelerator (cuDNN, FlashAttention-3), `flash2` FlashAttention-2
(arXiv:2307.08691), `triton` the kernel in Triton of 2022 that came before it; `unfused` writes all scores to memory, as
Megatron-LM did in arXiv:2205.05198."""


@dataclass(frozen=True, slots=True)
class Attention(Module):
    """Queries, keys and values in, heads out. Its user saves the output, unless it converts it.

    Unfused, it computes the whole square of scores, whatever the mask; the model FLOPs are those of the mask.
    """

    heads: float
    kv_heads: float
    head_dim: int
    mask: Mask = WHOLE
    implementation: str = "flash"
    dropout: bool = False

    @property
    def fused(self) -> bool:
        """Whether the scores never leave the chip."""
        return self.implementation != "unfused"

    def saved_input(self, microbatch: Microbatch) -> float:
        """Queries, keys and values."""
        return microbatch.bytes((self.heads + 2 * self.kv_heads) * self.head_dim)

    def saved_inner(self, microbatch: Microbatch) -> float:
        """Of an unfused core the softmax, with dropout also its mask (a byte each) and its output: 5as/h of sbh.

        Of a fused one the output, where its user keeps no more than a converted copy.
        """
        if self.fused:
            return microbatch.bytes(self.heads * self.head_dim) if microbatch.precision.casts else 0
        each = microbatch.element + (1 + microbatch.element if self.dropout else 0)
        return self._scores(microbatch) * each

    def split(self, split: Split) -> Self:
        """A share of the heads; key and value heads are replicated once there are fewer than ranks."""
        heads, kv_heads = Channels(self.heads, self.heads), Channels(self.kv_heads, self.kv_heads)
        return dataclasses.replace(
            self, heads=heads.split(split.degree).size, kv_heads=kv_heads.split(split.degree).size
        )

    def flops(self, microbatch: Microbatch) -> float:
        """Model FLOPs of the forward pass: 4 x tokens x keys of a query x heads x head_dim."""
        return 4.0 * microbatch.tokens * self.mask.keys(microbatch.sequence) * self.heads * self.head_dim

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """Reads queries, keys, values; writes the output."""
        if self.fused:
            return (self._kernel(microbatch, self.name, "attention", (1, 1, 1)),)
        return (
            self._product(microbatch, "scores", transposed=False),
            *self._pointwise(microbatch, "softmax", 1, 1),
            *(self._pointwise(microbatch, "dropout", 1, 1.5) if self.dropout else ()),
            self._product(microbatch, "context", transposed=True),
        )

    def backward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """Twice the forward's model FLOPs: one kernel, or four products around the gradient of the softmax."""
        if self.fused:
            return (self._kernel(microbatch, f"{self.name}.backward", "attention_backward", (2, 3, 2)),)
        return (
            self._product(microbatch, "softmax_gradient", transposed=False),
            self._product(microbatch, "value_gradient", transposed=True),
            *(self._pointwise(microbatch, "dropout", 1.5, 1, suffix=".backward") if self.dropout else ()),
            *self._pointwise(microbatch, "softmax", 2, 1, suffix=".backward"),
            self._product(microbatch, "query_gradient", transposed=True),
            self._product(microbatch, "key_gradient", transposed=True),
        )

    def _kernel(self, microbatch: Microbatch, name: str, kind: str, passes: tuple[int, int, int]) -> Compute:
        """The fused kernel: `passes` times the forward FLOPs, the query-sized reads and the query-sized writes."""
        flops, reads, writes = passes
        span = self.mask.span(microbatch.sequence)
        query, pair = self.heads * self.head_dim, 2 * self.kv_heads * self.head_dim
        return Compute(
            name=name,
            kind=kind,
            flops=flops * self.flops(microbatch),
            read_bytes=microbatch.bytes(reads * query + pair),
            write_bytes=microbatch.bytes(query + (writes - 1) * pair),
            dtype=microbatch.precision.unconverted,
            shape=(microbatch.tokens, span, self.heads, self.head_dim),
            variant="" if self.implementation == "flash" else self.implementation,
        )

    def _scores(self, microbatch: Microbatch) -> float:
        """Elements of the whole square of scores."""
        return microbatch.tokens * microbatch.sequence * self.heads

    def _product(self, microbatch: Microbatch, name: str, *, transposed: bool) -> Compute:
        """A product for each head: into scores (sequence, sequence, head_dim), or of scores (sequence, head_dim, …)."""
        s, d, groups = microbatch.sequence, self.head_dim, microbatch.tokens / microbatch.sequence * self.heads
        scores, heads = self._scores(microbatch), microbatch.tokens * self.heads * d
        read, write = (scores + heads, heads) if transposed else (2 * heads, scores)
        return Compute(
            name=f"{self.name}.{name}",
            kind="batched_gemm",
            flops=self.flops(microbatch) / 2,
            read_bytes=read * microbatch.element,
            write_bytes=write * microbatch.element,
            dtype=microbatch.precision.unconverted,
            shape=(groups, s, d, s) if transposed else (groups, s, s, d),
        )

    def _pointwise(
        self, microbatch: Microbatch, kind: str, read: float, write: float, *, suffix: str = ""
    ) -> tuple[Op, ...]:
        """A kernel over all scores; reads and writes in tensors of their size."""
        size = self._scores(microbatch) * microbatch.element
        return (
            Compute(
                name=f"{self.name}.{kind}{suffix}",
                kind=kind,
                read_bytes=read * size,
                write_bytes=write * size,
                dtype=microbatch.dtype,
            ),
        )
