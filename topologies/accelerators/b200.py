"""NVIDIA B200 SXM 192 GB (Blackwell, 2024)."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The B200 SXM of an HGX or DGX B200.

    >>> build().peak("fp8") / build().peak("bf16")
    2.0
    """
    return Accelerator(
        name="B200-SXM",
        # Dense; fp32 is the vector units' peak. Source: NVIDIA HGX B200 data sheet; stas00/ml-engineering, accelerator
        # tables.
        peak_flops={
            "fp32": 80 * TERA,
            "tf32": 1125 * TERA,
            "bf16": 2250 * TERA,
            "fp16": 2250 * TERA,
            "fp8": 4500 * TERA,
            "mxfp8": 4500 * TERA,
            "fp4": 9000 * TERA,
            "nvfp4": 9000 * TERA,
        },
        # Physical HBM3e; the data sheet's 180 GB are exposed. Source: stas00/ml-engineering, accelerator tables.
        memory_bytes=192 * GIGA,
        # Source: nvidia-smi, total memory of a "B200" ("180 GB" are GiB).
        usable_memory_bytes=183_359 * MIB,
        # Source: NVIDIA HGX B200 data sheet.
        memory_bandwidth=8000 * GIGA,
        # Source: public specification pages (148 SMs); clock: stas00/ml-engineering, accelerator tables.
        sm_count=148,
        clock_hertz=1965 * MEGA,
        # FP32 and tensor cores of an SM; 126 MB of L2. Source: public specification pages.
        cores=128,
        tensor_cores=4,
        cache_bytes=126 * MEGA,
        # PCIe 5.0 x16 after coding, as hosts of 2024 have it; the chip can do PCIe 6.0. Source: NVIDIA HGX B200 data
        # sheet.
        host_bandwidth=63 * GIGA,
        power_watts=1000,
        source="NVIDIA HGX B200 data sheet; github.com/stas00/ml-engineering, accelerator tables",
    )
