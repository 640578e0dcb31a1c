"""Every fitted or measured constant of the time models, in one place, each with its source.

They depend on the kind of link or the accelerator only, never on a run, a model or a paper. The
numbers are starting points from published measurements (nccl-tests logs, kernel benchmarks).
"""

from dataclasses import dataclass, field


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
    `launch_interval` the host's time between launches.
    """

    gemm: float = 1.0
    half_k: float = 0.0
    attention: float = 1.0
    attention_backward: float = 2.5 / 2
    half_sequence: float = 0.0
    memory_share: float = 1.0
    kernel_seconds: float = 0.0
    launch_interval: float = 0.0
    tiles: tuple[tuple[int, int], ...] = field(default=())
    quantisation: float = 0.0


TILES = ((256, 128), (128, 128), (128, 64), (64, 64))

KERNELS = {
    # GEMM and attention shares, half_k, wave blend 0.45 and 78 % of HBM: fitted on published dense runs
    # (47 shared constants over several sources); attention: cuDNN / FlashAttention-3 forward on H100,
    # FlashAttention-2 on A100, backward 2.5x the forward FLOPs.
    "H100-SXM5": Kernels(0.732, 122, 0.460, 1.25, 450, 0.783, 4e-6, 5e-6, TILES, 0.45),
    "A100-SXM4-80GB": Kernels(0.807, 122, 0.618, 1.25, 450, 0.783, 4e-6, 5e-6, TILES, 0.45),
}


def kernels(accelerator: str) -> Kernels:
    """The constants of an accelerator; an ideal one (peak, no overhead) where nothing is measured."""
    return KERNELS.get(accelerator, Kernels())
