"""Number formats of a step: what parameters and activations are kept in, and what GEMMs multiply."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Precision:
    """`element` bytes of a parameter or an activation, in `dtype`; GEMMs multiply `operand` bytes an element in `gemm`.

    Operands of block-scaled formats include their scales: a byte for 32 elements of MXFP8, for 16 of NVFP4
    (OCP microscaling formats specification; NVIDIA Blackwell documentation).
    """

    name: str
    element: int
    dtype: str
    gemm: str
    operand: float

    @property
    def casts(self) -> bool:
        """Whether operands have to be converted before they are multiplied."""
        return self.operand < self.element

    @property
    def unconverted(self) -> str:
        """What products multiply whose operands are never converted: attention, logits."""
        return self.dtype if self.casts else self.gemm

    @property
    def copies(self) -> float:
        """Bytes of the converted copies of a weight, as it is and transposed."""
        return 2 * self.operand if self.casts else 0.0


def _plain(name: str, element: int) -> Precision:
    return Precision(name, element, name, name, element)


PRECISIONS = {
    "bf16": _plain("bf16", 2),
    "fp16": _plain("fp16", 2),
    "fp32": _plain("fp32", 4),
    "tf32": Precision("tf32", 4, "fp32", "tf32", 4),
    "fp8": Precision("fp8", 2, "bf16", "fp8", 1),
    "mxfp8": Precision("mxfp8", 2, "bf16", "mxfp8", 1 + 1 / 32),
    "nvfp4": Precision("nvfp4", 2, "bf16", "nvfp4", 0.5 + 1 / 16),
}
"""Every precision a step can have. With FP8 and narrower, layers' GEMMs alone use it: what is between them is BF16."""
