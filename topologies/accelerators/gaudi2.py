"""Intel Gaudi2 96 GB (2022): RoCE ports on the chip instead of a scale-up fabric."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The Gaudi2.

    >>> build().peak("fp8") / build().peak("bf16") > 2
    True
    """
    return Accelerator(
        name="Gaudi2",
        # Matrix engines; there is no published fp32 peak. Source: Intel Gaudi2 white paper; stas00/ml-engineering,
        # accelerator tables.
        peak_flops={"bf16": 432 * TERA, "fp8": 865 * TERA},
        # Source: Intel Gaudi2 white paper, "96 GB" HBM2e at 2.46 TB/s.
        memory_bytes=96 * GIGA,
        memory_bandwidth=2460 * GIGA,
        # Source: hl-smi, total memory of an "HL-225" (not re-checked).
        usable_memory_bytes=98_304 * MIB,
        # Tensor processor cores, beside two matrix engines; 48 MB of SRAM, no cache. Source: Intel Gaudi2 white paper;
        # clock: stas00/ml-engineering.
        sm_count=24,
        clock_hertz=1650 * MEGA,
        cache_bytes=48 * MEGA,
        # PCIe 4.0 x16 after coding. Source: Intel Gaudi2 white paper (not re-checked).
        host_bandwidth=31.5 * GIGA,
        power_watts=600,
        source="Intel Gaudi2 white paper; github.com/stas00/ml-engineering, accelerator tables",
    )
