"""Google TPU v5e (2023): a chip of a 2D torus of up to 256."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MIB, TERA


def build() -> Accelerator:
    """One TPU v5e chip of one TensorCore.

    >>> build().peak("bf16") / 1e12
    197.0
    """
    return Accelerator(
        name="TPU v5e",
        # Matrix units; there is no published fp32 peak. Source: docs.cloud.google.com/tpu/docs/v5e.
        peak_flops={"bf16": 197 * TERA},
        # Source: docs.cloud.google.com/tpu/docs/v5e, 16 GB HBM2.
        memory_bytes=16 * GIGA,
        # GB read as GiB (not re-checked).
        usable_memory_bytes=16_384 * MIB,
        # Source: docs.cloud.google.com/tpu/docs/v5e, 819 GB/s.
        memory_bandwidth=819 * GIGA,
        # TensorCore; the clock is not published. Source: the same page.
        sm_count=1,
        # Matrix units of a TensorCore; the link to the host is not published, eight chips share one. Source: the same
        # page.
        tensor_cores=4,
        host_devices=8,
        source="docs.cloud.google.com/tpu/docs/v5e",
    )
