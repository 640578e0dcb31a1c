"""Modules: the steps of a layer as one rank sees them.

A module knows its size on one rank, how a tensor split shrinks it, what it saves for the backward pass, and
its forward ops. Sizes are in elements per token (channels); a `Microbatch` turns them into bytes and FLOPs.
The tensor region of a layer lies between an `enter` and a `leave` boundary; the rest is the sequence region.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

from workloads.ops import Collective, Compute, Op

LOSS_BYTES = (16, 8)
"""Bytes read and written per logit by a cross-entropy forward: 24 in all (calibrated eager kernels)."""


@dataclass(frozen=True, slots=True)
class Microbatch:
    """The tokens of one microbatch on one rank, in sequences of `sequence` tokens, and the size of an element."""

    tokens: int
    sequence: int
    element: int = 2
    dtype: str = "bf16"

    def bytes(self, channels: float) -> float:
        """Size of an activation with so many channels."""
        return self.tokens * channels * self.element

    def gemm(self, name: str, m: float, n: float, k: float) -> Compute:
        """A product (m, k) x (k, n): 2mnk FLOPs, both factors read once, the result written once."""
        read, write = (m * k + k * n) * self.element, m * n * self.element
        shape, flops = (m, n, k), 2.0 * m * n * k
        return Compute(
            name=name, kind="gemm", flops=flops, read_bytes=read, write_bytes=write, dtype=self.dtype, shape=shape
        )

    def stream(self, name: str, kind: str, read: float, write: float) -> Compute:
        """A memory-bound kernel that reads and writes so many channels of every token; no model FLOPs."""
        return Compute(
            name=name, kind=kind, read_bytes=self.bytes(read), write_bytes=self.bytes(write), dtype=self.dtype
        )

    def collective(self, name: str, kind: str, axis: str, channels: float) -> Collective:
        """A collective over one axis whose whole buffer holds so many channels of every token."""
        return Collective(name=name, stream=axis, kind=kind, axes=(axis,), bytes=self.bytes(channels), dtype=self.dtype)


@dataclass(frozen=True, slots=True)
class Split:
    """A split of the tensor region over one axis; `sequence` also splits the tokens of the sequence region."""

    axis: str
    degree: int
    sequence: bool


def share(size: float, degree: int) -> float:
    """An even share, whole where it can be.

    >>> share(128256, 8), share(50257, 8)
    (16032, 6282.125)
    """
    return size // degree if size % degree == 0 else size / degree


@dataclass(frozen=True, slots=True)
class Module:
    """One step of a layer. `saved` counts what it keeps for the backward pass, in elements per token."""

    name: str

    @property
    def parameters(self) -> float:
        """Parameters on this rank."""
        return 0

    @property
    def saved(self) -> float:
        """Elements per token kept from forward to backward on this rank."""
        return 0

    def split(self, split: Split) -> Self:
        """The part of one rank under a tensor split."""
        raise NotImplementedError

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """Its forward ops, in order; each uses the output of the one before."""
        raise NotImplementedError


class Channels(NamedTuple):
    """Output channels that can be split at most `pieces` ways, such as heads; beyond that they are replicated."""

    size: float
    pieces: float

    def split(self, degree: int) -> "Channels":
        """The channels of one rank."""
        ways = min(degree, self.pieces)
        return Channels(share(self.size, int(ways)), share(self.pieces, int(ways)))


@dataclass(frozen=True, slots=True)
class Matmul(Module):
    """A weight matrix: `inputs` x the sum of `outputs`. It saves its input.

    `column` splits the outputs over ranks, `row` the inputs. A row-split bias is replicated. `owned=False`
    is a weight that another layer of the same rank owns (tied embeddings).
    """

    outputs: tuple[Channels, ...]
    inputs: float
    layout: Literal["column", "row"]
    bias: bool = False
    owned: bool = True
    kept: float = 0

    @property
    def width(self) -> float:
        """Output channels."""
        return sum(channels.size for channels in self.outputs)

    @property
    def parameters(self) -> float:
        """Weights and biases on this rank."""
        return self.width * (self.inputs + self.bias) if self.owned else 0

    @property
    def saved(self) -> float:
        """Its input; of a column-split weight under sequence parallelism only this rank's tokens."""
        return self.kept or self.inputs

    def split(self, split: Split) -> Self:
        """Column: a share of the outputs; row: a share of the inputs."""
        if self.layout == "row":
            return dataclasses.replace(self, inputs=share(self.inputs, split.degree))
        outputs = tuple(channels.split(split.degree) for channels in self.outputs)
        kept = share(self.inputs, split.degree) if split.sequence else self.inputs
        return dataclasses.replace(self, outputs=outputs, kept=kept)

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """One GEMM (tokens, width, inputs)."""
        return (microbatch.gemm(self.name, microbatch.tokens, self.width, self.inputs),)


@dataclass(frozen=True, slots=True)
class Attention(Module):
    """The fused attention core with a causal mask. It saves queries, keys and values; its user saves the output."""

    heads: float
    kv_heads: float
    head_dim: int

    @property
    def saved(self) -> float:
        """Queries, keys and values."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    def split(self, split: Split) -> Self:
        """A share of the heads; key and value heads are replicated once there are fewer than ranks."""
        heads, kv_heads = Channels(self.heads, self.heads), Channels(self.kv_heads, self.kv_heads)
        return dataclasses.replace(
            self, heads=heads.split(split.degree).size, kv_heads=kv_heads.split(split.degree).size
        )

    def flops(self, microbatch: Microbatch) -> float:
        """Model FLOPs of the forward pass: 4 x tokens x (sequence / 2) x heads x head_dim, the causal half."""
        return 2.0 * microbatch.tokens * microbatch.sequence * self.heads * self.head_dim

    def kernel(self, microbatch: Microbatch, name: str, kind: str, passes: tuple[int, int, int]) -> Compute:
        """The kernel `kind`: `passes` times the forward FLOPs, the query-sized reads and the query-sized writes."""
        flops, reads, writes = passes
        shape = (microbatch.tokens, microbatch.sequence, self.heads, self.head_dim)
        query, pair = self.heads * self.head_dim, 2 * self.kv_heads * self.head_dim
        return Compute(
            name=name,
            kind=kind,
            flops=flops * self.flops(microbatch),
            read_bytes=microbatch.bytes(reads * query + pair),
            write_bytes=microbatch.bytes(query + (writes - 1) * pair),
            dtype=microbatch.dtype,
            shape=shape,
        )

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """Reads queries, keys, values; writes the output."""
        return (self.kernel(microbatch, self.name, "attention", (1, 1, 1)),)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Elements per token that a memory-bound kernel moves, forward and backward."""

    read: float
    write: float
    backward_read: float
    backward_write: float

    def split(self, degree: int) -> "Traffic":
        """The traffic of one rank."""
        return Traffic(*(share(size, degree) for size in dataclasses.astuple(self)))


@dataclass(frozen=True, slots=True)
class Pointwise(Module):
    """A memory-bound kernel in the `tensor` or the `sequence` region; its own weights are replicated."""

    region: Literal["tensor", "sequence"]
    traffic: Traffic
    kept: float = 0
    weights: float = 0

    @property
    def parameters(self) -> float:
        """Weights of a norm or a table of positions."""
        return self.weights

    @property
    def saved(self) -> float:
        """What it keeps of its input."""
        return self.kept

    def split(self, split: Split) -> Self:
        """A share of the channels in the tensor region, of the tokens in the sequence region."""
        if self.region == "sequence" and not split.sequence:
            return self
        return dataclasses.replace(self, traffic=self.traffic.split(split.degree), kept=share(self.kept, split.degree))

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """One elementwise kernel."""
        return (microbatch.stream(self.name, "elementwise", self.traffic.read, self.traffic.write),)


@dataclass(frozen=True, slots=True)
class Boundary(Module):
    """Where the tensor region begins (`enter`) or ends (`leave`): nothing until a tensor split gives it a collective.

    Megatron-LM (arXiv:1909.08053): enter is the identity, leave an all-reduce. With sequence parallelism
    (arXiv:2205.05198): enter is an all-gather, leave a reduce-scatter.
    """

    channels: float
    direction: Literal["enter", "leave"]
    kind: str = "none"
    axis: str = ""

    def split(self, split: Split) -> Self:
        """The collective of this boundary."""
        kinds = {"enter": ("identity", "all_gather"), "leave": ("all_reduce", "reduce_scatter")}
        return dataclasses.replace(self, kind=kinds[self.direction][split.sequence], axis=split.axis)

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """The collective over the whole activation, if there is one."""
        return self.collective(microbatch, self.name, self.kind)

    def collective(self, microbatch: Microbatch, name: str, kind: str) -> tuple[Op, ...]:
        """A collective of this boundary's size; `identity` and `none` are no op."""
        if kind in ("identity", "none"):
            return ()
        return (microbatch.collective(name, kind, self.axis, self.channels),)


@dataclass(frozen=True, slots=True)
class Lookup(Module):
    """The embedding table. A tensor split divides the vocabulary; every rank writes all tokens, zeros for others'."""

    vocab: float
    hidden: int

    @property
    def parameters(self) -> float:
        """The rows of this rank."""
        return self.vocab * self.hidden

    def split(self, split: Split) -> Self:
        """A share of the vocabulary."""
        return dataclasses.replace(self, vocab=share(self.vocab, split.degree))

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """Gathers one row per token."""
        return (microbatch.stream(self.name, "embedding", self.hidden, self.hidden),)


@dataclass(frozen=True, slots=True)
class Loss(Module):
    """Cross-entropy over `vocab` logits per token.

    Assumes that the reductions of a vocabulary-parallel loss are one all-reduce of two FP32 numbers per token,
    ahead of its elementwise work.
    """

    vocab: float
    axis: str = ""

    def split(self, split: Split) -> Self:
        """A share of the vocabulary."""
        return dataclasses.replace(self, vocab=share(self.vocab, split.degree), axis=split.axis)

    def kernel(self, microbatch: Microbatch, name: str, traffic: tuple[int, int]) -> Compute:
        """The loss kernel with so many bytes read and written per logit."""
        read, write = (per_logit * microbatch.tokens * self.vocab for per_logit in traffic)
        return Compute(name=name, kind="loss", read_bytes=read, write_bytes=write, dtype=microbatch.dtype)

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """The reduction over the vocabulary, then 24 bytes per logit."""
        loss = self.kernel(microbatch, self.name, LOSS_BYTES)
        if not self.axis:
            return (loss,)
        size, name = 2 * microbatch.tokens * 4, f"{self.name}.statistics"
        return Collective(
            name=name, stream=self.axis, kind="all_reduce", axes=(self.axis,), bytes=size, dtype="fp32"
        ), loss
