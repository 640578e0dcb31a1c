"""AMD Instinct MI325X 256 GB (CDNA 3, 2024)."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """The MI325X: an MI300X with more and faster memory.

    >>> build().memory_bandwidth / 1e12
    6.0
    """
    return Accelerator(
        name="MI325X",
        # Dense matrix rates; fp32 is the vector units' peak. Source: AMD Instinct MI325X data sheet;
        # stas00/ml-engineering, accelerator tables.
        peak_flops={
            "fp32": 163.4 * TERA,
            "tf32": 653.7 * TERA,
            "bf16": 1307.4 * TERA,
            "fp16": 1307.4 * TERA,
            "fp8": 2614.9 * TERA,
        },
        # Source: AMD Instinct MI325X data sheet, "256 GB" HBM3e.
        memory_bytes=256 * GIGA,
        # GiB less 16 MiB, as rocm-smi shows for an MI300X and an MI355X (not re-checked).
        usable_memory_bytes=262_128 * MIB,
        # Source: AMD Instinct MI325X data sheet.
        memory_bandwidth=6000 * GIGA,
        # Source: AMD Instinct MI325X data sheet (304 compute units, 2100 MHz peak engine clock).
        sm_count=304,
        clock_hertz=2100 * MEGA,
        # Stream processors and matrix cores of a compute unit; 256 MB of Infinity Cache. Source: AMD Instinct MI325X
        # data sheet.
        cores=64,
        tensor_cores=4,
        cache_bytes=256 * MEGA,
        # PCIe 5.0 x16 after coding. Source: the same data sheet.
        host_bandwidth=63 * GIGA,
        power_watts=1000,
        source="AMD Instinct MI325X data sheet; github.com/stas00/ml-engineering, accelerator tables",
    )
