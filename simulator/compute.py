"""How long a kernel runs on an accelerator that does nothing else: a roofline with size effects."""

import math
from typing import Protocol

from simulator.kernels import Kernels, kernels
from topologies import Accelerator
from topologies.plugins import unknown
from workloads.ops import Compute

KINDS = ("gemm", "attention", "attention_backward", "elementwise", "embedding", "loss", "optimizer")
"""Kinds of kernels that the roofline knows."""


class ComputeModel(Protocol):
    """Seconds of one kernel, alone on the accelerator at full speed."""

    def seconds(self, op: Compute, accelerator: Accelerator) -> float:
        """Time from the kernel's start to its end."""
        ...


class Roofline:
    """The slower of arithmetic and memory traffic, each at the share of its peak that real kernels reach.

    Assumes that a kernel's traffic and arithmetic overlap fully, and that traffic is the op's compulsory
    bytes. GEMM efficiency falls with small depth k and with tiles or waves that do not fill the SMs.
    """

    def seconds(self, op: Compute, accelerator: Accelerator) -> float:
        """Time of the kernel; FLOPs count at the dense peak of the op's dtype."""
        if op.kind not in KINDS:
            raise ValueError(unknown("kind of kernel", op.kind, KINDS))
        constants = kernels(accelerator.name)
        memory = (op.read_bytes + op.write_bytes) / (accelerator.memory_bandwidth * constants.memory_share)
        if not op.flops:
            return memory + constants.kernel_seconds
        arithmetic = op.flops / accelerator.peak(op.dtype) / self._efficiency(op, accelerator, constants)
        return max(arithmetic, memory) + constants.kernel_seconds

    def _efficiency(self, op: Compute, accelerator: Accelerator, constants: Kernels) -> float:
        if op.kind == "gemm" and op.shape:
            return gemm_efficiency(op.shape, accelerator.sm_count, constants)
        if op.kind.startswith("attention") and op.shape:
            forward = attention_efficiency(op.shape, accelerator.sm_count, constants)
            return forward / (constants.attention_backward if op.kind == "attention_backward" else 1.0)
        return 1.0


def gemm_efficiency(shape: tuple[float, ...], sm_count: int, constants: Kernels) -> float:
    """Share of the peak that an (m, n, k) GEMM reaches.

    Tile padding × wave fill of the best tile, blended with none by `quantisation`, times k / (k + half_k).
    """
    m, n, k = shape
    fill = max((_tile_fill(m, n, tile, sm_count) for tile in constants.tiles), default=1.0)
    blended = 1.0 - constants.quantisation * (1.0 - fill)
    return constants.gemm * blended * k / (k + constants.half_k)


def _tile_fill(m: float, n: float, tile: tuple[int, int], sm_count: int) -> float:
    """Useful share of the SM-time that whole tiles in whole waves take."""
    rows, columns = math.ceil(m / tile[0]), math.ceil(n / tile[1])
    waves = math.ceil(rows * columns / sm_count)
    return m * n / (waves * sm_count * tile[0] * tile[1])


def attention_efficiency(shape: tuple[float, ...], sm_count: int, constants: Kernels) -> float:
    """Share of the peak of a fused attention core, shape (tokens, sequence, heads, head_dim).

    Half is reached at `half_sequence`; fewer blocks of query rows than SMs leave SMs idle; narrow heads reach less.
    """
    tokens, sequence, heads, head_dim = shape
    occupancy = min(1.0, math.ceil(tokens / constants.attention_rows) * heads / sm_count)
    narrow = constants.narrow_share if head_dim < constants.narrow_head else 1.0
    return constants.attention * sequence / (sequence + constants.half_sequence) * occupancy * narrow


class FlopsAreSeconds:
    """Replays schedules in abstract time: one FLOP is one second."""

    def seconds(self, op: Compute, accelerator: Accelerator) -> float:
        """The op's FLOPs."""
        return op.flops
