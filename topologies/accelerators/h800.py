"""NVIDIA H800 SXM 80 GB (Hopper, 2023): the H100 with fewer NVLinks, for export."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The H800 SXM; its NVLink has 200 GB/s each way.

    >>> build().peak("bf16") / 1e12
    989.4
    """
    return Accelerator(
        name="H800-SXM",
        # Dense, those of the H100 SXM5; fp32 is the vector units' peak. Source: NVIDIA H100 data sheet; public articles
        # on the H800.
        peak_flops={
            "fp32": 67 * TERA,
            "tf32": 494.7 * TERA,
            "bf16": 989.4 * TERA,
            "fp16": 989.4 * TERA,
            "fp8": 1978.9 * TERA,
        },
        # Source: NVIDIA H100 data sheet, "80 GB" HBM3.
        memory_bytes=80 * GIGA,
        # The H100's total memory in nvidia-smi (not re-checked).
        usable_memory_bytes=81_559 * MIB,
        # As the H100's. Source: stas00/ml-engineering, accelerator tables.
        memory_bandwidth=3352 * GIGA,
        # Source: NVIDIA H100 architecture white paper (SXM5: 132 SMs); clock as for the H100.
        sm_count=132,
        clock_hertz=1830 * MEGA,
        source="SimAI (calbusbw.h), DeepEP README, NVIDIA H100 data sheet",
    )
