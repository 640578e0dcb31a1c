"""Towards what constants of training runs are drawn: values of microbenchmarks and sources, and how sure those are.

`spread` is the standard error of a value's logarithm. Assumes that it is independent between constants.
"""

from collections.abc import Mapping
from typing import NamedTuple

from simulator.constants import Key


class Prior(NamedTuple):
    """A value that a source gives, and the relative standard error that it is believed to have."""

    value: float
    spread: float
    source: str


STUDY = "an analytic study of training runs, over what GEMMs and streams reach by themselves (kernels.yaml)"
TRAINING: Mapping[str, Prior] = {
    "clock": Prior(0.92, 0.05, f"0.732 of the peak on H100, 0.807 on A100 in {STUDY}, 0.80 and 0.863"),
    "attention_clock": Prior(0.87, 0.1, "as the clock of GEMMs or lower: no long burn of fused attention is published"),
    "memory": Prior(0.91, 0.05, f"0.783 of the bandwidth in {STUDY}, 0.867"),
    "jitter": Prior(0.008, 0.7, "0.006 times the binary logarithm of servers in an analytic study of training runs"),
    "step_seconds": Prior(0.015, 1.0, "12 ms a step in an analytic study of training runs"),
    "launch_interval": Prior(5.0e-6, 0.7, "of launches in PyTorch, 2 to 9 µs; no row of the files tells it"),
    "kernel_share": Prior(1.0, 0.15, "kernels of libraries, as they were measured by themselves"),
}
"""For entries of `training`, by the constant's name."""

STACK_LAUNCH = Prior(
    3.0e-5, 0.7, "some launches of 5 to 10 µs for each kernel, as a stack's own modules wrap PyTorch's"
)
"""For the launch interval of an entry of its own."""

OTHERS: Mapping[Key, Prior] = {
    ("attention", "A100 triton", "share"): Prior(
        0.45,
        0.2,
        "FlashAttention-2 is 1.3 to 1.5 times faster forward and twice backward (arXiv:2307.08691, section 4.1)",
    ),
    ("families", "B200-SXM", "gemm_bf16"): Prior(
        0.6, 0.1, "that of its family, measured on GB200 at 1200 W, less some for a limit of 1000 W"
    ),
    ("families", "Hopper", "gemm_fp8"): Prior(0.717, 0.1, "fitted to GEMMs measured by themselves"),
    ("families", "Blackwell", "gemm"): Prior(0.646, 0.1, "fitted to GEMMs measured by themselves"),
    ("families", "Blackwell Ultra", "gemm"): Prior(
        0.76, 0.1, "0.74 of the peak at 8192 cubed, in a burn of 60 s (Azure ai-infrastructure-on-azure, GB300)"
    ),
    ("shared", "gemm", "nvfp4_ratio"): Prior(
        0.67,
        0.15,
        "ratio of the shares of NVFP4 and BF16 in training runs (0.396 to 0.595), found by an analytic study",
    ),
}
"""For constants of kernels that microbenchmarks leave open, or that steps tell better."""

FIXED: Mapping[Key, str] = {
    ("training", "A100", "clock"): (
        "1.00 with a standard error of 0.02 when fitted with the speeds of stacks, which rows tell from it poorly; "
        "of 1.00, 0.98 and 0.965, which calibration rows hardly tell apart, 0.98 was taken by the validation rows"
    ),
    ("families", "TPU", "gemm"): "runs on TPUs are tier 2, which nothing is fitted to",
}
"""Constants that are what they are, and why."""


def prior(key: Key) -> Prior | None:
    """Towards what a constant is drawn; None for one that runs are not asked about.

    >>> prior(("training", "other", "clock")).value, prior(("shared", "gemm", "tile_loss"))
    (0.92, None)
    """
    section, entry, name = key
    if key in FIXED:
        return None
    if section != "training" or key in OTHERS:
        return OTHERS.get(key)
    return STACK_LAUNCH if name == "launch_interval" and entry != "other" else TRAINING.get(name)
