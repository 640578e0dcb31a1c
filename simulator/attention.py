"""How long the arithmetic of a fused attention kernel takes."""

from simulator.kernels import Kernels
from workloads.ops import Compute

EXECUTED = {"attention": 1.0, "attention_backward": 2.5 / 2.0}
"""FLOPs a kernel executes for each model FLOP: a fused backward multiplies five times where the model counts four, as
it recomputes the scores (arXiv:2205.14135)."""

WIDE = 128.0
"""Elements of a head from which on a wider one is no more efficient."""


def attention_seconds(op: Compute, peak: float, sm_count: int, kernels: Kernels) -> float:
    """Time of the arithmetic of an attention kernel of shape (tokens, span, heads, head_dim).

    The share of the span that a mask leaves, `fill`, is the op's FLOPs over those of the full square, 4 × tokens × span
    × heads × head_dim (twice that in the backward). A block of queries reaches span × fill keys, and pays for the
    overhead, and for (1 - fill) of a block of keys that is masked, beside; each score takes the time of head_dim +
    score_depth elements, relative to that of a wide head; the last blocks are waited for: blocks / (blocks + tail ×
    SMs).

    Assumes that a mask leaves the same share of the keys to every block of queries, and that heads wider than 128, or
    with other widths of queries and values, are as efficient as those of 128.
    """
    implementation = kernels.attention_variant(op.variant)
    backward = op.kind == "attention_backward"
    efficiency = implementation.share * (kernels.backward_share if backward else 1.0)
    if op.shape:
        tokens, span, heads, head_dim = op.shape
        square = 4.0 * tokens * span * heads * head_dim * (2.0 if backward else 1.0)
        fill = min(1.0, op.flops / square)
        keys, width = span * fill, min(head_dim, WIDE)
        beside = implementation.overhead_keys + implementation.block_keys * (1.0 - fill)
        blocks = tokens / implementation.block_rows * heads
        efficiency *= keys / (keys + beside) * blocks / (blocks + kernels.tail * sm_count)
        efficiency *= width / (width + implementation.score_depth) * (1.0 + implementation.score_depth / WIDE)
    return op.flops * EXECUTED[op.kind] / (peak * efficiency)
