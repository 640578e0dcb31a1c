"""AMD Instinct MI355X 288 GB (CDNA 4, 2025)."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The MI355X.

    >>> build().peak("fp4") / build().peak("fp8")
    2.0
    """
    return Accelerator(
        name="MI355X",
        # Dense matrix rates, without a tf32 matrix unit; fp32 is the vector units' peak. Source: AMD Instinct MI355X
        # data sheet; stas00/ml-engineering, accelerator tables.
        peak_flops={
            "fp32": 157.3 * TERA,
            "bf16": 2516.6 * TERA,
            "fp16": 2516.6 * TERA,
            "fp8": 5033 * TERA,
            "mxfp8": 5033 * TERA,
            "fp4": 10066 * TERA,
        },
        # Source: AMD Instinct MI355X data sheet, "288 GB" HBM3e.
        memory_bytes=288 * GIGA,
        # Source: rocm-smi, total memory of an MI355X.
        usable_memory_bytes=294_896 * MIB,
        # Source: AMD Instinct MI355X data sheet.
        memory_bandwidth=8000 * GIGA,
        # Source: AMD Instinct MI355X data sheet (256 compute units, 2400 MHz peak engine clock).
        sm_count=256,
        clock_hertz=2400 * MEGA,
        # Stream processors and matrix cores of a compute unit; 256 MB of Infinity Cache. Source: AMD Instinct MI355X
        # data sheet.
        cores=64,
        tensor_cores=4,
        cache_bytes=256 * MEGA,
        # PCIe 5.0 x16 after coding. Source: the same data sheet.
        host_bandwidth=63 * GIGA,
        power_watts=1400,
        source="AMD Instinct MI355X data sheet; github.com/stas00/ml-engineering, accelerator tables",
    )
