"""An ideal device of 1 FLOP/s: FLOPs read as seconds, memory is free. For the arithmetic of schedules."""

import math

from topologies.accelerator import Accelerator


def build() -> Accelerator:
    """One FLOP takes one second, bytes take none.

    >>> build().peak("bf16"), build().memory_bandwidth
    (1.0, inf)
    """
    return Accelerator(
        name="ideal",
        peak_flops={"fp32": 1.0, "bf16": 1.0, "fp16": 1.0},
        memory_bytes=math.inf,
        memory_bandwidth=math.inf,
        sm_count=1,
        host_bandwidth=math.inf,
        source="by definition",
    )
