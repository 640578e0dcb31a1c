"""Every fitted or measured constant of the kernel models, in one place, each with its source.

They depend on the accelerator only, never on a run, a model or a paper. The numbers are starting points from
published kernel benchmarks.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Kernels:
    """How an accelerator's kernels use its peaks.

    `gemm` and `attention` are shares of the dense peak at large sizes; `half_k` is the depth k of a GEMM
    and `half_sequence` the sequence at which half of it is reached; `memory_share` of the data-sheet
    bandwidth is what large memory-bound kernels see; `kernel_seconds` a kernel's own start and drain,
    `launch_interval` the host's time between launches. A block of the attention core is `attention_rows` query
    rows of one head; head dimensions below `narrow_head` reach `narrow_share` of the efficiency.
    """

    gemm: float = 1.0
    half_k: float = 0.0
    attention: float = 1.0
    attention_backward: float = 2.5 / 2
    half_sequence: float = 0.0
    memory_share: float = 1.0
    kernel_seconds: float = 0.0
    launch_interval: float = 0.0
    tiles: tuple[tuple[int, int], ...] = ()
    quantisation: float = 0.0
    attention_rows: int = 128
    narrow_head: int = 128
    narrow_share: float = 0.85


TILES = ((256, 128), (128, 128), (128, 64), (64, 64))

# Shares, half_k, wave blend and HBM share: fitted on published dense training runs, with 47 constants shared by
# all sources. Attention forward: cuDNN / FlashAttention-3 on H100, FlashAttention-2 on A100; backward does 2.5x
# the forward's FLOPs, of which 2x count. Launches: 2-9 us a kernel in microbenchmarks.
_FITTED = Kernels(
    half_k=122,
    attention_backward=2.5 / 2,
    half_sequence=450,
    memory_share=0.783,
    kernel_seconds=4e-6,
    launch_interval=5e-6,
    tiles=TILES,
    quantisation=0.45,
)

KERNELS = {
    "H100-SXM5": replace(_FITTED, gemm=0.732, attention=0.460),
    "A100-SXM4-80GB": replace(_FITTED, gemm=0.807, attention=0.618),
}


def kernels(accelerator: str) -> Kernels:
    """The constants of an accelerator; an ideal one (peak, no overhead) where nothing is measured."""
    return KERNELS.get(accelerator, Kernels())
