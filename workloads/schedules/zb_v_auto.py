"""ZB-V by search: two stages a rank in the shape of a V, the smallest bubble under a limit of memory for given times.

Source: Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 6, and Pipeline Parallelism with Controllable
Memory, arXiv:2405.15362. The search starts from ZB-V's fixed order and from building blocks, and compacts them forwards
and backwards in time. At F = I = W and without hops no rank has a bubble by span with `memory=1` and m >= 2p - 1, as
in ZB-V. It is never worse than that in the sum that it makes small.
"""

from workloads.schedule import Schedule
from workloads.schedules import zb_v
from workloads.schedules._blocks import blocks, leanest, pipeline_of, searched
from workloads.schedules._compact import Score
from workloads.schedules._orders import few_microbatches, v_shaped
from workloads.schedules._timing import Figures, Limits, check_number


def build(
    stages: int,
    microbatches: int,
    *,
    memory: float = 1.0,
    forward: float = 1.0,
    backward_input: float = 1.0,
    backward_weight: float = 1.0,
    hop: float = 0.0,
) -> Schedule:
    """The least found of the makespan and four times the span, for times of a rank's two stages together.

    No rank holds more than `memory` times what 1F1B holds on its first rank: `memory` × 2p chunks, each until its W.

    >>> print(build(2, 3))
    zb_v_auto: ranks=2 stages=4 microbatches=3
    rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2
    rank 1   .  1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2
    """
    times = {"forward": forward, "backward_input": backward_input, "backward_weight": backward_weight}
    pipeline = pipeline_of(stages, microbatches, times, hop)
    least = leanest(pipeline).until_weight
    check_number(memory=memory)
    if not memory * 2 * stages >= least:
        raise ValueError(
            f"memory={memory:g} times {2 * stages} chunks; the leanest block on {stages} ranks holds {least:g}: "
            f"memory={least / 2 / stages:.4g}"
        )
    limits = Limits(until_weight=min(memory * 2 * stages, 2 * microbatches))
    fixed = pipeline.numbers(zb_v.build(stages, microbatches).orders.values())
    orders = searched(pipeline, limits, _judge, blocks(stages), besides=[fixed])
    return v_shaped("zb_v_auto", pipeline.actions(orders), warnings=few_microbatches(stages, microbatches))


def _judge(figures: Figures) -> Score:
    return figures.makespan + 4 * figures.span, figures.span, figures.until_weight, figures.until_input
