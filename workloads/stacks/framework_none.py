"""No framework: fused kernels, the fastest attention, everything overlapped, no host in the way.

What stepsim assumes where a run names no software; an upper bound, as no framework is without a host.
"""

from workloads.stack import Stack

PUBLISHED = Stack(
    name="framework_none",
    fused_loss=True,
    overlap_tensor=True,
    graphs=True,
)


def build() -> Stack:
    """No framework."""
    return PUBLISHED
