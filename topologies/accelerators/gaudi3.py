"""Intel Gaudi3 128 GB (2024): RoCE ports on the chip instead of a scale-up fabric."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The Gaudi3; its fp8 is no faster than its bf16.

    >>> build().peak("fp8") == build().peak("bf16")
    True
    """
    return Accelerator(
        name="Gaudi3",
        # Matrix engines at 1600 MHz; 1835 TFLOP/s in the white paper need 1750 MHz. fp16 and tf32 run at a quarter.
        # Source: stas00/ml-engineering, accelerator tables.
        peak_flops={
            "fp32": 229 * TERA,
            "tf32": 459 * TERA,
            "bf16": 1677 * TERA,
            "fp16": 459 * TERA,
            "fp8": 1677 * TERA,
        },
        # Source: Intel Gaudi3 white paper, "128 GB" HBM2e at 3.7 TB/s.
        memory_bytes=128 * GIGA,
        memory_bandwidth=3700 * GIGA,
        # Source: hl-smi, total memory of an "HL-325" (not re-checked).
        usable_memory_bytes=131_072 * MIB,
        # Tensor processor cores, beside eight matrix engines; 96 MB of SRAM. Source: Intel Gaudi3 white paper.
        sm_count=64,
        clock_hertz=1600 * MEGA,
        cache_bytes=96 * MEGA,
        # PCIe 5.0 x16 after coding. Source: Intel Gaudi3 white paper.
        host_bandwidth=63 * GIGA,
        power_watts=900,
        source="Intel Gaudi3 white paper; github.com/stas00/ml-engineering, accelerator tables",
    )
