"""V-Half: two stages a rank in the shape of a V, with half of what 1F1B holds on its first rank.

Source: Pipeline Parallelism with Controllable Memory, arXiv:2405.15362, section 4. Every rank holds at most p + 2
chunks, 1F1B's first rank 2p. No closed form; for F = I = W = 10 and m = 3p the bubble is at most 25 for p = 4, 85 for p = 8.
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
    """
    times = {"forward": forward, "backward_input": backward_input, "backward_weight": backward_weight}
    pipeline = pipeline_of(stages, microbatches, times, hop)
    orders = searched(pipeline, Limits(weight=stages + 2), makespan_first, blocks(stages))
    return v_shaped("v_half", pipeline.actions(orders), warnings=few_microbatches(stages, microbatches))
