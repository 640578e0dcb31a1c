"""Memory of a rank, itemised: model states, activations in flight, logits, gathered layers, runtime.

Rows are bytes. Source of activations: arXiv:2205.05198 with flash attention and without dropout.
"""

from typing import TYPE_CHECKING

from workloads.optimizer import Adam
from workloads.schedule import peak_in_flight
from workloads.stages import Stage

if TYPE_CHECKING:
    from workloads.step import TrainingStep

KEPT_LOGIT_BYTES = 4
"""The FP32 softmax of the loss, kept from forward to backward."""
RUNTIME_BYTES = 1.5e9
"""CUDA context, libraries and communicator buffers. Assumes one figure for every cluster and plan."""

Rows = dict[str, float]


def memory_rows(step: "TrainingStep") -> dict[tuple[int, ...], Rows]:
    """Bytes in named rows for each pp coordinate.

    `gathered_parameters` includes fsdp's gradients that are not scattered yet. Assumes no fragmentation, and that a
    unit's gradient is scattered before the next one is complete.

    >>> from workloads import TrainingStep
    >>> rows = memory_rows(TrainingStep("llama2_7b", plan="dp=8", batch=8, sequence=4096))
    >>> {name: round(size / 1e9, 1) for name, size in rows[0,].items()}["optimizer"]
    80.9
    """
    return {(rank,): _rank_rows(step, rank) for rank in range(step.schedule.ranks)}


def recompute_savings(step: "TrainingStep") -> dict[tuple[int, ...], float]:
    """Bytes of activations that `recompute="full"` frees on each pp coordinate; 0 where it is on already."""
    return {
        (rank,): _activations(step, rank, full=step.recompute == "full") - _activations(step, rank, full=True)
        for rank in range(step.schedule.ranks)
    }


def _rank_rows(step: "TrainingStep", rank: int) -> Rows:
    """The rows of one pp coordinate."""
    stages = [stage for stage, place in zip(step.stages, step.schedule.placement, strict=True) if place == rank]
    element, parameters = step.rank_microbatch.element, sum(stage.parameters for stage in stages)
    units = [layer.parameters for stage in stages for layer in stage.layers]
    gathered = sum(strategy.gathered(units) for strategy in step.plan.strategies)
    return {
        "parameters": parameters * element * step.plan.share("parameters"),
        "gradients": parameters * element * step.plan.share("gradients"),
        "optimizer": parameters * _optimizer_bytes(step) * step.plan.share("optimizer"),
        "activations": _activations(step, rank, full=step.recompute == "full"),
        "logits": _logits(step, rank),
        "gathered_parameters": gathered * element,
        "runtime": RUNTIME_BYTES,
    }


def _optimizer_bytes(step: "TrainingStep") -> int:
    """Optimizer bytes per parameter."""
    return 0 if step.optimizer == "none" else Adam(step.rank_microbatch.element).state_bytes


def _activations(step: "TrainingStep", rank: int, *, full: bool) -> float:
    """Peak of what a rank's stages keep for the backward passes in flight.

    Full recomputation keeps the input of every layer, and all of one layer while that layer is in its backward.
    """
    boundary = step.model.hidden * step.plan.share("boundary")
    cache: dict[int, float] = {}
    for stage in step.stages:
        if id(stage) not in cache:
            cache[id(stage)] = _saved(stage, boundary if full else None)
    weights = [cache[id(stage)] for stage in step.stages]
    peak = peak_in_flight(step.schedule.orders[rank], weights)
    here = {action.stage for action in step.schedule.orders[rank]}
    layers = [layer.saved for stage in here for layer in step.stages[stage].layers if layer.kind == "layer"]
    return step.rank_microbatch.bytes(peak + (max(layers, default=0) if full else 0))


def _saved(stage: Stage, boundary: float | None) -> float:
    """Elements per token that a stage keeps of one microbatch; with a `boundary` that much for each layer."""
    return sum(layer.saved if boundary is None or layer.kind != "layer" else boundary for layer in stage.layers)


def _logits(step: "TrainingStep", rank: int) -> float:
    """The head's softmax for each microbatch in flight there, and the logits of one in its own precision."""
    logits = [sum(layer.logits for layer in stage.layers) for stage in step.stages]
    last = len(logits) - 1
    if not logits[last] or step.schedule.placement[last] != rank:
        return 0.0
    in_flight = peak_in_flight(step.schedule.orders[rank], [float(stage == last) for stage in range(last + 1)])
    per_logit = KEPT_LOGIT_BYTES * in_flight + step.rank_microbatch.element
    return logits[last] * step.rank_microbatch.tokens * per_logit
