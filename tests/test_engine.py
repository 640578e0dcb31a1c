"""What the engine promises: closed forms, laws, and runs replayed as one that foreign work opens."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from random_programs import clusters, plans, play, systems, tree

import topologies
from simulator import collectives
from simulator.compute import FlopsAreSeconds, Roofline
from simulator.kernels import kernels
from simulator.recording import RunRecord
from simulator.rendezvous import MismatchError
from workloads.mesh import DeviceMesh
from workloads.ops import P2P, Collective, Compute
from workloads.program import Block, BlockKey, Program, Replay

SECONDS = FlopsAreSeconds()
STEADY = settings(max_examples=25, derandomize=True, deadline=None)


def flat(ranks, bandwidth=1.0, latency=0.0):
    """Ranks of 1 FLOP/s on links of 1 byte/s and no latency, if not said otherwise."""
    return topologies.build("flat", ranks=ranks, bandwidth=bandwidth, latency=latency, accelerator="ideal")


def alike(mesh, *ops):
    """A program in which every rank does the same."""
    return Program.of(mesh, {(): ops}, varies=())


def stages(*ops):
    """A pipeline with the ops of each stage."""
    return Program.of(DeviceMesh({"pp": len(ops)}), {(stage,): each for stage, each in enumerate(ops)})


def gemm(seconds, name="gemm", after=(), stream="compute"):
    return Compute(name=name, kind="gemm", flops=seconds, after=after, stream=stream)


def reduce(axis, size, name="reduce", kind="all_reduce", **options):
    return Collective(**{"stream": "net", **options}, name=name, kind=kind, axes=(axis,), bytes=size)


def named(played, rank):
    """Start and end of a rank's ops by name."""
    script = played.scripts[int(played.quotient.partition.ranks[rank])]
    spans = played.spans(rank).items()
    return {script.blocks[position].ops[place].op.name: (start, end) for (position, place), (start, _, end) in spans}


# ------------------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize(("kind", "passes"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
def test_ring(kind, passes, ranks):
    """A ring moves passes·(n−1)/n of the buffer over every link, in passes·(n−1) steps of one hop each."""
    op = reduce("dp", 6e9, kind=kind)
    played = play(alike(DeviceMesh({"dp": ranks}), op), flat(ranks, bandwidth=50e9, latency=5e-7))
    assert played.end == pytest.approx(passes * (ranks - 1) * (6e9 / ranks / 50e9 + 1e-6))


@pytest.mark.parametrize(("hosts", "each"), [(2, 2), (2, 4), (4, 2)])
def test_hierarchical(hosts, each):
    """The slower of 2(g−1)/g·S/B inside hosts and 2(N−1)/N·(S/g)/B across them, on links without constants."""
    graph = nx.Graph()
    for rank in range(hosts * each):
        graph.add_node(rank, device=True, host=rank // each)
        graph.add_edge(rank, f"host{rank // each}", bandwidth=400e9, kind="inside")
        graph.add_edge(rank, f"rail{rank % each}", bandwidth=25e9, kind="across")
    size, ranks, cluster = 8e9, np.arange(hosts * each), topologies.from_graph(graph)
    op = Collective(name="", stream="", kind="all_reduce", axes=("dp",), bytes=size)
    inside, across = 2 * (each - 1) / each * size / 400e9, 2 * (hosts - 1) / hosts * size / each / 25e9
    assert collectives.build("hierarchical", op, ranks, cluster).seconds(cluster) == pytest.approx(max(inside, across))


def test_an_axis_of_degree_one_costs_nothing():
    played = play(alike(DeviceMesh({"tp": 1, "dp": 2}), gemm(3.0), reduce("tp", 1e9)), flat(2), compute=SECONDS)
    assert played.end == 3.0


@pytest.mark.parametrize("ready", [0.5, 2.0, 7.0])
@pytest.mark.parametrize("mode", ["latency", "send_block", "recv_block", "blocking"])
def test_modes_of_a_message(mode, ready):
    """Rank 0 computes 1 s and sends 4 s worth of bytes; rank 1 computes until it is ready, and receives."""
    message = {"axis": "pp", "offset": 1, "bytes": 4.0, "mode": mode}
    sender = [gemm(1.0), P2P(name="send", kind="send", **message), gemm(1.0, "next")]
    receiver = [gemm(ready), P2P(name="recv", kind="recv", **message)]
    played = play(stages(sender, receiver), flat(2), compute=SECONDS)
    leaves = 1.0 if mode in ("latency", "send_block") else max(1.0, ready)
    assert named(played, 1)["recv"] == (ready, max(ready, leaves + 4.0))
    held = {"latency": 1.0, "send_block": 5.0, "recv_block": 1.0, "blocking": leaves + 4.0}[mode]
    assert named(played, 0)["next"] == (held, held + 1.0)


def test_a_collective_slows_compute_by_its_sms():
    """The tp collective holds 15 % of 132 SMs, 20 of them, from its launch to its end."""
    cluster, mesh = topologies.build("dgx_h100"), DeviceMesh({"tp": 8})
    ops = Compute(name="long", kind="gemm", flops=5e12), reduce("tp", 1e9, stream="tp")
    alone = play(alike(mesh, ops[0]), cluster).end
    played = play(alike(mesh, *ops), cluster)
    held = named(played, 0)["reduce"][1]
    assert held < alone
    assert named(played, 0)["long"][1] == pytest.approx(alone + held * 20 / 132)


def test_sms_are_held_while_waiting_for_peers():
    """Stage 0 launches a collective that stage 1 reaches when its own kernel has ended."""
    cluster = tree(2, 2, 1)
    both, long = reduce("pp", 1e3), Compute(name="long", kind="gemm", flops=5e12)
    alone = play(stages([long], []), cluster).end
    joined = reduce("pp", 1e3, after=("long",))
    played = play(stages([both, long], [long, joined]), cluster)
    late = named(played, 1)["reduce"][1]
    assert named(played, 1)["long"][1] == pytest.approx(alone)
    assert named(played, 0)["long"][1] == pytest.approx(late + alone - late * 112 / 132)


def test_the_host_launches_one_op_an_interval():
    """Kernels shorter than the interval end one interval apart; the k-th is launched at k intervals."""
    tiny = [Compute(name=f"{k}", kind="elementwise", read_bytes=1.0) for k in range(9)]
    interval = kernels("H100-SXM5").training.launch_interval
    running, cluster = Roofline(sustained=True), topologies.build("dgx_h100")
    played = play(alike(DeviceMesh({"dp": 8}), *tiny), cluster, compute=running, launch=True)
    assert [start for start, _ in named(played, 0).values()] == pytest.approx([k * interval for k in range(9)])
    assert play(alike(DeviceMesh({"dp": 8}), *tiny), cluster, compute=running).end < played.end


def test_a_run_waits_for_what_its_first_op_needs():
    """The kernels behind a message on another stream start when it has come, run as one or not."""
    shift = P2P(name="ring", kind="shift", axis="pp", offset=1, bytes=5.0, stream="net")
    program = alike(DeviceMesh({"pp": 2}), shift, gemm(1.0, "a"), gemm(1.0, "b", after=("ring",)), gemm(1.0, "c"))
    for detail in ("ops", "actions"):
        assert named(play(program, flat(2), compute=SECONDS, detail=detail), 0)["c"] == (6.0, 7.0)


def test_a_run_waits_for_ops_of_earlier_blocks():
    blocks = {
        BlockKey(0, "F"): Block((P2P(name="ring", kind="shift", axis="pp", offset=1, bytes=5.0, stream="net"),)),
        BlockKey(0, "B"): Block((gemm(1.0, "a", after=("ring",)), gemm(1.0, "b"))),
    }
    order = (Replay(BlockKey(0, "F"), 0), Replay(BlockKey(0, "B"), 0))
    program = Program(DeviceMesh({"pp": 2}), blocks, {(): order}, varies=())
    for detail in ("ops", "actions"):
        assert play(program, flat(2), compute=SECONDS, detail=detail).end == 7.0


def test_an_op_waits_for_a_collective_of_an_earlier_run():
    """What follows a shift on the compute stream is a run of its own, and so is what waits for an earlier one's sum."""
    total, shift = (
        reduce("tp", 8.0, "sum", stream="tp", after=("a",)),
        P2P(name="ring", kind="shift", axis="pp", offset=1, bytes=0.5),
    )
    body = [gemm(1.0, "a"), total, shift, gemm(1.0, "b"), gemm(1.0, "c", after=("sum",))]
    whole, actions = (
        play(alike(DeviceMesh({"pp": 2, "tp": 2}), *body), flat(4), compute=SECONDS, detail=detail)
        for detail in ("ops", "actions")
    )
    assert_equal_spans(actions, whole)


@STEADY
@given(plans(modes=("latency", "recv_block")))
def test_actions_are_exact_where_inner_traffic_is_undisturbed(plan):
    """Tensor parallelism on links inside hosts that nothing else uses; none of the links' protocols takes SMs."""
    graph = nx.Graph()
    for rank in range(16):
        graph.add_node(rank, device=True, host=rank // 2)
        graph.add_edge(rank, f"host{rank // 2}", bandwidth=400e9, kind="inside")
        graph.add_edge(rank, "spine", bandwidth=25e9, kind="across", latency=1e-6)
    mesh = DeviceMesh({"pp": 4, "dp": 2, "cp": 1, "tp": 2})
    program = replace(plan, mesh=mesh, tail=plan.tail - {"norm"}).program()
    whole, actions = (play(program, topologies.from_graph(graph), detail=detail) for detail in ("ops", "actions"))
    assert_equal_spans(actions, whole)


def test_two_lanes_share_the_sms():
    """3 s and 1 s of work on two lanes: the short one ends at 2, the long one at 4, run as one or not."""
    program = alike(DeviceMesh({"pp": 2}), gemm(3.0, "long"), gemm(1.0, "short", stream="lane"))
    for shortcuts in (True, False):
        played = play(program, flat(2), compute=SECONDS, shortcuts=shortcuts)
        assert named(played, 0) == {"long": (0.0, 4.0), "short": (0.0, 2.0)}


# ------------------------------------------------------------------------------------------- errors


def one_line(error):
    return "\n" not in str(error.value)


def test_a_mismatch_of_bytes_is_an_error():
    message = {"axis": "pp", "offset": 1}
    send, recv = P2P(name="out", kind="send", bytes=4.0, **message), P2P(name="in", kind="recv", bytes=5.0, **message)
    with pytest.raises(MismatchError, match=r"of 5 bytes as call 0 .* others call .* of 4 bytes") as caught:
        play(stages([send], [recv]), flat(2), compute=SECONDS)
    assert one_line(caught)


def test_a_mismatch_of_kind_is_an_error():
    ops = [reduce("pp", 4.0, kind=kind, name=kind) for kind in ("all_reduce", "all_gather")]
    with pytest.raises(MismatchError, match="all_gather"):
        play(stages(*[[op] for op in ops]), flat(2), compute=SECONDS)


def test_a_name_that_no_op_has_is_an_error():
    with pytest.raises(ValueError, match="late waits for 'never', but no op before it has that name") as caught:
        play(alike(DeviceMesh({"pp": 2}), gemm(1.0, "late", after=("never",))), flat(2), compute=SECONDS)
    assert one_line(caught)


def test_a_program_that_does_not_fit_the_cluster_is_an_error():
    with pytest.raises(ValueError, match=r"pp=2 × tp=3 = 6 ranks, but .* has 4"):
        play(alike(DeviceMesh({"pp": 2, "tp": 3}), gemm(1.0)), flat(4))


def test_one_channel_fed_from_two_streams_is_an_error():
    sends = [P2P(name=f"{s}", kind="send", axis="pp", offset=1, bytes=1.0, stream=s) for s in ("a", "b")]
    with pytest.raises(ValueError, match="rank 0 sends along pp with offset 1") as caught:
        play(stages(sends, []), flat(2))
    assert one_line(caught)


def test_stages_may_receive_on_different_streams():
    """A message goes to its receiver only, whatever stream another stage receives on."""
    message = {"axis": "pp", "offset": 1, "bytes": 4.0, "mode": "blocking"}
    recv = [P2P(name="in", kind="recv", stream=stream, **message) for stream in ("a", "b")]
    send = P2P(name="out", kind="send", **message)
    assert play(stages([send], [recv[0], send], [recv[1]]), flat(3), compute=SECONDS).end == 4.0


# ------------------------------------------------------------------------------------------- laws


@STEADY
@given(systems(ranks=16, modes=("latency",)))
def test_no_link_carries_more_than_its_capacity(system):
    played = play(*system)
    capacity = system[1].links.bandwidth * played.end
    assert (played.bytes_on_links() <= capacity * (1 + 1e-9)).all()


@STEADY
@given(systems(ranks=16, modes=("latency",)), some.data())
def test_a_link_nobody_crosses_changes_nothing(system, data):
    program, cluster = system
    played = play(program, cluster, shortcuts=False)
    idle = np.flatnonzero(played.bytes_on_links() == 0)
    if len(idle):
        weak = cluster.degrade(link=cluster.links.ends[data.draw(some.sampled_from(idle.tolist()))], bandwidth=0.01)
        again = play(program, weak, shortcuts=False)
        assert all(again.spans(rank) == played.spans(rank) for rank in range(cluster.size))


@STEADY
@given(plans(ranks=16, modes=("latency",)), some.randoms(use_true_random=False))
def test_relabelling_ranks_of_a_symmetric_topology_changes_nothing(plan, shuffler):
    cluster = topologies.build("flat", ranks=plan.mesh.size)
    devices, program = list(cluster.devices), plan.program()
    shuffler.shuffle(devices)
    first, second = (
        play(program, each, shortcuts=False) for each in (cluster, cluster.replace(devices=tuple(devices)))
    )
    assert all(first.spans(rank) == second.spans(rank) for rank in range(cluster.size))


@STEADY
@given(plans(ranks=16, modes=("latency",)), some.data())
def test_faster_hardware_is_never_slower_without_contention(plan, data):
    program, cluster = plan.program(), topologies.build("flat", ranks=plan.mesh.size)
    link = data.draw(some.sampled_from(cluster.links.ends))
    slow = cluster.degrade(rank=data.draw(some.integers(0, cluster.size - 1)), compute=0.7).degrade(
        link=link, bandwidth=0.3
    )
    assert play(program, cluster, network="unshared").end <= play(program, slow, network="unshared").end * (1 + 1e-12)


@STEADY
@given(systems(ranks=16, modes=("latency",)))
def test_ops_of_a_stream_do_not_overlap(system):
    played = play(*system)
    for rank_class, script in zip(played.quotient.rank_classes, played.scripts, strict=True):
        clock = {}
        for (position, place), (start, _, end) in sorted(played.spans(rank_class.rank).items()):
            op = script.blocks[position].ops[place].op
            assert start >= clock.get(op.stream, 0.0) * (1 - 1e-12)
            held = not isinstance(op, P2P) or op.kind != "send"
            clock[op.stream] = end if held else start


# ------------------------------------------------------------------------------------------- contact

TWO_HOSTS = topologies.build("dgx_h100", nodes=2)
THREE_AXES = DeviceMesh({"pp": 2, "dp": 2, "tp": 4})


def run_of(flops, size, layers):
    """Kernels with tensor-parallel sums between them: what is replayed as one."""
    ops = []
    for layer in range(layers):
        before = (f"sum{layer - 1}",) if layer else ()
        ops.append(Compute(name=f"gemm{layer}", kind="gemm", flops=flops, after=before))
        ops.append(reduce("tp", size, f"sum{layer}", stream="tp", after=(f"gemm{layer}",)))
    return [*ops, Compute(name="last", kind="gemm", flops=flops, after=(f"sum{layers - 1}",))]


def foreign(how, delay, size):
    """What meets the run: after a message between hosts that takes as long as `delay` bytes, one over `how`."""
    lead = P2P(name="lead", kind="shift", axis="pp", offset=1, bytes=delay, stream="net")
    meets = {
        "links": P2P(name="meets", kind="shift", axis="dp", offset=1, bytes=size, stream="net"),
        "links and SMs": reduce("dp", size, "meets", stream="net"),
        "SMs": reduce("pp", size, "meets", stream="net"),
        "another lane": Compute(name="meets", kind="gemm", flops=1e3 * size, stream="lane", after=("lead",)),
    }
    return [lead, meets[how]]


def runs(played):
    """How many runs were replayed as one."""
    return sum(isinstance(record, RunRecord) for each in played.recordings for record in each.records)


def assert_equal_spans(first, second, tolerance=1e-9):
    for rank in range(first.quotient.topology.size):
        mine, theirs = first.spans(rank), second.spans(rank)
        assert mine.keys() == theirs.keys()
        for place, times in mine.items():
            assert times == pytest.approx(theirs[place], rel=tolerance, abs=0.0)


def test_a_run_that_nothing_meets_is_one_event():
    played = play(alike(THREE_AXES, *run_of(1e11, 1e7, 3)), TWO_HOSTS)
    assert (runs(played), len(played.recordings)) == (1, 1)


@pytest.mark.parametrize("launch", [False, True])
@pytest.mark.parametrize("how", ["links", "links and SMs", "SMs", "another lane"])
@settings(max_examples=20, derandomize=True, deadline=None)
@given(
    instant=some.floats(0.0, 1.2), flops=some.sampled_from([1e8, 1e11, 4e11]), size=some.sampled_from([1e4, 1e7, 5e7])
)
def test_contact_opens_a_run(how, launch, instant, flops, size):
    """Wherever in the run it comes, contact leads to the same spans as a replay op by op."""
    body = run_of(flops, size, 3)
    length = play(alike(THREE_AXES, *body), TWO_HOSTS, launch=launch).end
    program = alike(THREE_AXES, *foreign(how, instant * length * 50e9, 2e7), *body)
    played = play(program, TWO_HOSTS, launch=launch)
    assert_equal_spans(played, play(program, TWO_HOSTS, launch=launch, shortcuts=False))
    assert_equal_spans(played, play(program, TWO_HOSTS, launch=launch, fold=False))


def test_contact_at_the_very_end_of_a_run_and_at_its_start():
    """A message as long as a kernel, and a collective behind it, in step with the run to the last bit."""
    body = [gemm(1.0, "a"), reduce("tp", 2.0, "sum", stream="tp", after=("a",)), gemm(1.0, "b", after=("sum",))]
    mesh = DeviceMesh({"dp": 2, "tp": 2})
    for wait in (0.0, 1.0, 2.0, 3.0, 4.0):
        meets = P2P(name="meets", kind="shift", axis="dp", offset=1, bytes=1.0, stream="net", after=("wait",))
        program = alike(mesh, gemm(wait, "wait", stream="lane"), meets, *body, gemm(1.0, "c", after=("meets",)))
        whole, single = (play(program, flat(4), compute=SECONDS, shortcuts=each) for each in (True, False))
        assert_equal_spans(whole, single)


def test_a_kernel_of_a_flown_run_is_slowed_from_contact_on():
    """An 8-way tp run is alone until the gradients' collective takes 3 of 132 SMs for the rest of the kernel."""
    long = Compute(name="long", kind="gemm", flops=4e12)
    program = alike(THREE_AXES, *foreign("SMs", 1e8, 8e8), long)
    alone = Roofline().seconds(long, TWO_HOSTS.accelerators[0])
    played = play(program, TWO_HOSTS)
    start = named(played, 0)["meets"][0]
    assert start < alone < named(played, 0)["meets"][1]
    assert named(played, 0)["long"][1] == pytest.approx(start + (alone - start) * 132 / 129)


@STEADY
@given(some.data())
def test_random_programs_with_and_without_shortcuts(data):
    plan = data.draw(plans(ranks=16, modes=("latency", "send_block")))
    program, cluster = plan.program(), data.draw(clusters(plan.mesh.size))
    launch = data.draw(some.booleans())
    whole, single = (play(program, cluster, launch=launch, shortcuts=each) for each in (True, False))
    assert_equal_spans(whole, single)
