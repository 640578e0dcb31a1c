"""Where a rank's time went, on hand-made programs whose answer is plain."""

import pytest

import topologies
from simulator import Result, simulate
from simulator.kernels import kernels
from topologies import Topology
from workloads import DeviceMesh, Program, TrainingStep
from workloads.ops import P2P, Collective, Compute, Op

BANDWIDTH = 10.0
"""Bytes/s of every port; an ideal device does 1 FLOP/s, so that everything is in whole seconds."""


def kernel(seconds: float, name: str = "kernel", **options: object) -> Compute:
    return Compute(name=name, kind="gemm", flops=seconds, **options)


def message(kind: str, bytes: float = 0.0, offset: int = 1, mode: str = "latency") -> P2P:
    return P2P(name=kind, kind=kind, axis="pp", offset=offset, bytes=bytes, mode=mode)


def reduction(bytes: float, stream: str = "compute", after: tuple[str, ...] = ()) -> Collective:
    """Over dp; a ring of two sends the whole buffer once each way: bytes / BANDWIDTH seconds."""
    return Collective(name="reduce", stream=stream, after=after, kind="all_reduce", axes=("dp",), bytes=bytes)


def ideal(ranks: int, latency: float = 0.0) -> Topology:
    return topologies.build("flat", ranks=ranks, bandwidth=BANDWIDTH, latency=latency, accelerator="ideal")


def pipeline(*ranks: list[Op], latency: float = 0.0) -> Result:
    """One rank per stage."""
    program = Program.of(DeviceMesh({"pp": len(ranks)}), {(rank,): ops for rank, ops in enumerate(ranks)})
    return simulate(program, ideal(len(ranks), latency))


def replicas(*ranks: list[Op]) -> Result:
    """One rank per replica, each with ops of its own."""
    program = Program.of(DeviceMesh({"dp": len(ranks)}), {(rank,): ops for rank, ops in enumerate(ranks)}, ("dp",))
    return simulate(program, ideal(len(ranks)))


def parts(result: Result) -> list[dict[str, float]]:
    """What is not zero of each rank's account, in rank order."""
    frame = result.to_frame("ranks", expand=True)
    names = [name for name in frame if name.endswith("_seconds")]
    assert frame[names].sum(axis=1).tolist() == pytest.approx([result.step_time] * len(frame))
    return [
        {name.removesuffix("_seconds"): value for name, value in row.items() if abs(value) > 1e-12}
        for row in frame[names].to_dict("records")
    ]


def test_kernels_only():
    assert parts(pipeline([kernel(3)])) == [{"compute": 3}]


def test_a_rank_without_work_left_is_in_the_bubble_while_others_are_in_the_phase():
    assert parts(pipeline([kernel(3)], [kernel(5)])) == [{"compute": 3, "bubble": 2}, {"compute": 5}]


def test_waiting_for_another_stages_producer_is_bubble():
    result = pipeline([kernel(3), message("send")], [message("recv"), kernel(4)])
    assert parts(result) == [{"compute": 3, "bubble": 4}, {"compute": 4, "bubble": 3}]
    assert result.bubble_fraction == pytest.approx(7 / 14)


def test_waiting_while_the_message_travels_is_exposed_pp():
    """20 bytes at 10 bytes/s after 2 x 0.5 s of latency: 3 s."""
    result = pipeline([kernel(3), message("send", 20)], [message("recv", 20), kernel(4)], latency=0.5)
    assert parts(result) == [{"compute": 3, "bubble": 7}, {"compute": 4, "bubble": 3, "exposed_pp": 3}]


def test_a_message_under_a_kernel_is_hidden():
    """It leaves at 1 and arrives at 3; the receiver computes until 5."""
    first, second = kernel(5, "before"), kernel(4, "after")
    result = pipeline([kernel(1), message("send", 20)], [first, message("recv", 20), second])
    assert parts(result)[1] == {"compute": 9}


@pytest.mark.parametrize("mode", ["send_block", "blocking"])
def test_a_blocked_sender_is_exposed(mode):
    result = pipeline(
        [kernel(1), message("send", 20, mode=mode), kernel(1, "more")], [message("recv", 20, mode=mode), kernel(2)]
    )
    assert parts(result)[0] == {"compute": 2, "exposed_pp": 2, "bubble": 1}


def test_a_collective_in_the_compute_stream_is_exposed():
    result = replicas([kernel(3), reduction(20)], [kernel(3), reduction(20)])
    assert parts(result) == [{"compute": 3, "exposed_dp": 2}] * 2


def test_waiting_for_a_slower_member_is_idle():
    result = replicas([kernel(3), reduction(20)], [kernel(5), reduction(20)])
    assert parts(result) == [{"compute": 3, "idle": 2, "exposed_dp": 2}, {"compute": 5, "exposed_dp": 2}]


def test_a_collective_beside_kernels_is_hidden_as_far_as_they_last():
    """It runs from 3 to 5 under a kernel from 3 to 4: one second of the wait for it shows."""
    ops = [kernel(3), reduction(20, "dp", ("kernel",)), kernel(1, "under"), kernel(2, "last", after=("reduce",))]
    assert parts(replicas(ops, ops)) == [{"compute": 6, "exposed_dp": 1}] * 2


@pytest.mark.parametrize("detail", ["ops", "actions"])
def test_launches_that_kernels_do_not_hide(detail):
    """Kernels that are shorter than the host's launch interval leave the device waiting for the host.

    Long ones hide all but what the host does before a step, which is `step_seconds` to the last digit.
    """
    step = TrainingStep("llama3_8b,layers=4", "dp=8", batch=8, sequence=16)
    seconds = simulate(step, topologies.build("dgx_h100"), detail=detail).mean_seconds
    long = simulate(step.replace(sequence=8192), topologies.build("dgx_h100"), detail=detail).mean_seconds
    begins = kernels("H100-SXM5").training.step_seconds
    assert seconds["launch_seconds"] > begins > 0
    assert long["launch_seconds"] == pytest.approx(begins, rel=1e-9)
    gradients = simulate(step.replace(sequence=8192, optimizer="none"), topologies.build("dgx_h100"), detail=detail)
    assert gradients.mean_seconds["launch_seconds"] == 0


def test_a_step_with_two_axes_books_each_transfer_on_its_own():
    step = TrainingStep("llama3_8b,layers=4", "pp=2 dp=2 tp=2", batch=8, sequence=2048)
    result = simulate(step, topologies.build("dgx_h100"))
    assert set(result.exposed) == {"pp", "dp", "tp"}
    assert result.exposed["tp"] > result.exposed["pp"] > 0
    assert result.bubble_fraction > 1 / 5 / 2


def test_short_cuts_do_not_change_the_accounts():
    """A send that waits for a reduce-scatter exposes that, whether its run is replayed as one or op by op."""
    step = TrainingStep("llama3_8b,layers=4", "pp=2 dp=2,zero=1 tp=4", batch=8, sequence=2048)
    short, full = (simulate(step, "dgx_h100,nodes=2", shortcuts=shortcuts) for shortcuts in (True, False))
    assert dict(short.mean_seconds) == pytest.approx(dict(full.mean_seconds), rel=1e-9, abs=1e-12)
