"""What the caching allocator sets aside for a rank, beside what is allocated in it."""

from workloads.footprint import Footprint, Items

MARGIN = 0.02
"""What is reserved beyond the peak, as a share of what comes and goes. Assumes PyTorch's expandable segments, which
leave little fragmentation, and none in what stays from the first step on."""
PASSING = ("gathered", "buffers")
"""Rows of a footprint's residents that are freed and allocated again all through the step."""


def reserved(footprint: Footprint, peak: Items) -> float:
    """Bytes that the allocator has reserved when a footprint is at its peak.

    The margin is on held and working items, and on gathered layers and buffers.

    >>> from workloads.footprint import Item
    >>> resident = {Item("parameters"): 100.0, Item("gathered"): 20.0}
    >>> footprint = Footprint(resident, {0: {Item("logits"): 30.0}})
    >>> reserved(footprint, footprint.peak([((0, "F", "only"), 0)]))
    151.0
    """
    staying = sum(size for item, size in footprint.resident.items() if item.row not in PASSING)
    allocated = sum(peak.values())
    return allocated + MARGIN * (allocated - staying)
