"""NVIDIA H200 SXM 141 GB (Hopper, 2024)."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The H200 SXM: an H100 with more and faster memory.

    >>> build().memory_bandwidth / 1e12
    4.8
    """
    return Accelerator(
        name="H200-SXM",
        # Dense, those of the H100 SXM5; fp32 is the vector units' peak. Source: NVIDIA H200 data sheet;
        # stas00/ml-engineering, accelerator tables.
        peak_flops={
            "fp32": 67 * TERA,
            "tf32": 494.7 * TERA,
            "bf16": 989.4 * TERA,
            "fp16": 989.4 * TERA,
            "fp8": 1978.9 * TERA,
        },
        # Source: NVIDIA H200 data sheet, "141 GB" HBM3e.
        memory_bytes=141 * GIGA,
        # Source: nvidia-smi, total memory of an "H200".
        usable_memory_bytes=143_771 * MIB,
        # Source: NVIDIA H200 data sheet; stas00/ml-engineering, accelerator tables.
        memory_bandwidth=4800 * GIGA,
        # Source: NVIDIA H100 architecture white paper (the same GH100 die, 132 SMs); clock as for the H100.
        sm_count=132,
        clock_hertz=1830 * MEGA,
        source="NVIDIA H200 data sheet; github.com/stas00/ml-engineering, accelerator tables",
    )
