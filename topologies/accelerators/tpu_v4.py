"""Google TPU v4 (2021): a chip of a 3D torus of up to 4096."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """One TPU v4 chip of two TensorCores.

    >>> build().peak("bf16") / 1e12
    275.0
    """
    return Accelerator(
        name="TPU v4",
        # Matrix units; there is no published fp32 peak. Source: Google Cloud TPU documentation, "TPU v4".
        peak_flops={"bf16": 275 * TERA},
        # Source: Google Cloud TPU documentation, "32 GiB" HBM2.
        memory_bytes=32 * GIGA,
        # Source: the same page, in GiB.
        usable_memory_bytes=32_768 * MIB,
        # Source: Google Cloud TPU documentation, 1,228 GB/s.
        memory_bandwidth=1228 * GIGA,
        # TensorCores. Source: Jouppi et al., "TPU v4", ISCA 2023, arXiv:2304.01433 (1050 MHz).
        sm_count=2,
        clock_hertz=1050 * MEGA,
        # Matrix units of a TensorCore; PCIe 3.0 x16 after coding, four chips a host. Source: the same paper.
        tensor_cores=4,
        host_bandwidth=15.8 * GIGA,
        host_devices=4,
        power_watts=192,
        source="Google Cloud TPU documentation; arXiv:2304.01433",
    )
