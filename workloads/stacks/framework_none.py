"""No framework: fused kernels, the fastest attention, everything overlapped, no host in the way.

What stepsim assumes where a run names no software; an upper bound, as no framework is without a host.
"""

from types import MappingProxyType

from workloads.stack import Stack

NOTHING = "by definition, as nothing but the hardware is in the way"
PUBLISHED = Stack(
    name="framework_none",
    fused_loss=True,
    overlap_tensor=True,
    graphs=True,
    sources=MappingProxyType(dict.fromkeys(("fused_loss", "overlap_tensor", "graphs"), NOTHING)),
)


def build() -> Stack:
    """No framework."""
    return PUBLISHED
