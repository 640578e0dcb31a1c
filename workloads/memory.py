"""Memory of a rank, itemised: model states, activations in flight, logits, gathered layers, runtime.

Bytes. Source of activations: arXiv:2205.05198.
"""

from typing import TYPE_CHECKING

from workloads.footprint import Footprint, Item
from workloads.layers import Layer
from workloads.optimizer import Adam
from workloads.stages import Stage

if TYPE_CHECKING:
    from workloads.step import TrainingStep

KEPT_LOGIT_BYTES = 4
"""The FP32 softmax of the loss, kept from forward to backward."""
RUNTIME_BYTES = 1.5e9
"""CUDA context, libraries and communicator buffers. Assumes one figure for every cluster and plan."""
PARTS = {"embedding": "embedding", "layer": "layers", "head": "head"}
"""Kinds of layers, and the parts of the account they are in."""

Found = dict[Item, float]


def footprints(step: "TrainingStep") -> dict[tuple[int, ...], Footprint]:
    """What the memory of each pp coordinate holds.

    `gathered_parameters` includes fsdp's gradients that are not scattered yet. Assumes no fragmentation, and that a
    unit's gradient is scattered before the next one is complete.

    >>> from workloads import TrainingStep
    >>> step = TrainingStep("llama2_7b", plan="dp=8", batch=8, sequence=4096)
    >>> rows = footprints(step)[0,].rows(step.program().orders[0,])
    >>> round(rows["optimizer"] / 1e9, 1)
    80.9
    """
    return {(rank,): _footprint(step, rank) for rank in range(step.schedule.ranks)}


def _footprint(step: "TrainingStep", rank: int) -> Footprint:
    """What the memory of one pp coordinate holds."""
    stages = {stage: step.stages[stage] for stage, place in enumerate(step.schedule.placement) if place == rank}
    built: dict[int, Found] = {}
    working: dict[tuple[int, str], Found] = {}
    held: dict[int, Found] = {}
    for number, stage in stages.items():
        if id(stage) not in built:
            built[id(stage)] = _held(step, stage)
        held[number] = built[id(stage)]
        for kind in ("F", "B", "I"):
            found = _working(step, stage, kind)
            if found:
                working[number, kind] = found
    return Footprint(_resident(step, list(stages.values())), held, working)


def _resident(step: "TrainingStep", stages: list[Stage]) -> Found:
    """Model states, gathered layers, the runtime."""
    layers = [layer for stage in stages for layer in stage.layers]
    element, plan = step.rank_microbatch.element, step.plan
    sizes = {"parameters": element, "gradients": element, "optimizer": _optimizer_bytes(step)}
    found: Found = {}
    for row, size in sizes.items():
        for layer in layers:
            _add(found, Item(row, PARTS[layer.kind]), layer.parameters * size * plan.share(row))
    units = [layer.parameters for layer in layers]
    gathered = sum(strategy.gathered(units) for strategy in plan.strategies)
    _add(found, Item("gathered_parameters"), gathered * element)
    _add(found, Item("runtime"), RUNTIME_BYTES)
    return found


def _optimizer_bytes(step: "TrainingStep") -> int:
    """Optimizer bytes per parameter."""
    return 0 if step.optimizer == "none" else Adam(step.rank_microbatch.element).state_bytes


def _held(step: "TrainingStep", stage: Stage) -> Found:
    """What a stage keeps of one microbatch; under full recomputation of a layer its input alone."""
    found: Found = {}
    microbatch = step.rank_microbatch
    for layer in stage.layers:
        if step.recompute == "full" and layer.kind == "layer":
            boundary = step.model.hidden * step.plan.share("boundary")
            _add(found, Item("activations", "layer inputs"), microbatch.bytes(boundary))
        else:
            _add_saved(found, step, layer)
        _add(found, Item("logits", "softmax"), layer.logits * microbatch.tokens * KEPT_LOGIT_BYTES)
    return found


def _working(step: "TrainingStep", stage: Stage, kind: str) -> Found:
    """What is there while an action runs: the logits in their own precision, all of a layer that is recomputed."""
    found: Found = {}
    microbatch = step.rank_microbatch
    logits = sum(layer.logits for layer in stage.layers)
    _add(found, Item("logits", "logits"), microbatch.bytes(logits))
    layers = [layer for layer in stage.layers if layer.kind == "layer"]
    if step.recompute == "full" and kind != "F" and layers:
        _add_saved(found, step, layers[0])
    return found


def _add_saved(found: Found, step: "TrainingStep", layer: Layer) -> None:
    """Everything a layer keeps, by module."""
    for module in layer.modules:
        _add(found, Item("activations", module.name), step.rank_microbatch.bytes(module.saved))


def _add(found: Found, item: Item, size: float) -> None:
    """More bytes of an item."""
    if size:
        found[item] = found.get(item, 0.0) + size
