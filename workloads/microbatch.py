"""One microbatch on one rank: what turns channels and shapes into kernels and collectives."""

from dataclasses import dataclass

from workloads.ops import Collective, Compute
from workloads.precision import PRECISIONS, Precision

BF16 = PRECISIONS["bf16"]


@dataclass(frozen=True, slots=True)
class Microbatch:
    """The tokens of one microbatch on one rank, in sequences of `sequence` tokens, and the numbers they are made of.

    `gradient` bytes are kept of a weight's gradient, `reduced` travel (0: as many as of the weight).
    """

    tokens: int
    sequence: int
    precision: Precision = BF16
    gradient: float = 0
    reduced: float = 0

    @property
    def element(self) -> int:
        """Bytes of a parameter or an activation."""
        return self.precision.element

    @property
    def dtype(self) -> str:
        """What parameters and activations are kept in."""
        return self.precision.dtype

    @property
    def gradient_bytes(self) -> float:
        """Bytes kept of a parameter's gradient."""
        return self.gradient or self.element

    @property
    def reduced_bytes(self) -> float:
        """Bytes of a parameter's gradient that travel."""
        return self.reduced or self.gradient_bytes

    @property
    def reduced_dtype(self) -> str:
        """What gradients are reduced in."""
        return self.dtype if self.reduced_bytes == self.element else f"fp{8 * self.reduced_bytes:g}"

    def bytes(self, channels: float) -> float:
        """Size of an activation with so many channels."""
        return self.tokens * channels * self.element

    def gemm(self, name: str, shape: tuple[float, float, float], *, narrow: bool, output: float = 0) -> Compute:
        """A product (m, k) x (k, n): 2mnk FLOPs, both factors read once, the result written once.

        `narrow` multiplies in the precision's own format for GEMMs. The result has `output` bytes an element.
        """
        (m, n, k), own = shape, self.precision
        operand, dtype = (own.operand, own.gemm) if narrow else (own.element, own.unconverted)
        return Compute(
            name=name,
            kind="gemm",
            flops=2.0 * m * n * k,
            read_bytes=(m * k + k * n) * operand,
            write_bytes=m * n * (output or self.element),
            dtype=dtype,
            shape=shape,
        )

    def stream(self, name: str, kind: str, read: float, write: float) -> Compute:
        """A memory-bound kernel that reads and writes so many channels of every token; no model FLOPs."""
        return Compute(
            name=name, kind=kind, read_bytes=self.bytes(read), write_bytes=self.bytes(write), dtype=self.dtype
        )

    def casts(self, name: str, channels: float) -> tuple[Compute, ...]:
        """The kernel that converts an operand of GEMMs, as it is and transposed; none where nothing differs."""
        if not self.precision.casts:
            return ()
        write = 2 * self.tokens * channels * self.precision.operand
        return (Compute(name=name, kind="cast", read_bytes=self.bytes(channels), write_bytes=write, dtype=self.dtype),)

    def collective(self, name: str, kind: str, axis: str, channels: float, *, narrow: bool = False) -> Collective:
        """A collective over one axis whose whole buffer holds so many channels of every token.

        `narrow` ones are in the precision's own format for GEMMs.
        """
        own = self.precision
        element, dtype = (own.operand, own.gemm) if narrow and own.casts else (own.element, own.dtype)
        size = self.tokens * channels * element
        return Collective(name=name, stream=axis, kind=kind, axes=(axis,), bytes=size, dtype=dtype)
