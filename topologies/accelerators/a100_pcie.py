"""NVIDIA A100 PCIe 80 GB (Ampere, 2021): the card, with slower memory and no NVSwitch."""

from dataclasses import replace

from topologies.accelerator import Accelerator
from topologies.accelerators import a100_80gb
from topologies.units import GIGA


def build() -> Accelerator:
    """The A100 PCIe with 80 GB: the chip of the SXM4 module.

    >>> build().memory_bandwidth / 1e9
    1940.0
    """
    return replace(
        a100_80gb.build(),
        name="A100-PCIe-80GB",
        # Source: stas00/ml-engineering, accelerator tables (NVIDIA's data sheet has 1,935 GB/s).
        memory_bandwidth=1940 * GIGA,
        # All other facts are those of the module; nvidia-smi shows as much memory.
        power_watts=300,
        source="NVIDIA A100 data sheet and white paper; github.com/stas00/ml-engineering, accelerator tables",
    )
