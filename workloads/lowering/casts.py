"""Conversion of weights to the format of the GEMMs that multiply them."""

from workloads.lowering.draft import Draft
from workloads.ops import Compute


def weave(draft: Draft, *, transient: bool) -> None:
    """Convert a unit's weights before their first use: in the step, or in every pass where they are `transient`.

    Assumes that parameters travel unconverted, and that every rank converts all that it multiplies.
    """
    precision = draft.microbatch.precision
    if not precision.casts or draft.kind == "W" or not (transient or (draft.kind == "F" and draft.is_first)):
        return
    for unit in draft.units:
        if unit.user and unit.narrow:
            cast = Compute(
                name=f"{unit.name}.weights.cast",
                kind="cast",
                read_bytes=unit.narrow * precision.element,
                write_bytes=unit.narrow * precision.copies,
                dtype=precision.dtype,
            )
            unit.ops.insert(unit.place(unit.user), cast)
            unit.user = cast.name
