"""Folding is exact: classes of ranks behave, to the bit, as the ranks that they stand for."""

from dataclasses import replace
from math import inf

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from random_programs import MODES, attempt, check, play, same_spans, systems, tree

import topologies
from simulator.addresses import RECEIVER, SENDER, Payload, Slot
from simulator.blocks import BlockCompiler
from simulator.compute import FlopsAreSeconds
from simulator.folding import Edges, Partition, mix, refine
from simulator.quotient import Communicator, Part, Quotient, RankClass, Stretch, Transfer
from simulator.replay import ReplayOptions, replay
from simulator.script import Script
from workloads.mesh import DeviceMesh
from workloads.ops import P2P, Collective, Compute
from workloads.program import Block, BlockKey, Program

SECONDS = FlopsAreSeconds()
HALVING = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), "recursive")
ORDERS = ("1f1b", "gpipe", "shuffled")


# ------------------------------------------------------------------------------------------- random systems


@settings(max_examples=60, derandomize=True, deadline=None)
@given(systems(orders=ORDERS), some.booleans())
def test_ops_to_the_bit(system, launch):
    check(*system, launch=launch)


ALGORITHMS = (
    "auto",
    "ring",
    "tree",
    "recursive",
    "hierarchical",
    "direct",
    "in_switch",
    "in_switch_tree",
    "in_network",
)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(systems(orders=ORDERS), some.fixed_dictionaries(dict.fromkeys(HALVING, some.sampled_from(ALGORITHMS))))
def test_any_algorithm_to_the_bit(system, algorithms):
    check(*system, algorithms=algorithms)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(systems(orders=ORDERS), some.booleans())
def test_runs_and_actions(system, launch):
    """With runs replayed as one, and at the level of actions: equal to 1e-9, and the same verdict of deadlock."""
    for options in ({"detail": "ops"}, {"detail": "actions"}):
        folded, unfolded = (attempt(*system, fold=fold, launch=launch, **options) for fold in (True, False))
        assert (folded is None) == (unfolded is None)
        if folded is not None:
            same_spans(folded, unfolded, tolerance=1e-9)


@pytest.mark.slow
@settings(max_examples=1000, derandomize=True, deadline=None)
@given(systems(orders=ORDERS), some.booleans())
def test_many_systems_to_the_bit(system, launch):
    test_ops_to_the_bit.hypothesis.inner_test(system, launch)


# ------------------------------------------------------------------------------------------- small cases


def flat(ranks):
    """Ranks of 1 FLOP/s on links of 1 byte/s and no latency."""
    return topologies.build("flat", ranks=ranks, bandwidth=1.0, latency=0.0, accelerator="ideal")


def alike(mesh, *ops):
    """A program in which every rank does the same."""
    return Program.of(DeviceMesh(mesh), {(): ops}, varies=())


def gemm(seconds, name="gemm", **options):
    return Compute(name=name, kind="gemm", flops=seconds, **options)


def hop(kind, size=3.0, name="", **options):
    return P2P(name=name or kind, kind=kind, axis="pp", **{"offset": 1, "bytes": size, "mode": "blocking", **options})


def pair(first, second, stream="net"):
    """A collective of two neighbours on a ring of four stages."""
    positions = (first % 4, second % 4)
    return Collective(
        name=f"{first}-{second}", stream=stream, kind="all_reduce", axes=("pp",), positions=positions, bytes=4.0
    )


def classes(program, cluster):
    """How many classes the ranks have."""
    return len(play(program, cluster, compute=SECONDS).quotient.rank_classes)


def test_a_blocking_ring_deadlocks_in_both():
    assert check(alike({"pp": 4}, hop("send"), hop("recv")), flat(4), SECONDS) is None


def test_a_shift_ring_is_one_class():
    program = alike({"pp": 4}, gemm(1.0), hop("shift"), gemm(1.0, "after"))
    assert check(program, flat(4), SECONDS).end == 5.0
    assert classes(program, flat(4)) == 1


def test_pair_communicators_in_one_stream_deadlock():
    """Everybody waits for its neighbour's first collective."""
    program = Program.of(DeviceMesh({"pp": 4, "dp": 2}), {(k,): [pair(k, k + 1), pair(k - 1, k)] for k in range(4)})
    assert check(program, flat(8), SECONDS) is None


def test_pair_communicators_in_two_streams():
    """Each pair moves 2(n−1)/n · 4 = 4 bytes both ways; every link is in two pairs."""
    streams = ("a", "b")
    ops = {(k,): [pair(k, k + 1, streams[k % 2]), pair(k - 1, k, streams[(k - 1) % 2])] for k in range(4)}
    assert check(Program.of(DeviceMesh({"pp": 4, "dp": 2}), ops), flat(8), SECONDS).end == 8.0


@pytest.mark.parametrize("size", [2.0, 5.0])
def test_alternating_slots(size):
    """Two channels of one class, addressed in turn from two streams; the k-th call counts slot by slot."""
    up, down = {"offset": 1, "stream": "a"}, {"offset": -1, "stream": "b"}
    first = [hop("shift", size, "up", **up), hop("shift", size, "down", **down), gemm(2.0, after=("up",))]
    second = [hop("shift", 1.0, "down2", **down), gemm(1.0, "more"), hop("shift", 4.0, "up2", **up)]
    assert check(alike({"pp": 4}, *first, *second), flat(4), SECONDS) is not None


def test_one_group_with_phases_on_different_links():
    """Recursive halving and doubling is in turn inside hosts and across them, while others are on either."""
    mesh = {"dp": 4, "tp": 4}
    small = Collective(name="small", stream="net", kind="all_reduce", axes=("dp", "tp"), bytes=5e5)
    inside = Collective(name="inside", stream="tp", kind="all_reduce", axes=("tp",), bytes=3e5)
    across = Collective(name="across", stream="dp", kind="all_gather", axes=("dp",), bytes=2e5)
    played = check(alike(mesh, small, inside, across), tree(16, 4, 2, oversubscription=2.0), algorithms=HALVING)
    (only,) = (
        each for each in played.quotient.communicators if any(len(slot.axes) == 2 for _, slot, _ in each.members)
    )
    (transfer,) = only.transfers.values()
    assert transfer.algorithm == "recursive"
    assert len({frozenset(stretch.loads) for stretch in transfer.stretches}) > 1


def test_phases_tell_links_of_one_capacity_apart():
    """Links inside hosts and across them are alike but for the phase that crosses them."""
    graph = nx.Graph()
    for rank in range(8):
        graph.add_node(rank, device=True, host=rank // 4)
        graph.add_edge(rank, f"host{rank // 4}", bandwidth=1e9, latency=1e-7)
        graph.add_edge(rank, "spine", bandwidth=1e9, latency=1e-6)
    small = Collective(name="small", stream="net", kind="all_reduce", axes=("dp",), bytes=8e5)
    played = check(alike({"dp": 8}, small), topologies.from_graph(graph), algorithms=HALVING)
    latency = 4 * 2e-7 + 2 * 2e-6
    assert played.end == pytest.approx(2 * 7 / 8 * 8e5 / 1e9 + latency)


def test_two_kinds_of_op_of_one_communicator_on_different_links():
    """The large ops go round rings, the small one up and down trees; each has links of its own."""
    axes = {"axes": ("dp", "tp"), "stream": "net"}
    ops = [Collective(name=f"{size:g}", kind="all_reduce", bytes=size, **axes) for size in (1e9, 1e2, 2e9)]
    assert check(alike({"dp": 2, "tp": 4}, *ops), tree(8, 4, 1)) is not None


def test_equal_transfers_on_one_link():
    """Both GPUs of a host send over its uplink of 1 byte/s: 6 bytes in 6 s, not in 3."""
    graph = nx.Graph()
    for rank in range(4):
        graph.add_node(rank, device=True)
        graph.add_edge(rank, f"host{rank // 2}", bandwidth=100.0)
    graph.add_edge("host0", "host1", bandwidth=1.0)
    cluster = topologies.from_graph(graph, accelerator="ideal")
    program = alike({"pp": 2, "dp": 2}, hop("shift"))
    assert check(program, cluster, SECONDS).end == 6.0
    assert classes(program, cluster) == 1


def test_exchanges_with_offsets_one_and_two():
    """Pairwise exchange: with offset 2 both channels of a pair are one class, but not one communicator."""
    ops = [
        hop("shift", 3.0, "one"),
        gemm(1.0),
        hop("shift", 5.0, "two", offset=2),
        hop("shift", 3.0, "three", offset=3),
    ]
    assert check(alike({"pp": 4}, *ops), flat(4), SECONDS).end == 12.0


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "blocking"])
def test_two_messages_in_flight(mode):
    """Both leave before anybody receives; each is delivered to its own receive."""
    ops = [gemm(1.0), *(hop("send", size, f"send{size}", mode=mode) for size in (3.0, 1.0))]
    ops += [hop("recv", size, f"recv{size}", mode=mode) for size in (3.0, 1.0)]
    assert check(alike({"pp": 4}, *ops), flat(4), SECONDS) is not None


def test_groups_over_classes_of_unequal_size():
    """One straggler: classes of 1 and of 7 ranks join in one collective, and the seven wait."""
    norm = Collective(name="norm", stream="net", kind="all_reduce", axes=("dp",), bytes=8.0, after=("gemm",))
    program, cluster = alike({"dp": 8}, gemm(4.0), norm), flat(8).degrade(rank=5, compute=0.5)
    assert check(program, cluster, SECONDS).end == 8.0 + 2 * 7 / 8 * 8.0
    assert classes(program, cluster) == 2


@pytest.mark.parametrize("fold", [True, False])
def test_one_op_with_three_transfers(fold):
    """Rank 0 sends to three ranks of one class over one link, 12 bytes in 12 s, each send with 2 of its 10 SMs.

    With 4 of 10 SMs left, 3 s of work last 7.5 s.
    """
    slots = [Slot("send", ("x",), "net", offset=1), Slot("recv", ("x",), "net", offset=1)]
    payload = Payload("blocking", 4.0, "")
    transfer = Transfer(payload, "", (Stretch(0.0, 4.0, inf, {0: ((1.0, 3 if fold else 1),)}),), 0.2, 1.0)
    members = [frozenset({(0, slots[0], SENDER), (rank, slots[1], RECEIVER)}) for rank in (1, 2, 3)]
    arrays = np.array([0, 1, 1, 1]), np.array([0, 0, 0]), np.array([0])
    partition = Partition.of(*arrays) if fold else Partition.trivial(4, 3, 1)
    count = 1 if fold else 3
    groups = [
        Communicator(each, frozenset({(0, slots[0], SENDER)}), True, True, {payload: transfer})
        for each in members[:count]
    ]
    chip = replace(topologies.accelerators.build("ideal"), sm_count=10)
    sending = {slots[0]: tuple(Part(k, SENDER, 3 // count) for k in range(count))}
    rank_classes = [RankClass(0, 0, 1, (), chip, 1.0, sending)]
    rank_classes += [
        RankClass(k + 1, k + 1, 3 // count, (), chip, 1.0, {slots[1]: (Part(k, RECEIVER, 1),)}) for k in range(count)
    ]
    message = {"axis": "x", "offset": 1, "bytes": 4.0, "mode": "blocking", "stream": "net"}
    send, recv = (Block((P2P(name=kind, kind=kind, **message), gemm(3.0))) for kind in ("send", "recv"))
    compiler = BlockCompiler(
        Program(DeviceMesh({"x": 4}), {BlockKey(0, "F"): send, BlockKey(1, "F"): recv}, {}), SECONDS
    )
    whole = Quotient(None, None, tuple(rank_classes), tuple(groups), (1.0,), partition)
    written = [
        Script.of(rank_class, [compiler.ready(recv if rank_class.index else send, chip)], 0.0)
        for rank_class in rank_classes
    ]
    first, *others = replay(whole, written, ReplayOptions(shortcuts=False))
    assert [record.end for record in first.records] == [7.5, 12.0]
    assert all([record.end for record in each.records] == [3.75, 12.0] for each in others)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_message_to_oneself_or_to_the_other(ranks):
    assert check(alike({"pp": ranks}, hop("shift")), flat(ranks), SECONDS) is not None


@settings(max_examples=20, derandomize=True, deadline=None)
@given(systems(ranks=16, modes=("latency",)), some.randoms(use_true_random=False))
def test_shuffled_equal_time_work(system, shuffler):
    """The order in which equal things are listed is nothing: stages, and ops of different streams."""
    program, cluster = system
    orders = list(program.orders.items())
    shuffler.shuffle(orders)
    shuffled = Program(program.mesh, dict(reversed(program.blocks.items())), dict(orders), program.varies)
    first, second = (play(each, cluster, fold=False, shortcuts=False) for each in (program, shuffled))
    same_spans(first, second)


# ------------------------------------------------------------------------------------------- refinement alone


def hashes(*values):
    return mix(np.array(values))


def edges(*rows):
    return Edges(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


NOTHING = Edges(*(np.zeros(0, np.int64) for _ in range(3)))


def test_ranks_split_by_slot_and_role():
    """A ring of channels: all ranks alike, whether send and receive have one code or two."""
    for receive in (0, 1):
        ring = edges(*((k, k, 0) for k in range(4)), *((k, (k + 1) % 4, receive) for k in range(4)))
        assert refine(hashes(0, 0, 0, 0), hashes(0, 0, 0, 0), hashes(), ring, NOTHING).ranks.tolist() == [0, 0, 0, 0]


def test_one_different_rank_splits_a_ring_by_distance():
    ring = edges(*((k, k, 0) for k in range(6)), *((k, (k + 1) % 6, 0) for k in range(6)))
    partition = refine(hashes(1, 0, 0, 0, 0, 0), hashes(*[0] * 6), hashes(), ring, NOTHING)
    assert partition.ranks.tolist() == [0, 1, 2, 3, 2, 1]


def test_links_split_by_phase():
    """One communicator crosses link 0 in one phase and link 1 in another."""
    partition = refine(hashes(0), hashes(0), hashes(0, 0), edges((0, 0, 0)), edges((0, 0, 0), (0, 1, 1)))
    assert len(set(partition.links.tolist())) == 2


@pytest.mark.parametrize("codes", [2, 3])
def test_small_colours_and_small_codes_do_not_mix(codes):
    """Ranks 0 and 1 differ in speed; a communicator of either addresses it by several slots."""
    rows = [(communicator, rank, code) for communicator, rank in ((0, 0), (1, 1)) for code in range(codes)]
    partition = refine(hashes(5, 6), hashes(0, 0), hashes(), edges(*rows), NOTHING)
    assert (partition.ranks.tolist(), partition.communicators.tolist()) == ([0, 1], [0, 1])


@settings(max_examples=50, deadline=None)
@given(some.integers(2, 12), some.integers(1, 4), some.randoms(use_true_random=False))
def test_refinement_does_not_depend_on_labels(ranks, slots, random):
    """Relabelling ranks relabels the classes and nothing else."""
    rows = [(k, random.randrange(ranks), random.randrange(slots)) for k in range(ranks) for _ in range(2)]
    order = random.sample(range(ranks), ranks)
    start = [random.randrange(2) for _ in range(ranks)]
    moved = [(communicator, order[rank], code) for communicator, rank, code in rows]
    renamed = [start[order.index(rank)] for rank in range(ranks)]
    first = refine(hashes(*start), hashes(*[0] * ranks), hashes(), edges(*rows), NOTHING).ranks
    second = refine(hashes(*renamed), hashes(*[0] * ranks), hashes(), edges(*moved), NOTHING).ranks
    pairs = {(int(first[rank]), int(second[order[rank]])) for rank in range(ranks)}
    assert len(pairs) == len({mine for mine, _ in pairs}) == len({theirs for _, theirs in pairs})
