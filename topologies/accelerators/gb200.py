"""NVIDIA GB200 (Grace Blackwell, 2024): one of the GPUs of an NVL72 rack."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """One Blackwell GPU of a GB200.

    >>> build().peak("bf16") / 1e12
    2500.0
    """
    return Accelerator(
        name="GB200",
        # Dense; fp32 is the vector units' peak. Source: NVIDIA GB200 NVL72 data sheet (a 72nd); stas00/ml-engineering,
        # accelerator tables.
        peak_flops={
            "fp32": 80 * TERA,
            "tf32": 1250 * TERA,
            "bf16": 2500 * TERA,
            "fp16": 2500 * TERA,
            "fp8": 5000 * TERA,
            "mxfp8": 5000 * TERA,
            "fp4": 10000 * TERA,
            "nvfp4": 10000 * TERA,
        },
        # Source: NVIDIA GB200 NVL72 data sheet: 13.4 TB HBM3e in a rack, 186 GB a GPU.
        memory_bytes=186 * GIGA,
        # Source: nvidia-smi, total memory of a "GB200".
        usable_memory_bytes=189_471 * MIB,
        # Source: NVIDIA GB200 NVL72 data sheet: 576 TB/s in a rack.
        memory_bandwidth=8000 * GIGA,
        # Source: public specification pages (148 SMs); clock: stas00/ml-engineering, accelerator tables.
        sm_count=148,
        clock_hertz=2062 * MEGA,
        # FP32 and tensor cores of an SM; 126 MB of L2. Source: public specification pages.
        cores=128,
        tensor_cores=4,
        cache_bytes=126 * MEGA,
        # Half of the NVLink-C2C of a Grace, 900 GB/s both ways together, which two GPUs share; four GPUs a tray.
        # Source: NVIDIA GB200 NVL72 data sheet.
        host_bandwidth=225 * GIGA,
        host_kind="c2c",
        host_devices=4,
        power_watts=1200,
        source="NVIDIA GB200 NVL72 data sheet; github.com/stas00/ml-engineering, accelerator tables",
    )
