"""NVIDIA GH200 with 96 GB HBM3 (Grace Hopper, 2023)."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The Hopper half of a GH200 with 96 GB (there is one with 141 GB and 4.8 TB/s, too).

    >>> build().memory_bandwidth / 1e12
    4.0
    """
    return Accelerator(
        name="GH200",
        # Dense; fp32 is the vector units' peak. Source: NVIDIA GH200 data sheet; stas00/ml-engineering, accelerator
        # tables.
        peak_flops={
            "fp32": 67 * TERA,
            "tf32": 494.7 * TERA,
            "bf16": 989.4 * TERA,
            "fp16": 989.4 * TERA,
            "fp8": 1978.9 * TERA,
        },
        # Source: NVIDIA GH200 data sheet, "96 GB" HBM3.
        memory_bytes=96 * GIGA,
        # Source: nvidia-smi, total memory of a "GH200 480GB".
        usable_memory_bytes=97_871 * MIB,
        # Source: NVIDIA GH200 data sheet; stas00/ml-engineering, accelerator tables.
        memory_bandwidth=4000 * GIGA,
        # Source: NVIDIA GH200 data sheet and H100 white paper (132 SMs); clock as for the H100.
        sm_count=132,
        clock_hertz=1830 * MEGA,
        source="NVIDIA GH200 data sheet; github.com/stas00/ml-engineering, accelerator tables",
    )
