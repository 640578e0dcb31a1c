"""NVIDIA H100 PCIe 80 GB (Hopper, 2022): the card, with fewer SMs and HBM2e."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The H100 PCIe.

    >>> build().peak("bf16") / 1e12
    756.0
    """
    return Accelerator(
        name="H100-PCIe",
        # Dense; fp32 is the vector units' peak. Source: NVIDIA H100 data sheet; stas00/ml-engineering, accelerator
        # tables.
        peak_flops={
            "fp32": 51 * TERA,
            "tf32": 378 * TERA,
            "bf16": 756 * TERA,
            "fp16": 756 * TERA,
            "fp8": 1513 * TERA,
        },
        # Source: NVIDIA H100 data sheet, "80 GB" HBM2e.
        memory_bytes=80 * GIGA,
        # Source: nvidia-smi, total memory of an "H100 PCIe".
        usable_memory_bytes=81_559 * MIB,
        # Source: stas00/ml-engineering, accelerator tables.
        memory_bandwidth=2039 * GIGA,
        # 114 SMs (not re-checked). The highest boost clock, that of the fp32 peak; the tensor cores' is at about 1620
        # MHz.
        sm_count=114,
        clock_hertz=1755 * MEGA,
        # FP32 and tensor cores of an SM; 50 MB of L2. Source: NVIDIA H100 architecture white paper.
        cores=128,
        tensor_cores=4,
        cache_bytes=50 * MEGA,
        # PCIe 5.0 x16 after coding. Source: NVIDIA H100 data sheet.
        host_bandwidth=63 * GIGA,
        power_watts=350,
        source="NVIDIA H100 data sheet and white paper; github.com/stas00/ml-engineering, accelerator tables",
    )
