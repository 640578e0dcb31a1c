"""NVIDIA B300 SXM 288 GB (Blackwell Ultra, 2025)."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The B300 SXM of an HGX or DGX B300.

    >>> build().peak("fp4") / build().peak("bf16")
    5.6
    """
    return Accelerator(
        name="B300-SXM",
        # Dense; fp32 is the vector units' peak; NVIDIA's pages give 12.6 to 15 PFLOP/s of fp4. Source:
        # stas00/ml-engineering, accelerator tables.
        peak_flops={
            "fp32": 80 * TERA,
            "tf32": 1125 * TERA,
            "bf16": 2250 * TERA,
            "fp16": 2250 * TERA,
            "fp8": 4500 * TERA,
            "mxfp8": 4500 * TERA,
            "fp4": 12600 * TERA,
            "nvfp4": 12600 * TERA,
        },
        # Source: NVIDIA HGX B300 data sheet, "288 GB" HBM3e (270 exposed).
        memory_bytes=288 * GIGA,
        # Source: nvidia-smi in a cloud provider's B300 guide ("270 GB" are GiB).
        usable_memory_bytes=275_040 * MIB,
        # Source: NVIDIA HGX B300 data sheet.
        memory_bandwidth=8000 * GIGA,
        # Sources give 148 to 160 SMs and no boost clock.
        sm_count=148,
        # FP32 and tensor cores of an SM; 126 MB of L2. Source: public specification pages.
        cores=128,
        tensor_cores=4,
        cache_bytes=126 * MEGA,
        # PCIe 6.0 x16 after coding. Source: NVIDIA HGX B300 data sheet.
        host_bandwidth=126 * GIGA,
        power_watts=1100,
        source="NVIDIA HGX B300 data sheet; github.com/stas00/ml-engineering, accelerator tables",
    )
