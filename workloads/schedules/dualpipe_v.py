"""DualPipeV: DualPipe folded in half, so that no weights are held twice.

Source: github.com/deepseek-ai/DualPipe, after Cut-in-half (Sea AI Lab); PyTorch's `ScheduleDualPipeV` is the same.
Two stages a rank in the shape of a V. At F = I = W a step takes what DualPipe takes with n = 2m and P = 2p in place
of m and p and the times of one stage: n FB + (P/2-1)(FB + B - 3W) + (P+1)(F + B - FB), B whole; every rank has at
most P+1 in flight. Messages are DualPipe's.
"""

from workloads.schedule import Schedule
from workloads.schedules._dualpipe import overlapped_order
from workloads.schedules._orders import check_counts, v_shaped


def build(stages: int, microbatches: int) -> Schedule:
    """The way down as one stream, the way up as the other one.

    >>> print(build(1, 2))
    dualpipe_v: ranks=1 stages=2 microbatches=2
    rank 0     0F0       1F0       0F1       1B0    (1F1;0B0)    1B1       0I1       0W1
    """
    check_counts(stages=stages, virtual=2, microbatches=microbatches)
    if microbatches < 2 * stages:
        raise ValueError(
            f"microbatches={microbatches} on stages={stages}: dualpipe_v needs as many as there are stages, two on "
            f"each rank, {2 * stages}; nearest: microbatches={2 * stages}"
        )
    orders = [
        overlapped_order(
            (rank, 2 * stages - 1 - rank), inward=rank, depth=stages, main=microbatches - 2 * stages + rank + 1
        )
        for rank in range(stages)
    ]
    return v_shaped("dualpipe_v", orders, p2p="recv_block")
