"""NVIDIA H800 SXM 80 GB (Hopper, 2023): the H100 with fewer NVLinks, for export."""

from dataclasses import replace

from topologies.accelerator import Accelerator
from topologies.accelerators import h100


def build() -> Accelerator:
    """The H800 SXM: the H100's chip and memory; its NVLink has 200 GB/s each way.

    >>> build().peak("bf16") / 1e12
    989.4
    """
    return replace(
        h100.build(),
        name="H800-SXM",
        # All facts are those of the H100; the memory that nvidia-smi shows was not re-checked.
        source="SimAI (calbusbw.h), DeepEP README, NVIDIA H100 data sheet",
    )
