"""NVIDIA A100 SXM4 80 GB (Ampere, 2020)."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The A100 SXM4 with 80 GB.

    >>> build().peak("bf16")
    312000000000000.0
    """
    return Accelerator(
        name="A100-SXM4-80GB",
        # Dense; fp32 is the vector units' peak. Source: NVIDIA A100 data sheet; stas00/ml-engineering.
        peak_flops={"fp32": 19.5 * TERA, "tf32": 156 * TERA, "bf16": 312 * TERA, "fp16": 312 * TERA},
        # Source: NVIDIA A100 data sheet, "80 GB" HBM2e.
        memory_bytes=80 * GIGA,
        # Source: nvidia-smi, total memory of an "A100-SXM4-80GB".
        usable_memory_bytes=81_920 * MIB,
        # Source: NVIDIA A100 80 GB data sheet.
        memory_bandwidth=2039 * GIGA,
        # Source: NVIDIA A100 architecture white paper (108 SMs, 1410 MHz boost).
        sm_count=108,
        clock_hertz=1410 * MEGA,
        # FP32 and tensor cores of an SM; 40 MB of L2. Source: NVIDIA A100 architecture white paper.
        cores=64,
        tensor_cores=4,
        cache_bytes=40 * MEGA,
        # PCIe 4.0 x16 after coding. Source: NVIDIA A100 data sheet.
        host_bandwidth=31.5 * GIGA,
        power_watts=400,
        source="NVIDIA A100 data sheet and white paper; github.com/stas00/ml-engineering, accelerator tables",
    )
