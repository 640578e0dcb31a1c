"""The end of a rank's step: reductions that could not overlap, gradient norm, optimizer."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from workloads.lowering import host_copies
from workloads.ops import Collective, Compute, Op

if TYPE_CHECKING:
    from workloads.step import TrainingStep

SCALAR_BYTES = 8
UNFUSED_PASSES = 3
"""Bytes that an update of many kernels moves for each of a fused one: 90 for 30 of Adam (an analytic study)."""


def closing_ops(step: "TrainingStep", stages: Sequence[int], after: str) -> tuple[Op, ...]:
    """What a rank with these stages does after its last backward, whose last kernel is `after`."""
    kept = step.settled_plan.share("gradients")
    held = [step.stages[stage].parameters * kept for stage in stages]
    ready: tuple[str, ...] = (after,) if after else ()
    ops: list[Op] = []
    for strategy in step.settled_plan.inside_out:
        ops += strategy.close(held, ready, step.rank_microbatch)
        ready += strategy.marks() if sum(held) else ()
    mirrored = tuple(_mirrored(step, stages, ready))
    ops += mirrored
    ready += tuple(op.name for op in mirrored)
    if step.has_tied_copy(stages):
        ops.append(_tied(step, ready))
        ready += ("tied_embeddings",)
    if not step.optimizer.steps:
        return tuple(ops)
    sent = (host_copies.GRADIENTS,) if step.offload and sum(held) else ()
    parameters = sum(held) * step.settled_plan.share("optimizer") / kept
    return (*ops, *_optimizer(step, parameters, tuple(name for name in ready if name != after), sent))


def _mirrored(step: "TrainingStep", stages: Sequence[int], after: tuple[str, ...]) -> Iterator[Op]:
    """Ranks with the same weights, as of a schedule with two chains, add up their gradients."""
    schedule, kept = step.schedule, step.settled_plan.share("gradients")
    mine = {schedule.weights[stage] for stage in stages}
    ranks = {place for weight, place in zip(schedule.weights, schedule.placement, strict=True) if weight in mine}
    if len(ranks) > 1:
        size = sum(step.stages[stage].parameters for stage in stages) * kept
        yield Collective(
            name="mirrored_weights",
            stream="pp",
            after=after,
            kind="all_reduce",
            axes=("pp",),
            bytes=size * step.rank_microbatch.reduced_bytes,
            dtype=step.rank_microbatch.reduced_dtype,
            positions=tuple(sorted(ranks)),
        )


def _tied(step: "TrainingStep", after: tuple[str, ...]) -> Op:
    """The first and the last stage add up the gradients of their copies of the embedding."""
    shared = step.stages[-1].layers[-1].logits * step.model.hidden * step.settled_plan.share("gradients")
    size = shared * step.rank_microbatch.reduced_bytes
    return Collective(
        name="tied_embeddings",
        stream="pp",
        after=after,
        kind="all_reduce",
        axes=("pp",),
        bytes=size,
        dtype=step.rank_microbatch.reduced_dtype,
        positions=(0, -1),
    )


def _optimizer(step: "TrainingStep", parameters: float, ready: tuple[str, ...], sent: tuple[str, ...]) -> Iterator[Op]:
    """Gradient norm over the rank's share, one scalar all-reduce per axis (as torchtitan does), the update.

    The norm adds up over the axes whose ranks hold different gradients: tp, pp, fsdp, and dp (or its groups) with
    zero=1. Plain dp has the same gradients on all of its ranks. An offloaded optimizer updates at the host, once the
    gradients are there (the ops `sent`).
    """
    numbers, optimizer = step.rank_microbatch, step.settled_optimizer
    previous = "gradient_norm"
    yield Compute(
        name=previous,
        kind="elementwise",
        after=ready,
        read_bytes=parameters * numbers.gradient_bytes,
        write_bytes=0.0,
        dtype=numbers.reduced_dtype,
    )
    for strategy in reversed(step.settled_plan.strategies):
        for axis in strategy.splits_gradients if strategy.degree > 1 else ():
            yield _scalar(axis, previous)
            previous = f"gradient_norm.{axis}"
    if step.offload:
        yield from host_copies.update(step.offload, optimizer, numbers.element, parameters, (previous, *sent))
        return
    passes = 1 if step.software.fused_optimizer else UNFUSED_PASSES
    yield Compute(
        name="optimizer",
        kind="optimizer",
        after=(previous,) if previous != "gradient_norm" else (),
        read_bytes=passes * parameters * optimizer.read_bytes(numbers.element),
        write_bytes=passes * parameters * optimizer.written_bytes(numbers.element),
        dtype="fp32",
    )


def _scalar(axis: str, after: str) -> Op:
    """An all-reduce of the squared norm over one axis, on a communicator of its own as in the frameworks."""
    return Collective(
        name=f"gradient_norm.{axis}",
        stream="norm",
        after=(after,),
        kind="all_reduce",
        axes=(axis,),
        bytes=SCALAR_BYTES,
        dtype="fp32",
    )
