"""NVIDIA H200 SXM 141 GB (Hopper, 2024)."""

from dataclasses import replace

from topologies.accelerator import Accelerator
from topologies.accelerators import h100
from topologies.units import GIGA, MIB


def build() -> Accelerator:
    """The H200 SXM: an H100 with more and faster memory.

    >>> build().memory_bandwidth / 1e12
    4.8
    """
    return replace(
        h100.build(),
        name="H200-SXM",
        # Source: NVIDIA H200 data sheet, "141 GB" HBM3e at 4.8 TB/s.
        memory_bytes=141 * GIGA,
        memory_bandwidth=4800 * GIGA,
        # Source: nvidia-smi, total memory of an "H200".
        usable_memory_bytes=143_771 * MIB,
        source="NVIDIA H200 data sheet; github.com/stas00/ml-engineering, accelerator tables",
    )
