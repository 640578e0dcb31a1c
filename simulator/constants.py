"""Every fitted or measured constant of the time models, in one place, each with its source.

They depend on the kind of link or the accelerator only, never on a run, a model or a paper. The
numbers are starting points from published measurements (nccl-tests logs, kernel benchmarks).
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Fabric:
    """How a communication library uses one kind of link.

    `rate_share` is the share of the line rate that large messages reach; `setup` the cost of starting a
    collective and `step` of each of its steps, seconds; `ramp` the time constant with which a transfer
    reaches its full rate, seconds; `sm_share` the share of a GPU's SMs its kernels hold.
    """

    rate_share: float = 1.0
    setup: float = 0.0
    step: float = 0.0
    ramp: float = 0.0
    sm_share: float = 0.0


IDEAL = Fabric()

FABRICS = {
    # rate: H100 ring busbw 360-370 of 450 GB/s, A100 230 of 300 (nccl-tests logs: 0.77-0.81); set-up and
    # ramp: 11 and 101 us fitted on tensor-parallel runs; SM share: about 15 % on NVLink in the literature.
    "nvlink": Fabric(rate_share=0.81, setup=11e-6, step=0.6e-6, ramp=101e-6, sm_share=0.15),
    # rate: InfiniBand or tuned RoCE 0.94-0.96 of the line; steps 2.7 (small) to 14 us; SMs: about 2 %.
    "infiniband": Fabric(rate_share=0.95, setup=20e-6, step=2.7e-6, ramp=101e-6, sm_share=0.02),
    "roce": Fabric(rate_share=0.95, setup=20e-6, step=2.7e-6, ramp=101e-6, sm_share=0.02),
}


def fabric(kind: str) -> Fabric:
    """The constants of a kind of link; an ideal one (line rate, no overhead) where nothing is measured."""
    return FABRICS.get(kind, IDEAL)


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
