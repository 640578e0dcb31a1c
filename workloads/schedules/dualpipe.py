"""DualPipe: microbatches enter at both ends, and the forward of one overlaps with the backward of another.

Source: DeepSeek-V3, arXiv:2412.19437, section 3.2.1. Every rank holds the weights of two stages, one for each
direction. With F, B, W of one stage, B whole, and an overlapped pair taking FB, a step at F = I = W takes
m FB + (p/2-1)(FB + B - 3W) + (p+1)(F + B - FB); every rank has at most p+1 in flight.
DeepSeek's code waits for its messages before each action, nearest to which is that a transfer starts once its
receiver waits.
"""

from workloads.schedule import Action, Schedule
from workloads.schedules._dualpipe import overlapped_order
from workloads.schedules._orders import bidirectional, check_counts


def build(stages: int, microbatches: int) -> Schedule:
    """Half of the microbatches from either end; `microbatches` counts both halves.

    >>> print(build(2, 4))
    dualpipe: ranks=2 stages=4 microbatches=4
    rank 0     0F0       3F0       0F1       3B0    (3F1;0B0)    3B1       0I1       0W1
    rank 1     2F0       1F0       2F1       1B0    (1F1;2B0)    1B1       2I1       2W1
    """
    check_counts(stages=stages, microbatches=microbatches)
    if stages % 2:
        nearest = " or ".join(str(count) for count in (stages - 1, stages + 1) if count)
        raise ValueError(f"stages={stages} is odd; dualpipe pairs ranks from both ends; nearest: stages={nearest}")
    if microbatches % 2 or microbatches < 2 * stages:
        raise ValueError(
            f"microbatches={microbatches} on stages={stages}: dualpipe needs an even number of at least twice the "
            f"stages, {2 * stages}; nearest: microbatches={_nearest(stages, microbatches)}"
        )
    orders = [_order(rank, stages, microbatches) for rank in range(stages)]
    return bidirectional("dualpipe", orders, p2p="recv_block")


def _nearest(stages: int, microbatches: int) -> str:
    legal = {max(count - count % 2, 2 * stages) for count in (microbatches, microbatches + 1)}
    return " or ".join(map(str, sorted(legal)))


def _order(rank: int, ranks: int, microbatches: int) -> tuple[Action, ...]:
    """Ranks of the second half see the two directions swapped."""
    inward = min(rank, ranks - 1 - rank)
    here, there = rank, 2 * ranks - 1 - rank
    streams = (here, there) if rank < ranks // 2 else (there, here)
    main = microbatches // 2 - ranks + inward + 1
    return overlapped_order(streams, inward=inward, depth=ranks // 2, main=main)
