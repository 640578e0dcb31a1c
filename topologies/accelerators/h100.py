"""NVIDIA H100 SXM5 80 GB (Hopper, 2022)."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The H100 SXM5.

    >>> build().peak("fp8") / build().peak("bf16") > 1.99
    True
    """
    return Accelerator(
        name="H100-SXM5",
        # Dense. Tensor cores: 528 × 512 FMA × 2 × 1830 MHz = 989.4 TFLOP/s in BF16; fp32 is the vector units' peak.
        # Source: NVIDIA H100 data sheet; stas00/ml-engineering, accelerator tables.
        peak_flops={
            "fp32": 67 * TERA,
            "tf32": 494.7 * TERA,
            "bf16": 989.4 * TERA,
            "fp16": 989.4 * TERA,
            "fp8": 1978.9 * TERA,
        },
        # Source: NVIDIA H100 data sheet, "80 GB" HBM3.
        memory_bytes=80 * GIGA,
        # Source: nvidia-smi, total memory of an "H100 80GB HBM3".
        usable_memory_bytes=81_559 * MIB,
        # 5120 bit × 2.619 GHz × 2 / 8. Source: stas00/ml-engineering, accelerator tables.
        memory_bandwidth=3352 * GIGA,
        # Source: NVIDIA H100 architecture white paper (SXM5: 132 SMs).
        sm_count=132,
        # The clock behind the published peaks; older documents list 1980 MHz. Source: stas00/ml-engineering.
        clock_hertz=1830 * MEGA,
        # FP32 and tensor cores of an SM; 50 MB of L2. Source: NVIDIA H100 architecture white paper.
        cores=128,
        tensor_cores=4,
        cache_bytes=50 * MEGA,
        # PCIe 5.0 x16 after coding. Source: NVIDIA H100 data sheet.
        host_bandwidth=63 * GIGA,
        power_watts=700,
        source="NVIDIA H100 data sheet and white paper; github.com/stas00/ml-engineering, accelerator tables",
    )
