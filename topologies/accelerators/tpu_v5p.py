"""Google TPU v5p (2023): a chip of a 3D torus of up to 8960."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """One TPU v5p chip of two TensorCores.

    >>> build().peak("bf16") / 1e12
    459.0
    """
    return Accelerator(
        name="TPU v5p",
        # Matrix units; there is no published fp32 peak. Source: docs.cloud.google.com/tpu/docs/v5p.
        peak_flops={"bf16": 459 * TERA},
        # Source: docs.cloud.google.com/tpu/docs/v5p, 95 GB HBM2e.
        memory_bytes=95 * GIGA,
        # GB read as GiB (not re-checked).
        usable_memory_bytes=97_280 * MIB,
        # Source: docs.cloud.google.com/tpu/docs/v5p, 2,765 GB/s.
        memory_bandwidth=2765 * GIGA,
        # TensorCores. Source: the same page; clock from public articles (not re-checked).
        sm_count=2,
        clock_hertz=1750 * MEGA,
        # Matrix units of a TensorCore; the link to the host is not published, four chips share one. Source: the same
        # page.
        tensor_cores=4,
        host_devices=4,
        source="docs.cloud.google.com/tpu/docs/v5p",
    )
