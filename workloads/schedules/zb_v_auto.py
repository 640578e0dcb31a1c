"""ZB-V by search: two stages a rank in the shape of a V, the smallest bubble under a limit of memory for given times.

Source: Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 6, and Pipeline Parallelism with Controllable Memory,
arXiv:2405.15362, section 5. The search starts from ZB-V's fixed order and from building blocks. At F = I = W no
rank has a bubble by span with `memory=1`, as in ZB-V, for m >= 2p - 1.
"""

from workloads.schedule import Schedule
from workloads.schedules import zb_v
from workloads.schedules._blocks import blocks, leanest, pipeline_of, searched
from workloads.schedules._compact import Score
from workloads.schedules._orders import few_microbatches, v_shaped
from workloads.schedules._timing import Figures, Limits


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
    """The least found of the makespan and twice the span, for times of a rank's two stages together.

    No rank holds more than `memory` times what 1F1B holds on its first rank: `memory` × 2p chunks, each until its W.

    >>> print(build(2, 3))
    """
    times = {"forward": forward, "backward_input": backward_input, "backward_weight": backward_weight}
    pipeline = pipeline_of(stages, microbatches, times, hop)
    limits = Limits(weight=int(memory * 2 * stages + 1e-9))
    least = leanest(pipeline)
    if not limits.weight >= least.weight:
        raise ValueError(
            f"memory={memory:g} times {2 * stages} chunks is {limits.weight:g}; a V of {stages} ranks needs "
            f"{least.weight:g}: memory={least.weight / 2 / stages:.4g}"
        )
    fixed = [[pipeline.number(*action[:3]) for action in order] for order in zb_v.build(stages, microbatches).orders.values()]
    orders = searched(pipeline, limits, _judge, blocks(stages), besides=[fixed])
    return v_shaped("zb_v_auto", pipeline.actions(orders), warnings=few_microbatches(stages, microbatches))


def _judge(figures: Figures) -> Score:
    return figures.makespan + 2 * figures.span, figures.span, figures.weight, figures.input
