"""The frame of links: who crossed a link, and how many transfers at one instant."""

import numpy as np
import pytest
from hypothesis import given, settings
from random_programs import attempt, systems

import topologies
from simulator import Result, simulate, traffic
from simulator.timeline import Timeline
from workloads import TrainingStep
from workloads.mesh import DeviceMesh
from workloads.ops import P2P, Collective, Compute, Op
from workloads.program import Program

GIB = 2.0**30


def run(axes: dict[str, int], ops: list[Op], cluster: str, **options) -> Result:
    """All ranks do the same ops."""
    program = Program.of(DeviceMesh(axes), {(): ops}, varies=())
    return simulate(program, topologies.build(cluster), **options)


def reduce(axis: str, stream: str | None = None, after: tuple[str, ...] = (), size: float = GIB) -> Collective:
    name = f"{axis} {stream} {after}"
    return Collective(
        name=name, stream=stream or axis, kind="all_reduce", axes=tuple(axis.split()), bytes=size, after=after
    )


def by_link(result: Result, column: str) -> dict[tuple[str, str], object]:
    """A column of the frame for every link, as if nothing were folded."""
    frame = result.to_frame("links")
    classes = result.timeline.quotient.partition.links
    ends = [(str(tail), str(head)) for tail, head in result.topology.links.ends]
    return dict(zip(ends, frame[column].to_numpy()[classes].tolist(), strict=True))


def test_two_transfers_at_a_time_are_two_and_in_turn_they_are_one():
    """On a flat cluster every ring crosses the link of each of its members once."""
    together = run({"dp": 2, "tp": 2}, [reduce("dp"), reduce("tp")], "flat,ranks=4")
    in_turn = run({"dp": 2, "tp": 2}, [reduce("dp", "comm"), reduce("tp", "comm")], "flat,ranks=4")
    for result, peak in ((together, 2), (in_turn, 1)):
        assert set(by_link(result, "peak_flows").values()) == {peak}
        assert set(by_link(result, "crossed_by").values()) == {"dp tp"}


@pytest.mark.parametrize("latency", [0.0, 1e-6])
def test_what_follows_at_once_is_not_together(latency):
    """Ten transfers in turn on one stream, with and without latency between them."""
    ops = [
        Collective(name=f"{number}", stream="tp", kind="all_gather", axes=("tp",), bytes=GIB / 3)
        for number in range(10)
    ]
    result = run({"tp": 4}, ops, f"flat,ranks=4,latency={latency}")
    assert set(by_link(result, "peak_flows").values()) == {1}


def test_a_shared_link_carries_a_transfer_of_every_rank_below_it():
    """16 GPUs of a rack send to those of the next one: the rack's link has 16 messages, a card's one."""
    ops = [P2P(name="out", kind="shift", axis="pp", offset=1, bytes=GIB, mode="blocking")]
    peaks = by_link(run({"pp": 2, "dp": 16}, ops, "llama3_cluster,gpus=32"), "peak_flows")
    assert peaks["gpu0", "rack0"] == peaks["rack1", "gpu16"] == 1
    assert peaks["rack0", "pod0"] == peaks["pod0", "rack1"] == 16
    assert peaks["gpu0", "nvswitch0"] == 0


def test_nobody_crossed_is_empty_and_sound_is_one():
    cluster = topologies.build("dgx_h100,nodes=2").degrade(link=("gpu3", "nvswitch0"), bandwidth=0.25)
    program = Program.of(DeviceMesh({"dp": 2, "tp": 8}), {(): [reduce("tp")]}, varies=())
    frame = simulate(program, cluster).to_frame("links")
    unused = frame[frame["carried_bytes"] == 0]
    assert set(unused["kind"]) == {"infiniband"}
    assert (unused["crossed_by"] == "").all()
    assert (unused["peak_flows"] == 0).all()
    assert set(frame.loc[frame["carried_bytes"] > 0, "crossed_by"]) == {"tp"}
    weak = frame[frame["degraded"] < 1]
    assert weak[["source", "destination", "degraded"]].to_numpy().tolist() == [["gpu3", "nvswitch0", 0.25]]
    assert set(frame["degraded"]) == {1.0, 0.25}


def test_a_few_numbers_load_no_link_and_are_not_seen():
    """On real fabrics they are latency alone."""
    result = run({"tp": 8}, [reduce("tp", size=4.0)], "dgx_h100")
    assert set(by_link(result, "peak_flows").values()) == {0}
    assert result.to_frame("links")["carried_bytes"].sum() == 0


STEPS = {
    "contention": ("llama3_8b,layers=4", "pp=2 dp=4,zero=1 tp=2", "flat,ranks=16,bandwidth=2e9", 16),
    "two nodes": ("llama3_8b,layers=4", "pp=2,schedule=interleaved,virtual=2 fsdp=4 tp=2", "dgx_h100,nodes=2", 16),
    "rails": ("llama3_8b,layers=2", "dp=4,zero=1 tp=4", "rail_optimized,nodes=2", 8),
}


@pytest.mark.parametrize("detail", ["ops", "actions"])
@pytest.mark.parametrize("name", STEPS)
def test_folded_is_unfolded(name, detail):
    model, plan, cluster, batch = STEPS[name]
    step = TrainingStep(model, plan, batch=batch, sequence=1024)
    folded, unfolded = (simulate(step, topologies.build(cluster), fold=fold, detail=detail) for fold in (True, False))
    assert len(folded.to_frame("links")) < len(unfolded.to_frame("links"))
    for column in ("peak_flows", "crossed_by", "degraded"):
        assert by_link(folded, column) == by_link(unfolded, column)
    peaks = folded.to_frame("links")
    assert ((peaks["peak_flows"] > 0) == (peaks["carried_bytes"] > 0)).all()
    if name == "contention":
        assert peaks["peak_flows"].max() > 1


@settings(max_examples=20, derandomize=True, deadline=None)
@given(systems())
def test_folded_is_unfolded_on_random_systems(system):
    peaks = []
    for fold in (True, False):
        played = attempt(*system, fold=fold, shortcuts=False)
        if played is None:
            return
        timeline = Timeline(played.quotient, tuple(played.scripts), tuple(played.recordings))
        crowds = traffic.crowds(timeline)
        classes = played.quotient.partition.links
        peaks.append((traffic.peaks(timeline, crowds)[classes], np.array(traffic.axes(timeline, crowds))[classes]))
    np.testing.assert_array_equal(peaks[0], peaks[1])


def test_shortcuts_count_the_same():
    """Runs that were replayed as one are opened: what they contain counts like the rest."""
    step = TrainingStep("llama3_8b,layers=4", "pp=2 dp=2,zero=1 tp=2", batch=8, sequence=1024)
    with_them, without = (simulate(step, "dgx_h100", shortcuts=shortcuts) for shortcuts in (True, False))
    assert by_link(with_them, "peak_flows") == by_link(without, "peak_flows")


def test_transfers_overlap_a_kernel_without_being_counted_twice():
    gemm = Compute(name="gemm", kind="gemm", flops=1e12, shape=(4096.0, 4096.0, 4096.0))
    result = run({"tp": 2}, [reduce("tp"), gemm, reduce("tp", after=("gemm",))], "flat,ranks=2")
    assert set(by_link(result, "peak_flows").values()) == {1}
