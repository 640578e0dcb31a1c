"""NVIDIA Tesla K40 12 GB (Kepler, 2013): before tensor cores and NVLink."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, TERA


def build() -> Accelerator:
    """The K40; FP32 is its fastest dtype.

    >>> build().peak_flops
    {'fp32': 4290000000000.0}
    """
    return Accelerator(
        name="K40",
        # 15 × 192 FMA × 2 × 745 MHz; 5.04 TFLOP/s at the highest boost clock, 875 MHz. There is no fast FP16. Source:
        # NVIDIA Tesla K40 data sheet and public specification page (not re-checked).
        peak_flops={"fp32": 4.29 * TERA},
        # Source: NVIDIA Tesla K40 data sheet, "12 GB" GDDR5 at 288 GB/s.
        memory_bytes=12 * GIGA,
        memory_bandwidth=288 * GIGA,
        # Multiprocessors and FP32 cores of each; base clock; 1.5 MB of L2. Source: public specification page.
        sm_count=15,
        cores=192,
        clock_hertz=745 * MEGA,
        cache_bytes=1.5 * MEGA,
        # PCIe 3.0 x16 after coding. Source: the same data sheet.
        host_bandwidth=15.8 * GIGA,
        power_watts=235,
        source="NVIDIA Tesla K40 data sheet; public specification page (not re-checked)",
    )
