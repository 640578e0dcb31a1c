"""AMD Instinct MI250X 128 GB (CDNA 2, 2021): two dies in one package."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The MI250X as one device. Software sees two dies: a rank on one has half of everything.

    >>> build().peak("bf16") / 1e12
    383.0
    """
    return Accelerator(
        name="MI250X",
        # Matrix rates of both dies, one GEMM reaches half; fp32 is the vector units' peak. Source: AMD Instinct MI250X
        # data sheet; stas00/ml-engineering, accelerator tables.
        peak_flops={"fp32": 47.9 * TERA, "bf16": 383 * TERA, "fp16": 383 * TERA},
        # Source: AMD Instinct MI250X data sheet, "128 GB" HBM2e at 3.28 TB/s.
        memory_bytes=128 * GIGA,
        memory_bandwidth=3277 * GIGA,
        # GiB less 16 MiB a die, as rocm-smi shows (not re-checked).
        usable_memory_bytes=131_040 * MIB,
        # 220 compute units of both dies, stream processors and matrix cores of each; 16 MB of L2. Source: AMD Instinct
        # MI250X data sheet and CDNA 2 white paper (1700 MHz peak engine clock).
        sm_count=220,
        cores=64,
        tensor_cores=4,
        clock_hertz=1700 * MEGA,
        cache_bytes=16 * MEGA,
        # PCIe 4.0 x16 after coding. Source: AMD Instinct MI250X data sheet.
        host_bandwidth=31.5 * GIGA,
        power_watts=560,
        source="AMD Instinct MI250X data sheet; github.com/stas00/ml-engineering, accelerator tables",
    )
