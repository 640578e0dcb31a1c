"""NVIDIA H20 96 GB (Hopper, 2024): an export part of much memory and few SMs."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The H20.

    >>> build().peak("fp8") / build().peak("bf16")
    2.0
    """
    return Accelerator(
        name="H20",
        # Dense; fp32 is the vector units' peak. Source: NVIDIA H20 data sheet (not re-checked).
        peak_flops={
            "fp32": 44 * TERA,
            "tf32": 74 * TERA,
            "bf16": 148 * TERA,
            "fp16": 148 * TERA,
            "fp8": 296 * TERA,
        },
        # Source: NVIDIA H20 data sheet, "96 GB" HBM3.
        memory_bytes=96 * GIGA,
        # Source: nvidia-smi, total memory of an "H20".
        usable_memory_bytes=97_871 * MIB,
        # Source: NVIDIA H20 data sheet.
        memory_bandwidth=4000 * GIGA,
        # Source: public specification pages (78 SMs; clock not re-checked).
        sm_count=78,
        clock_hertz=1830 * MEGA,
        # As of the H100's SMs; 60 MB of L2 (not re-checked).
        cores=128,
        tensor_cores=4,
        cache_bytes=60 * MEGA,
        # PCIe 5.0 x16 after coding. Source: NVIDIA H20 data sheet.
        host_bandwidth=63 * GIGA,
        power_watts=400,
        source="NVIDIA H20 data sheet; public specification pages",
    )
