"""NVIDIA GH200 with 96 GB HBM3 (Grace Hopper, 2023)."""

from dataclasses import replace

from topologies.accelerator import Accelerator
from topologies.accelerators import h100
from topologies.units import GIGA, MIB


def build() -> Accelerator:
    """The Hopper half of a GH200 with 96 GB (there is one with 141 GB and 4.8 TB/s, too): an H100 with more memory.

    >>> build().memory_bandwidth / 1e12
    4.0
    """
    return replace(
        h100.build(),
        name="GH200",
        # Source: NVIDIA GH200 data sheet, "96 GB" HBM3 at 4 TB/s.
        memory_bytes=96 * GIGA,
        memory_bandwidth=4000 * GIGA,
        # Source: nvidia-smi, total memory of a "GH200 480GB".
        usable_memory_bytes=97_871 * MIB,
        # NVLink-C2C, 900 GB/s both ways together. Source: NVIDIA GH200 data sheet.
        host_bandwidth=450 * GIGA,
        host_kind="c2c",
        power_watts=900,
        source="NVIDIA GH200 data sheet; github.com/stas00/ml-engineering, accelerator tables",
    )
