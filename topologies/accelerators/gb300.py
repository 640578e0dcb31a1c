"""NVIDIA GB300 (Grace Blackwell Ultra, 2025): one of the GPUs of an NVL72 rack."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """One Blackwell Ultra GPU of a GB300.

    >>> build().peak("fp4") / build().peak("bf16")
    6.0
    """
    return Accelerator(
        name="GB300",
        # Dense; fp32 is the vector units' peak. Source: NVIDIA GB300 NVL72 data sheet (a 72nd); stas00/ml-engineering,
        # accelerator tables.
        peak_flops={
            "fp32": 80 * TERA,
            "tf32": 1250 * TERA,
            "bf16": 2500 * TERA,
            "fp16": 2500 * TERA,
            "fp8": 5000 * TERA,
            "mxfp8": 5000 * TERA,
            "fp4": 15000 * TERA,
            "nvfp4": 15000 * TERA,
        },
        # Source: NVIDIA GB300 NVL72 data sheet, "288 GB" HBM3e (279 exposed).
        memory_bytes=288 * GIGA,
        # Source: nvidia-smi, total memory of a "GB300".
        usable_memory_bytes=284_208 * MIB,
        # Source: NVIDIA GB300 NVL72 data sheet: 576 TB/s in a rack.
        memory_bandwidth=8000 * GIGA,
        # Sources give 148 to 160 SMs and no boost clock.
        sm_count=148,
        # FP32 and tensor cores of an SM; 126 MB of L2. Source: public specification pages.
        cores=128,
        tensor_cores=4,
        cache_bytes=126 * MEGA,
        # Half of the NVLink-C2C of a Grace, 900 GB/s both ways together, which two GPUs share; four GPUs a tray.
        # Source: NVIDIA GB300 NVL72 data sheet.
        host_bandwidth=225 * GIGA,
        host_kind="c2c",
        host_devices=4,
        power_watts=1400,
        source="NVIDIA GB300 NVL72 data sheet; github.com/stas00/ml-engineering, accelerator tables",
    )
