"""AWS Trainium2 (2024): a chip of a 4x4 torus, 64 in an UltraServer."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """One Trainium2 chip of eight NeuronCores.

    >>> build().peak("bf16") / 1e12
    667.0
    """
    return Accelerator(
        name="Trainium2",
        # Dense; fp32 is the vector and scalar engines' way. Source: AWS Neuron documentation, trainium2;
        # stas00/ml-engineering, accelerator tables.
        peak_flops={
            "fp32": 181 * TERA,
            "tf32": 667 * TERA,
            "bf16": 667 * TERA,
            "fp16": 667 * TERA,
            "fp8": 1299 * TERA,
        },
        # Source: AWS Neuron documentation, 96 GiB of device memory.
        memory_bytes=96 * GIGA,
        # Source: the same page, in GiB.
        usable_memory_bytes=98_304 * MIB,
        # Source: AWS Neuron documentation, 2.9 TB/s.
        memory_bandwidth=2900 * GIGA,
        # NeuronCores; the clock is not published. Source: AWS Neuron documentation.
        sm_count=8,
        # On-chip SRAM of all NeuronCores; the link to the host is not published. Source: AWS Neuron documentation.
        cache_bytes=224 * MEGA,
        host_devices=16,
        source="AWS Neuron documentation, trainium2; github.com/stas00/ml-engineering, accelerator tables",
    )
