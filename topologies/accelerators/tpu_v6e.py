"""Google TPU v6e, Trillium (2024): a chip of a 2D torus of up to 256."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MIB, TERA


def build() -> Accelerator:
    """One TPU v6e chip of one TensorCore.

    >>> build().peak("bf16") / 1e12
    918.0
    """
    return Accelerator(
        name="TPU v6e (Trillium)",
        # Matrix units; fp8 runs at the rate of bf16, and there is no published fp32 peak. Source: stas00/ml-
        # engineering, accelerator tables.
        peak_flops={"bf16": 918 * TERA, "fp16": 918 * TERA, "fp8": 918 * TERA},
        # Source: Google Cloud TPU documentation, 32 GB HBM3 at 1,640 GB/s (not re-checked).
        memory_bytes=32 * GIGA,
        memory_bandwidth=1640 * GIGA,
        # GB read as GiB (not re-checked).
        usable_memory_bytes=32_768 * MIB,
        # TensorCore, and its matrix units; clock and link to the host are not published, eight chips share a host.
        # Source: Google Cloud TPU documentation.
        sm_count=1,
        tensor_cores=2,
        host_devices=8,
        source="Google Cloud TPU documentation (not re-checked); github.com/stas00/ml-engineering, accelerator tables",
    )
