"""NVIDIA P100 SXM2 16 GB (Pascal, 2016): NVLink without a switch, FP16 without tensor cores."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, TERA


def build() -> Accelerator:
    """The P100 SXM2; it has no bf16.

    >>> build().peak("fp16") / build().peak("fp32")
    2.0
    """
    return Accelerator(
        name="P100-SXM2",
        # Vector units; fp16 at twice the rate. Source: NVIDIA P100 data sheet (not re-checked).
        peak_flops={"fp32": 10.6 * TERA, "fp16": 21.2 * TERA},
        # Source: NVIDIA P100 data sheet, "16 GB" HBM2 at 732 GB/s.
        memory_bytes=16 * GIGA,
        memory_bandwidth=732 * GIGA,
        # Multiprocessors and FP32 cores of each; 1480 MHz boost; 4 MB of L2. Source: NVIDIA P100 architecture white
        # paper.
        sm_count=56,
        cores=64,
        clock_hertz=1480 * MEGA,
        cache_bytes=4 * MEGA,
        # PCIe 3.0 x16 after coding. Source: NVIDIA P100 data sheet.
        host_bandwidth=15.8 * GIGA,
        power_watts=300,
        source="NVIDIA P100 data sheet and white paper (not re-checked)",
    )
