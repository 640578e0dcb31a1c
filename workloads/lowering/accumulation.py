"""What older stacks do of the backward pass in steps that later ones fused or overlapped."""

from dataclasses import replace
from typing import TYPE_CHECKING

from workloads.lowering.draft import Draft, Unit, waiting
from workloads.ops import Collective, Compute

if TYPE_CHECKING:
    from workloads.stack import Stack


def weave(draft: Draft, stack: "Stack") -> None:
    """Add gradients up after the products that make them, and hold these until an all-reduce beside them is over."""
    if draft.kind == "F":
        return
    for unit in draft.units:
        if not stack.fused_accumulation:
            _accumulate(draft, unit)
        if not stack.async_reduction:
            _hold(unit)


def _accumulate(draft: Draft, unit: Unit) -> None:
    """A kernel that reads a new gradient and the sum so far, and writes the sum; ready once that has ended."""
    numbers = draft.microbatch
    for index, gradient in enumerate(unit.gradients):
        total = gradient.parameters * numbers.gradient_bytes
        kernel = Compute(
            name=f"{gradient.ready}.accumulate",
            kind="elementwise",
            read_bytes=gradient.parameters * numbers.element + total,
            write_bytes=total,
            dtype=numbers.dtype,
        )
        place = unit.place(gradient.ready)
        if unit.ops[place].stream != kernel.stream:
            kernel = replace(kernel, after=(gradient.ready,))
        unit.ops.insert(place + 1, kernel)
        unit.gradients[index] = replace(gradient, ready=kernel.name)


def _hold(unit: Unit) -> None:
    """Let the kernel after every all-reduce of an input gradient wait for it."""
    for index, op in enumerate(unit.ops):
        if isinstance(op, Collective) and op.kind == "all_reduce" and op.axes == ("tp",):
            later = range(index + 1, len(unit.ops))
            follower = next((each for each in later if unit.ops[each].stream == "compute"), None)
            if follower is not None:
                unit.ops[follower] = waiting(unit.ops[follower], (op.name,))
