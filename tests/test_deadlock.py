"""Programs that cannot end: the same verdict for ranks and for classes of ranks, in words that help."""

import pytest
from random_programs import MODES, attempt, play

import topologies
from simulator import simulate
from simulator.compute import FlopsAreSeconds
from simulator.deadlock import DeadlockError
from workloads.mesh import DeviceMesh
from workloads.ops import P2P, Collective, Compute
from workloads.program import Program

RING = DeviceMesh({"pp": 4})


def flat(ranks):
    """Ranks of 1 FLOP/s on links of 1 byte/s and no latency."""
    return topologies.build("flat", ranks=ranks, bandwidth=1.0, latency=0.0, accelerator="ideal")


def alike(mesh, *ops):
    """A program in which every rank does the same."""
    return Program.of(mesh, {(): ops}, varies=())


def hop(kind, mode, stream="compute"):
    return P2P(name=kind, kind=kind, axis="pp", offset=1, bytes=3.0, mode=mode, stream=stream)


def outcomes(program, topology):
    """The ends of the folded and the unfolded replay, None for a deadlock."""
    played = [attempt(program, topology, fold=fold, compute=FlopsAreSeconds()) for fold in (True, False)]
    return [each and each.end for each in played]


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("mode", MODES)
def test_a_ring_that_sends_before_it_receives(mode, ranks):
    """Everybody blocks in the send, unless somebody can send without a receiver."""
    program = alike(DeviceMesh({"pp": ranks}), hop("send", mode), hop("recv", mode))
    expected = None if mode == "blocking" else 0.0 if ranks == 1 else 3.0
    assert outcomes(program, flat(ranks)) == [expected, expected]


@pytest.mark.parametrize(("mode", "expected"), [("latency", None), ("recv_block", None), ("blocking", None)])
def test_a_ring_that_receives_before_it_sends(mode, expected):
    assert outcomes(alike(RING, hop("recv", mode), hop("send", mode)), flat(4)) == [expected, expected]


@pytest.mark.parametrize("mode", MODES)
def test_two_streams_undo_the_deadlock(mode):
    program = alike(RING, hop("recv", mode, "recv"), hop("send", mode, "send"))
    assert outcomes(program, flat(4)) == [3.0, 3.0]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_shift_ring_does_not_block(ranks):
    program = alike(DeviceMesh({"pp": ranks}), hop("shift", "latency"))
    assert outcomes(program, flat(ranks)) == ([0.0, 0.0] if ranks == 1 else [3.0, 3.0])


def test_collectives_in_opposite_orders():
    """Stage 0 reduces over dp and then over everything, stage 1 the other way round."""
    mesh = DeviceMesh({"pp": 2, "dp": 2})
    every = Collective(name="every", stream="net", kind="all_reduce", axes=("pp", "dp"), bytes=4.0)
    pair = Collective(name="pair", stream="net", kind="all_reduce", axes=("dp",), bytes=4.0)
    assert outcomes(Program.of(mesh, {(0,): [pair, every], (1,): [every, pair]}), flat(4)) != [None, None]
    ring = [
        Collective(name=f"{k}", stream="net", kind="all_reduce", axes=("pp",), positions=(k, (k + 1) % 4), bytes=4.0)
        for k in range(4)
    ]
    crossed = Program.of(DeviceMesh({"pp": 4, "dp": 2}), {(k,): [ring[k], ring[k - 1]] for k in range(4)})
    assert outcomes(crossed, flat(8)) == [None, None]


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("shortcuts", [True, False])
def test_the_message_names_who_waits_in_what_for_whom(fold, shortcuts):
    """Rank 1 computes for 2 s and then waits for a message that rank 0 keeps to itself."""
    receive = [Compute(name="gemm", kind="gemm", flops=2.0), hop("recv", "blocking")]
    program = Program.of(DeviceMesh({"pp": 2}), {(0,): [], (1,): receive})
    with pytest.raises(
        DeadlockError, match=r"^deadlock at 2 s: rank 1 waits in 'recv' for a message that nobody sends$"
    ):
        play(program, flat(2), fold=fold, shortcuts=shortcuts, compute=FlopsAreSeconds())


def test_the_message_names_absent_ranks():
    program = Program.of(
        DeviceMesh({"pp": 2}),
        {(0,): [hop("send", "blocking")], (1,): [hop("send", "blocking"), hop("recv", "blocking")]},
    )
    with pytest.raises(
        DeadlockError,
        match=r"rank 0 waits in 'send' for rank 1; rank 1 waits in 'send' for a message that nobody takes$",
    ) as caught:
        play(program, flat(2), compute=FlopsAreSeconds())
    assert "\n" not in str(caught.value)


def test_the_message_names_the_ops_that_an_op_waits_for():
    late = Compute(name="late", kind="gemm", flops=1.0, stream="lane", after=("recv",))
    with pytest.raises(DeadlockError, match="waits in 'late' for 'recv'"):
        play(alike(RING, hop("recv", "blocking"), late), flat(4), compute=FlopsAreSeconds())


def test_a_long_message_is_cut():
    mesh = DeviceMesh({"pp": 12})
    with pytest.raises(DeadlockError, match=r"; and 4 more$"):
        play(alike(mesh, hop("recv", "blocking")), flat(12), fold=False, compute=FlopsAreSeconds())


def test_the_time_is_when_things_came_to_rest():
    """Two flows share a link until 4 s; what they were once predicted to take is no time of the deadlock."""
    mesh = DeviceMesh({"pp": 2})
    message = {"axis": "pp", "offset": 1, "bytes": 2.0}
    both = [P2P(name=f"send{k}", kind="send", tag=f"{k}", **message) for k in range(2)]
    taken = [P2P(name=f"recv{k}", kind="recv", tag=f"{k}", **message) for k in range(2)]
    program = Program.of(mesh, {(0,): both, (1,): [*taken, hop("recv", "blocking")]})
    with pytest.raises(DeadlockError, match=r"^deadlock at 4 s"):
        play(program, flat(2), compute=FlopsAreSeconds())


def test_a_collective_that_some_never_call_hangs():
    """As a real one would: rank 0 reduces, ranks 1 to 3 do nothing."""
    reduce = Collective(name="reduce", stream="tp", kind="all_reduce", axes=("tp",), bytes=1e6)
    program = Program.of(DeviceMesh({"tp": 4}), {(0,): [reduce], (1,): [], (2,): [], (3,): []}, varies=("tp",))
    for fold in (True, False):
        with pytest.raises(DeadlockError, match=r"rank 0 waits in 'reduce' for members whose program never calls it"):
            simulate(program, topologies.build("flat", ranks=4), fold=fold)
