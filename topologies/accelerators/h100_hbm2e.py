"""NVIDIA H100 SXM5 with 96 GB HBM2e (Hopper, 2022): the part of Meta's Grand Teton hosts, at most 500 W."""

from dataclasses import replace

from topologies.accelerator import Accelerator
from topologies.accelerators import h100
from topologies.units import GIGA, MIB


def build() -> Accelerator:
    """The H100 of torchtitan's published runs: more and slower memory, and a lower limit of power.

    >>> build().memory_bandwidth / 1e12, build().power_limit_watts
    (2.4, 500)
    """
    return replace(
        h100.build(),
        name="H100-SXM5-HBM2e",
        # "96GB HBM2e with 2.4 TB/sec peak memory bandwidth". Source: torchtitan,
        # benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md; 6144 bit x 3.2 Gbit/s / 8 would be 2.46.
        memory_bytes=96 * GIGA,
        memory_bandwidth=2400 * GIGA,
        # Source: total memory in torchtitan's logs (not re-checked).
        usable_memory_bytes=95.04 * 1024 * MIB,
        # "The default 500W power limit" of a part for 700 W. Source: the same file.
        power_limit_watts=500,
        # No data sheet of it is public. Assumes the chip, its clock and peaks are the H100 SXM5's, of which the limit
        # of power lets less be reached: by arXiv:2410.06511 its peak lies between those of SXM and NVL.
        source="github.com/pytorch/torchtitan, benchmarks; NVIDIA H100 data sheet",
    )
