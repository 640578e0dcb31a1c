"""Rings along every dimension of a torus at once, both ways round."""

import numpy as np

from simulator.activity import Activity
from simulator.collectives._messages import Messages, activity, phase
from simulator.collectives.ring import PASSES
from simulator.demand import Ints
from topologies import Topology
from workloads.ops import Collective


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """Groups that fill a box of the grid. The buffer is cut in one part for each dimension and direction.

    Every part goes through the dimensions in turn, each starting with another one, so that all links work at once:
    with d equal dimensions an all-reduce takes 2(n−1)/n·S/(2d·B). Assumes that the parts keep step.
    """
    if collective.kind not in PASSES:
        raise ValueError(f"torus does not do {collective.kind}; it does {', '.join(PASSES)}")
    shape = box(ranks, topology)
    if shape is None:
        raise ValueError(
            f"torus needs groups that fill a box of a grid; {ranks.shape[1]} members of {topology.name} do not"
        )
    messages = list(_rings(PASSES[collective.kind], collective.bytes, ranks.reshape(len(ranks), *shape)))
    return activity("torus", [phase(topology, ranks, messages, passes=PASSES[collective.kind])], topology)


def box(ranks: Ints, topology: Topology) -> tuple[int, ...] | None:
    """Sides of the box of the grid that the groups fill, all alike, members in row-major order; None if they do not."""
    if not topology.grid:
        return None
    places = np.stack(np.unravel_index(ranks, topology.grid), axis=-1)
    sides = places.max(axis=1) - places.min(axis=1) + 1
    if (sides != sides[0]).any() or sides[0].prod() != ranks.shape[1]:
        return None
    filled = np.stack(np.unravel_index(np.arange(ranks.shape[1]), tuple(sides[0])), axis=-1)
    alike = (places - places.min(axis=1, keepdims=True) == filled).all()
    return tuple(side for side in sides[0].tolist() if side > 1) if alike else None


def _rings(passes: int, size: float, grid: Ints) -> "list[Messages]":
    """Messages to both neighbours along each dimension; `grid` of shape (groups, *sides)."""
    sides = grid.shape[1:]
    parts = len(sides)
    found = []
    for dimension, side in enumerate(sides):
        carried, steps = 0.0, 0.0
        for start in range(parts):
            before = [sides[(start + turn) % parts] for turn in range((dimension - start) % parts)]
            carried += passes * (side - 1) / side * size / parts / float(np.prod(before))
            steps = passes * (side - 1)
        for way in (1, -1):
            following = np.roll(grid, -way, axis=dimension + 1)
            found.append(
                Messages(carried / 2, steps / 2, grid.reshape(len(grid), -1), following.reshape(len(grid), -1))
            )
    return found
