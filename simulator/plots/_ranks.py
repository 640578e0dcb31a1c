"""Which ranks a picture shows: those of a mesh axis, or some by number."""

from collections.abc import Sequence
from numbers import Integral

from simulator.plots import Framed


def by_coordinate(result: Framed, axis: str) -> dict[int, list[int]]:
    """The ranks in a result's frames by their coordinate on a mesh axis, both ascending.

    Without pipeline parallelism all are on its coordinate 0; any other axis that is not there is a ValueError.
    """
    known = sorted(result.coordinates)
    axes = {each: None for rank in known for each in result.coordinates[rank]}
    if axis not in axes and axis != "pp":
        raise ValueError(f"ranks={axis!r} is no axis of the mesh; it has {', '.join(axes)}, or give a list of ranks")
    found: dict[int, list[int]] = {}
    for rank in known:
        found.setdefault(result.coordinates[rank].get(axis, 0), []).append(rank)
    return {place: found[place] for place in sorted(found)}


def by_number(result: Framed, ranks: Sequence[int]) -> tuple[int, ...]:
    """The ranks, ascending, each once; one that is not in the result's frames is a ValueError, as is none at all."""
    known = sorted(result.coordinates)
    missing = [rank for rank in ranks if rank not in result.coordinates]
    if missing or not len(ranks):
        number = missing[0] if missing and isinstance(missing[0], Integral) else 0
        nearest = sorted(known, key=lambda rank: abs(rank - number))[:8]
        what = f"rank {missing[0]} is not in the result's frames" if missing else "ranks=[] leaves nothing to draw"
        raise ValueError(f"{what}, which hold one rank of each class; the nearest are {sorted(nearest)}")
    return tuple(sorted(set(ranks)))
