"""NVIDIA V100 SXM2 32 GB (Volta, 2017)."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The V100 SXM2 with 32 GB; it has no bf16.

    >>> sorted(build().peak_flops)
    ['fp16', 'fp32']
    """
    return Accelerator(
        name="V100-SXM2",
        # Tensor cores in fp16 only; fp32 is the vector units' peak. Source: NVIDIA V100 data sheet.
        peak_flops={"fp32": 15.7 * TERA, "fp16": 125 * TERA},
        # Source: NVIDIA V100 data sheet, "32 GB" HBM2.
        memory_bytes=32 * GIGA,
        # Source: nvidia-smi, total memory of a "V100-SXM2-32GB".
        usable_memory_bytes=32_768 * MIB,
        # Source: NVIDIA V100 data sheet.
        memory_bandwidth=900 * GIGA,
        # Source: NVIDIA V100 architecture white paper (80 SMs, 1530 MHz boost).
        sm_count=80,
        clock_hertz=1530 * MEGA,
        # FP32 and tensor cores of an SM; 6 MB of L2. Source: NVIDIA V100 architecture white paper.
        cores=64,
        tensor_cores=8,
        cache_bytes=6 * MEGA,
        # PCIe 3.0 x16 after coding. Source: NVIDIA V100 data sheet.
        host_bandwidth=15.8 * GIGA,
        power_watts=300,
        source="NVIDIA V100 data sheet and white paper",
    )
