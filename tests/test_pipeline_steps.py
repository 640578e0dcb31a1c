"""Whole steps under every pipeline schedule: what is conserved, what memory holds, which one wins where."""

import numpy as np
import pytest

import topologies
from simulator import balance, replay_schedule, simulate
from workloads import TrainingStep, models, schedules
from workloads.ops import P2P, Collective

ALL = [name for name in schedules.names() if not name.startswith(("zb_auto", "zb_v_auto"))]
EVEN = models.build("llama3_8b,layers=16,vocab=0")
"""Stages of equal work, with 2, 4 or 8 stages."""
P, M = 4, 16


def step(schedule, model=EVEN, plan="", m=M, **options):
    return TrainingStep(model, f"pp={P},schedule={schedule} {plan}".strip(), m, 2048, **options)


def free(ranks=P, **options):
    return topologies.build("flat", ranks=ranks, bandwidth=1e15, latency=0.0, **options)


def ops(program, rank):
    return [op for replay in program.orders[rank,] for op in program.blocks[replay.block].ops]


@pytest.mark.parametrize("recompute", ["none", "full", "selective,modules=norm+mlp"])
@pytest.mark.parametrize("schedule", ALL)
def test_flops_are_the_models_under_every_schedule(schedule, recompute):
    one = step(schedule, models.build("llama3_8b,layers=16"), "tp=2", m=8, recompute=recompute)
    program = one.program()
    useful, repeated = program.emitted_flops()
    assert useful == pytest.approx(program.model_flops, rel=1e-12)
    assert repeated == pytest.approx(program.recompute_flops, rel=1e-12)


@pytest.mark.parametrize("schedule", ALL)
@pytest.mark.parametrize("plan", ["dp=2", "dp=2,zero=1", "fsdp=2"])
def test_gradients_are_reduced_once_under_every_schedule(schedule, plan):
    """As many bytes as parameters, whatever order their backwards come in, whole or in parts."""
    program = step(schedule, plan=plan, m=16).program()
    axis, kinds = plan[: plan.index("=")], ("all_reduce", "reduce_scatter")
    copies = 2 if schedule == "dualpipe" else 1
    total = sum(
        op.bytes
        for rank in range(P)
        for op in ops(program, rank)
        if isinstance(op, Collective) and op.axes == (axis,) and op.kind in kinds and not op.name.startswith("gradient")
    )
    every = 1 if axis == "dp" else (16 // 2) / copies
    assert total == pytest.approx(2 * EVEN.parameters() * copies * every, rel=1e-12)


@pytest.mark.parametrize("schedule", ALL)
def test_folded_is_unfolded(schedule):
    one, cluster = step(schedule, plan="tp=2", m=8), topologies.build("dgx_h100")
    folded, unfolded = (simulate(one, cluster, fold=fold, shortcuts=False).step_time for fold in (True, False))
    assert folded == unfolded
    assert simulate(one, cluster).step_time == pytest.approx(folded, rel=1e-9)


def replayed(result, schedule):
    """The schedule by itself with the times that actions took in a step."""
    actions = result.to_frame("actions")
    long = (actions["end_seconds"] - actions["start_seconds"]).groupby(actions["action"]).median()
    virtual = len(set(schedule.weights)) / schedule.ranks
    forward = long["F"] * virtual
    split = (long["I"] * virtual, long["W"] * virtual) if "I" in long else (long["B"] * virtual, 0.0)
    return replay_schedule(schedule, forward, *split)


@pytest.mark.parametrize("schedule", ["gpipe", "one_f_one_b", "interleaved", "breadth_first", "zb_h1", "zb_h2", "zb_v"])
def test_a_step_on_a_free_network_is_its_schedule(schedule):
    result = simulate(step(schedule, optimizer="none"), free())
    alone = replayed(result, result.step.schedule)
    assert result.bubble_fraction == pytest.approx(alone.bubble_fraction, abs=0.01)


def test_the_ranking_of_schedules_is_that_of_their_bubbles():
    names = ["naive", "one_f_one_b", "interleaved", "zb_h1", "zb_h2"]
    results = [simulate(step(name, optimizer="none"), free()) for name in names]
    bubbles = [result.bubble_fraction for result in results]
    assert bubbles == sorted(bubbles, reverse=True)
    times = [result.step_time for result in results]
    assert times == sorted(times, reverse=True)


def test_interleaving_stops_winning_on_a_slow_network():
    """It sends v times as many messages."""
    gain = {}
    for gbit in (400, 10):
        cluster = topologies.build("flat", ranks=P, bandwidth=gbit / 8 * 1e9)
        plain, looped = (simulate(step(name), cluster).step_time for name in ("one_f_one_b", "interleaved,virtual=4"))
        gain[gbit] = plain / looped
    assert gain[400] > 1.05
    assert gain[10] < 1


def in_flight(result):
    return result.to_frame("memory_timeline").groupby("rank")["microbatches_in_flight"].max().tolist()


def test_zb_h1_holds_p_microbatches_everywhere_and_zb_h2_nearly_twice_as_many():
    assert in_flight(simulate(step("zb_h1"), free())) == [P] * P
    assert in_flight(simulate(step("one_f_one_b"), free())) == [4, 3, 2, 1]
    assert max(in_flight(simulate(step("zb_h2"), free()))) == 2 * P - 1


def test_dualpipe_holds_weights_twice_and_adds_up_their_gradients():
    plain, dual = (simulate(step(name), free()) for name in ("one_f_one_b", "dualpipe"))
    for row in ("parameters", "gradients", "optimizer"):
        assert dual.memory_rows[row] == 2 * plain.memory_rows[row]
    assert max(in_flight(dual)) == P + 1
    program = dual.program
    for rank in range(P):
        (mirrored,) = [op for op in ops(program, rank) if op.name == "mirrored_weights"]
        assert mirrored.positions == tuple(sorted((rank, P - 1 - rank)))
        assert mirrored.bytes == 2 * 2 * EVEN.parameters() / P


def test_pipedream_keeps_versions_of_its_weights():
    plain, many = (step(name).footprints() for name in ("one_f_one_b", "pipedream"))
    for rank in range(P):
        once, versions = (
            sum(s for i, s in each[rank,].resident.items() if i.row == "parameters") for each in (plain, many)
        )
        assert versions == (P - rank) * once


def test_a_chunk_gives_up_what_weight_gradients_do_not_need_with_its_i():
    """ZB-H1 on rank r: (p - r) M_B + r M_W; M_B = s b (34 h + 5 a s), M_W = 32 s b h a layer (arXiv:2401.10241)."""
    model = models.build("gpt_22b,layers=8,vocab=0,dropout=on")
    one = TrainingStep(model, f"pp={P},schedule=zb_h1", M, 2048, attention="unfused", precision="fp16")
    tokens, h, a, s = 2048, model.hidden, model.heads, 2048
    whole, factors = tokens * (34 * h + 5 * a * s) * 2, 32 * tokens * h * 2
    for rank, footprint in enumerate(one.footprints().values()):
        assert sum(footprint.held[rank].values()) == whole
        assert sum(footprint.late[rank].values()) == factors
        peak = max(
            sum(size for item, size in footprint.items(moment._replace(parts=())).items() if item.row == "activations")
            for moment in footprint.moments(one.program_orders()[rank,])
        )
        assert peak == (P - rank) * whole + rank * factors


def test_pairs_are_one_bar_of_two_actions():
    actions = simulate(step("dualpipe", plan="tp=2"), free(8)).to_frame("actions")
    pairs = actions[actions["overlapped"]]
    assert len(pairs)
    for _, both in pairs.groupby(["rank", "start_seconds"]):
        assert sorted(both["action"]) == ["B", "F"]
        assert both["end_seconds"].nunique() == 1


def test_pairs_hide_communication():
    """One computes while the other's tensor-parallel collectives are under way."""
    cluster = topologies.build("dgx_h100")
    dual, plain = (simulate(step(name, plan="tp=2"), cluster) for name in ("dualpipe", "one_f_one_b"))
    assert dual.exposed["tp"] < 0.7 * plain.exposed["tp"]


def test_spans_of_a_pair_belong_to_its_actions():
    spans = simulate(step("dualpipe", plan="tp=2"), free(8), shortcuts=False).to_frame("spans")
    kernels = spans[(spans["work"] == "compute") & spans["action"].isin(["F", "B", "I", "W"])]
    counts = kernels[kernels["kind"] == "attention"].groupby(["stage", "microbatch"]).size()
    assert (counts == EVEN.layers / P).all()
    assert (kernels[kernels["kind"] == "attention"]["action"] == "F").all()
    assert not kernels[kernels["kind"] == "attention_backward"]["action"].eq("F").any()


# Who is held by messages


def modes(one):
    return {op.mode for rank in range(P) for op in ops(one.program(), rank) if isinstance(op, P2P)}


def test_messages_hold_whom_they_hold_in_frameworks():
    assert modes(step("one_f_one_b")) == {"recv_block"}
    assert modes(step("interleaved")) == {"latency"}
    assert modes(step("one_f_one_b,p2p=latency")) == {"latency"}
    assert str(step("one_f_one_b,p2p=send_block").plan) == f"pp={P},p2p=send_block"


def test_blocking_messages_are_never_faster():
    cluster = topologies.build("flat", ranks=P, bandwidth=5e9)
    times = [
        simulate(step(f"one_f_one_b,p2p={mode}"), cluster).step_time for mode in ("latency", "recv_block", "send_block")
    ]
    assert times[0] < min(times[1:])


# Layers of stages


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ("", (8, 8, 8, 8)),
        (",account_for_embedding=on", (7, 9, 9, 7)),
        (",account_for_embedding=on,account_for_loss=on", (7, 9, 9, 7)),
    ],
)
def test_embedding_and_loss_count_as_layers(options, counts):
    one = TrainingStep("llama3_8b", f"pp={P}{options}", M, 2048)
    assert sum(one.layer_counts) == 32
    assert sorted(one.layer_counts) == sorted(counts)
    assert one.layer_counts[0] == counts[0]


@pytest.mark.parametrize("schedule", ["one_f_one_b", "interleaved", "dualpipe", "zb_v"])
def test_layouts_go_by_sets_of_weights(schedule):
    one = step(schedule)
    assert sum(dict(zip(one.schedule.weights, one.layer_counts, strict=True)).values()) == 16
    assert all(count == 16 // len(set(one.schedule.weights)) for count in one.layer_counts)


def test_uneven_ends_show_on_the_bars():
    actions = simulate(step("one_f_one_b", models.build("llama3_8b")), free()).to_frame("actions")
    forwards = actions[actions["action"] == "F"]
    long = (forwards["end_seconds"] - forwards["start_seconds"]).groupby(forwards["stage"]).median()
    assert long[3] > 1.15 * long[1]
    assert long[1] == pytest.approx(long[2])


@pytest.mark.parametrize("plan", ["pp=4 tp=2", "pp=2 tp=4", "pp=4,schedule=interleaved tp=2"])
def test_balance_evens_stages(plan):
    """A step gains about what the slowest rank does, in each microbatch; a fused loss has less to even out."""
    cluster = topologies.build("dgx_h100")
    one, fused = (
        TrainingStep("llama3_8b", plan, 16, 4096, stack=f"megatron_2024,fused_loss={on}") for on in ("off", "on")
    )
    even = balance(one, cluster)
    assert sum(even.layer_counts) == 32
    assert np.ptp(even.layer_counts) > 0
    (before, slow), (after, fast) = (_step_and_slowest(each, cluster) for each in (one, even))
    assert after < 0.97 * before
    assert before - after == pytest.approx(one.microbatches * (slow - fast), rel=0.3)
    gains = [
        simulate(each, cluster).step_time - simulate(balance(each, cluster), cluster).step_time for each in (one, fused)
    ]
    assert gains[0] > gains[1] > 0


def _step_and_slowest(one, cluster):
    """Seconds of a step, and of all actions of a microbatch on the slowest rank."""
    result = simulate(one, cluster)
    actions = result.to_frame("actions")
    seconds = (actions["end_seconds"] - actions["start_seconds"])[actions["action"].isin(["F", "B"])]
    return result.step_time, seconds.groupby(actions["rank"]).sum().max() / one.microbatches


def test_balance_keeps_what_is_even():
    assert balance(step("one_f_one_b"), free()) == step("one_f_one_b")
