"""V-Half: two stages a rank in the shape of a V, with half of what 1F1B holds on its first rank.

Source: Pipeline Parallelism with Controllable Memory, arXiv:2405.15362, section 4. Every rank holds at most p + 2
chunks until their W, 1F1B's first rank 2p. No closed form; for F = I = W = 10 and m = 3p the bubble is at most 25 for
p = 4, with 6 chunks held, and 85 for p = 8, with 10. Building blocks are compacted forwards and backwards in time.
"""

from workloads.schedule import Schedule
from workloads.schedules._blocks import blocks, makespan_first, pipeline_of, searched
from workloads.schedules._orders import few_microbatches, v_shaped
from workloads.schedules._timing import Limits


def build(
    stages: int,
    microbatches: int,
    *,
    forward: float = 1.0,
    backward_input: float = 1.0,
    backward_weight: float = 1.0,
    hop: float = 0.0,
) -> Schedule:
    """The shortest makespan found for the times, which are of a rank's two stages together.

    >>> print(build(2, 3))
    v_half: ranks=2 stages=4 microbatches=3
    rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 0I0 3W1 0W0 3F2 3I2 0I1 3W2 0W1 0I2 0W2
    rank 1   .  1F0 2F0 1F1 2F1 2I0 1I0 2W0 1W0 1F2 2F2 2I1 1I1 2W1 2I2 1I2 1W1 2W2 1W2
    """
    times = {"forward": forward, "backward_input": backward_input, "backward_weight": backward_weight}
    pipeline = pipeline_of(stages, microbatches, times, hop)
    orders = searched(pipeline, Limits(until_weight=stages + 2), makespan_first, blocks(stages))
    return v_shaped("v_half", pipeline.actions(orders), warnings=few_microbatches(stages, microbatches))
