"""Modules: the steps of a layer as one rank sees them.

A module knows its size on one rank, how a tensor split shrinks it, what it saves for the backward pass, and its forward
and backward ops. Sizes are in elements per token (channels); a `Microbatch` turns them into bytes and FLOPs.
The tensor region of a layer lies between an `enter` and a `leave` boundary; the rest is the sequence region.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

from workloads.microbatch import Microbatch
from workloads.ops import Collective, Compute, Op

TRANSPOSED = {
    "all_gather": "reduce_scatter",
    "reduce_scatter": "all_gather",
    "identity": "all_reduce",
    "all_reduce": "identity",
    "none": "none",
}
"""Collectives of a boundary, and what they become in the backward pass."""
LOSS_BYTES = (16, 8)
"""Bytes read and written per logit by a cross-entropy forward: 24 in all (calibrated eager kernels)."""
LOSS_BACKWARD_BYTES = (8, 4)
"""The same backward: 12 in all."""
FUSED_LOSS_BYTES = (2, 0), (2, 2)
"""Forward and backward of a fused one (flash-attn, Transformer Engine, Liger): BF16 logits are read once each, and
their gradient takes their place."""


@dataclass(frozen=True, slots=True)
class Split:
    """A split of the tensor region over one axis; `sequence` also splits the tokens of the sequence region.

    With `overlap` the collectives next to products are pipelined with them.
    """

    axis: str
    degree: int
    sequence: bool
    overlap: bool = False


def share(size: float, degree: int) -> float:
    """An even share, whole where it can be.

    >>> share(128256, 8), share(50257, 8)
    (16032, 6282.125)
    """
    return size // degree if size % degree == 0 else size / degree


@dataclass(frozen=True, slots=True)
class Module:
    """One step of a layer."""

    name: str

    @property
    def parameters(self) -> float:
        """Parameters on this rank."""
        return 0

    def saved_input(self, microbatch: Microbatch) -> float:
        """Bytes of its input that it keeps from forward to backward, on this rank."""
        return 0

    def saved_inner(self, microbatch: Microbatch) -> float:
        """Bytes of its own intermediate results that it keeps."""
        return 0

    def saved_factors(self, microbatch: Microbatch) -> float:
        """Bytes that its weight gradient still needs once its input gradient is known: input and output gradient."""
        return 0

    def converted(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """What makes the input that it keeps from the output of the module before, where these differ."""
        return ()

    def split(self, split: Split) -> Self:
        """The part of one rank under a tensor split."""
        raise NotImplementedError

    def half(self) -> Self:
        """The same with half of its output channels."""
        raise NotImplementedError

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """Its forward ops, in order; each uses the output of the one before."""
        raise NotImplementedError

    def backward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """Its backward ops, likewise; a product of weights has two gradients and is transposed apart."""
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
    is a weight that another layer of the same rank owns (tied embeddings). A `narrow` one is computed in the
    precision's format for GEMMs, and keeps its input in it. Assumes that tokens are gathered before they are converted,
    in the backward pass after it, and that the accumulation of gradients over microbatches is part of the product.
    """

    outputs: tuple[Channels, ...]
    inputs: float
    layout: Literal["column", "row"]
    bias: bool = False
    owned: bool = True
    kept: float = 0
    narrow: bool = True

    @property
    def width(self) -> float:
        """Output channels."""
        return sum(channels.size for channels in self.outputs)

    @property
    def parameters(self) -> float:
        """Weights and biases on this rank."""
        return self.width * (self.inputs + self.bias) if self.owned else 0

    @property
    def weights(self) -> float:
        """Elements of the matrix on this rank, without bias, wherever they are owned."""
        return self.width * self.inputs

    def saved_input(self, microbatch: Microbatch) -> float:
        """Its input; of a column-split weight under sequence parallelism only this rank's tokens."""
        element = microbatch.precision.operand if self.narrow else microbatch.element
        return microbatch.tokens * (self.kept or self.inputs) * element

    def saved_factors(self, microbatch: Microbatch) -> float:
        """Both factors of the product that makes the gradient."""
        element = microbatch.precision.operand if self.narrow else microbatch.element
        return self.saved_input(microbatch) + microbatch.tokens * self.width * element

    def converted(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """A narrow one's conversion of the tokens that it keeps."""
        return microbatch.casts(f"{self.name}.cast", self.kept or self.inputs) if self.narrow else ()

    def split(self, split: Split) -> Self:
        """Column: a share of the outputs; row: a share of the inputs."""
        if self.layout == "row":
            return dataclasses.replace(self, inputs=share(self.inputs, split.degree))
        outputs = tuple(channels.split(split.degree) for channels in self.outputs)
        kept = share(self.inputs, split.degree) if split.sequence else self.inputs
        return dataclasses.replace(self, outputs=outputs, kept=kept)

    def half(self) -> Self:
        """Half of the output channels."""
        return dataclasses.replace(self, outputs=tuple(Channels(each.size / 2, each.pieces) for each in self.outputs))

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """One GEMM (tokens, width, inputs), its input converted first where that has to be."""
        shape = microbatch.tokens, self.width, self.inputs
        cast = microbatch.casts(f"{self.name}.cast", self.inputs) if self.narrow else ()
        return (*cast, microbatch.gemm(self.name, shape, narrow=self.narrow))


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


class Eager(NamedTuple):
    """What a module is without kernel fusion: so many kernels forward and backward, moving so many times the bytes."""

    kernels: int = 1
    forward: float = 1.0
    backward: float = 1.0


ONE_KERNEL = Eager()
EAGER = {
    "rmsnorm": Eager(6, 9.0, 9.5),
    "rotary": Eager(5, 5.0, 5.0),
    "gate": Eager(2, 10 / 6, 18 / 10),
}
"""Modules that eager PyTorch makes of several kernels, counted operation by operation over BF16 inputs: a root mean
square norm in FP32 (cast, square, mean, product, cast, weight: 36 bytes a channel for 4), rotary positions on complex
FP32 numbers (20 for 4), a gated activation (10 for 6). Layer norms, GELU and residuals are one kernel each."""


@dataclass(frozen=True, slots=True)
class Pointwise(Module):
    """A memory-bound kernel in the `tensor` or the `sequence` region; its own weights are replicated.

    It keeps `kept` elements of its input and `masks` bytes of dropout for every token. `kernels` share its work.
    """

    region: Literal["tensor", "sequence"]
    traffic: Traffic
    kept: float = 0
    weights: float = 0
    masks: float = 0
    kind: str = "elementwise"
    unfused: Eager = ONE_KERNEL
    kernels: int = 1

    @property
    def parameters(self) -> float:
        """Weights of a norm or a table of positions."""
        return self.weights

    def saved_input(self, microbatch: Microbatch) -> float:
        """What it keeps of its input."""
        return microbatch.bytes(self.kept)

    def saved_inner(self, microbatch: Microbatch) -> float:
        """The mask of a dropout."""
        return microbatch.tokens * self.masks

    def split(self, split: Split) -> Self:
        """A share of the channels in the tensor region, of the tokens in the sequence region."""
        if self.region == "sequence" and not split.sequence:
            return self
        kept, masks = share(self.kept, split.degree), share(self.masks, split.degree)
        return dataclasses.replace(self, traffic=self.traffic.split(split.degree), kept=kept, masks=masks)

    def eager(self) -> Self:
        """The same without kernel fusion: more kernels, and more traffic between them."""
        own, (kernels, forward, backward) = self.traffic, self.unfused
        traffic = Traffic(
            forward * own.read, forward * own.write, backward * own.backward_read, backward * own.backward_write
        )
        return dataclasses.replace(self, traffic=traffic, kernels=kernels)

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """One kernel, or an equal share of the work for each of several."""
        return self._share(microbatch, self.name, self.traffic.read, self.traffic.write)

    def backward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """The same for the backward pass."""
        return self._share(microbatch, f"{self.name}.backward", self.traffic.backward_read, self.traffic.backward_write)

    def _share(self, microbatch: Microbatch, name: str, read: float, write: float) -> tuple[Op, ...]:
        names = [name, *(f"{name}.{number}" for number in range(2, self.kernels + 1))]
        return tuple(microbatch.stream(each, self.kind, read / self.kernels, write / self.kernels) for each in names)


@dataclass(frozen=True, slots=True)
class Boundary(Module):
    """Where the tensor region begins (`enter`) or ends (`leave`): nothing until a tensor split gives it a collective.

    Megatron-LM (arXiv:1909.08053): enter is the identity, leave an all-reduce. With sequence parallelism
    (arXiv:2205.05198): enter is an all-gather, leave a reduce-scatter. One that is pipelined with the product next to
    it has several `pieces`.
    """

    channels: float
    direction: Literal["enter", "leave"]
    kind: str = "none"
    axis: str = ""
    pieces: int = 1

    def split(self, split: Split) -> Self:
        """The collective of this boundary."""
        kinds = {"enter": ("identity", "all_gather"), "leave": ("all_reduce", "reduce_scatter")}
        return dataclasses.replace(self, kind=kinds[self.direction][split.sequence], axis=split.axis)

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """The collective over the whole activation, if there is one."""
        return self.collective(microbatch, self.name, self.kind)

    def backward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """The transposed collective."""
        return self.collective(microbatch, f"{self.name}.backward", TRANSPOSED[self.kind])

    def cut(self, ops: Iterable[Op]) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
        """Collectives of this boundary as the one piece that a product cannot run beside, and the rest of them."""
        whole = tuple(op for op in ops if isinstance(op, Collective))
        if self.pieces == 1:
            return whole, ()
        piece = tuple(dataclasses.replace(op, bytes=op.bytes / self.pieces) for op in whole)
        rest = tuple(
            dataclasses.replace(op, name=f"{op.name}.rest", bytes=op.bytes - each.bytes)
            for op, each in zip(whole, piece, strict=True)
        )
        return piece, rest

    def again(self, microbatch: Microbatch, *, narrow: bool) -> tuple[Op, ...]:
        """The gather of an input that is kept in shares, once more; that of a `narrow` product as it was converted."""
        kind = self.kind if self.kind == "all_gather" else "none"
        return self.collective(microbatch, f"{self.name}.again", kind, narrow=narrow)

    def collective(self, microbatch: Microbatch, name: str, kind: str, *, narrow: bool = False) -> tuple[Op, ...]:
        """A collective of this boundary's size; `identity` and `none` are no op."""
        if kind in ("identity", "none"):
            return ()
        return (microbatch.collective(name, kind, self.axis, self.channels, narrow=narrow),)


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

    def saved_factors(self, microbatch: Microbatch) -> float:
        """The gradient of every token."""
        return microbatch.bytes(self.hidden)

    def backward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """Adds every token's gradient to its row."""
        return (microbatch.stream(f"{self.name}.backward", "embedding", 2 * self.hidden, self.hidden),)


@dataclass(frozen=True, slots=True)
class Loss(Module):
    """Cross-entropy over `vocab` logits per token.

    Assumes that the reductions of a vocabulary-parallel loss are one all-reduce of two FP32 numbers per token,
    ahead of its elementwise work.
    """

    vocab: float
    axis: str = ""
    fused: bool = False

    def split(self, split: Split) -> Self:
        """A share of the vocabulary."""
        return dataclasses.replace(self, vocab=share(self.vocab, split.degree), axis=split.axis)

    def backward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """12 bytes per logit, 4 if fused."""
        traffic = FUSED_LOSS_BYTES[1] if self.fused else LOSS_BACKWARD_BYTES
        return (self._kernel(microbatch, f"{self.name}.backward", traffic),)

    def _kernel(self, microbatch: Microbatch, name: str, traffic: tuple[int, int]) -> Compute:
        """The loss kernel with so many bytes read and written per logit."""
        read, write = (per_logit * microbatch.tokens * self.vocab for per_logit in traffic)
        return Compute(name=name, kind="loss", read_bytes=read, write_bytes=write, dtype=microbatch.dtype)

    def forward(self, microbatch: Microbatch) -> tuple[Op, ...]:
        """The reduction over the vocabulary, then 24 bytes per logit, 2 if fused."""
        loss = self._kernel(microbatch, self.name, FUSED_LOSS_BYTES[0] if self.fused else LOSS_BYTES)
        if not self.axis:
            return (loss,)
        size, name = 2 * microbatch.tokens * 4, f"{self.name}.statistics"
        return Collective(
            name=name, stream=self.axis, kind="all_reduce", axes=(self.axis,), bytes=size, dtype="fp32"
        ), loss
