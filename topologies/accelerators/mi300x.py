"""AMD Instinct MI300X 192 GB (CDNA 3, 2023)."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The MI300X.

    >>> build().peak("fp8") / build().peak("bf16") > 1.99
    True
    """
    return Accelerator(
        name="MI300X",
        # Dense matrix rates; fp32 is the vector units' peak. Source: AMD Instinct MI300X data sheet;
        # stas00/ml-engineering, accelerator tables.
        peak_flops={
            "fp32": 163.4 * TERA,
            "tf32": 653.7 * TERA,
            "bf16": 1307.4 * TERA,
            "fp16": 1307.4 * TERA,
            "fp8": 2614.9 * TERA,
        },
        # Source: AMD Instinct MI300X data sheet, "192 GB" HBM3.
        memory_bytes=192 * GIGA,
        # Source: rocm-smi, total memory of an MI300X.
        usable_memory_bytes=196_592 * MIB,
        # Source: AMD Instinct MI300X data sheet.
        memory_bandwidth=5300 * GIGA,
        # Source: AMD Instinct MI300X data sheet (304 compute units, 2100 MHz peak engine clock).
        sm_count=304,
        clock_hertz=2100 * MEGA,
        # Stream processors and matrix cores of a compute unit; 256 MB of Infinity Cache. Source: AMD Instinct MI300X
        # data sheet.
        cores=64,
        tensor_cores=4,
        cache_bytes=256 * MEGA,
        # PCIe 5.0 x16 after coding. Source: the same data sheet.
        host_bandwidth=63 * GIGA,
        power_watts=750,
        source="AMD Instinct MI300X data sheet; github.com/stas00/ml-engineering, accelerator tables",
    )
