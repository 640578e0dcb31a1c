"""AWS Trainium1 (2022): a chip of a 4x4 torus, 16 in an instance."""

from topologies.accelerator import Accelerator
from topologies.units import GIGA, MEGA, MIB, TERA


def build() -> Accelerator:
    """One Trainium1 chip of two NeuronCores.

    >>> build().peak("bf16") / 1e12
    190.0
    """
    return Accelerator(
        name="Trainium1",
        # Dense; fp32 is the vector and scalar engines' way. Source: AWS Neuron documentation, trainium.
        peak_flops={
            "fp32": 47.5 * TERA,
            "tf32": 190 * TERA,
            "bf16": 190 * TERA,
            "fp16": 190 * TERA,
            "fp8": 190 * TERA,
        },
        # Source: AWS Neuron documentation, 32 GiB of device memory at 820 GB/s.
        memory_bytes=32 * GIGA,
        memory_bandwidth=820 * GIGA,
        # Source: the same page, in GiB.
        usable_memory_bytes=32_768 * MIB,
        # NeuronCores, and the SRAM of both; clock and link to the host are not published. Source: AWS Neuron
        # documentation.
        sm_count=2,
        cache_bytes=48 * MEGA,
        host_devices=16,
        source="AWS Neuron documentation, trainium and trn1 architecture",
    )
