"""Programs of whole steps: what is conserved, what travels, what overlaps."""

import math
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import TrainingStep, models, schedules
from workloads.lowering.draft import Draft
from workloads.lowering.messages import Hops
from workloads.ops import P2P, Collective, Compute
from workloads.program import BlockKey

SMALL = models.build("llama3_8b,layers=8")
PARAMETERS = SMALL.parameters()
GEMM_WEIGHTS = 8 * (4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 14336)
POINTWISE = ("elementwise", "norm", "activation")


def program(plan="dp=1", model=SMALL, batch=16, **options):
    return TrainingStep(model, plan, batch, options.pop("sequence", 4096), **options).program()


def ops(program, rank=0):
    """Every op that a pp coordinate replays, in program order."""
    return [op for replay in program.orders[rank,] for op in program.blocks[replay.block].ops]


def total_bytes(program, stream, kind=None, rank=0):
    """Bytes of one rank's collectives on a stream."""
    found = (op for op in ops(program, rank) if isinstance(op, Collective) and op.stream == stream)
    return sum(op.bytes for op in found if kind in (None, op.kind))


def total_flops(program):
    """Compute FLOPs over all ranks."""
    each = program.mesh.size // program.mesh.degree("pp")
    return each * sum(op.flops for (rank,) in program.orders for op in ops(program, rank) if isinstance(op, Compute))


def check_resolvable(program):
    """Every awaited name is an op before it; names that streams use resolve in every order."""
    for (rank,) in program.orders:
        seen = set()
        for replay in program.orders[rank,]:
            for op in program.blocks[replay.block].ops:
                assert set(op.after) <= seen, op
                seen.add(op.name)


plans = st.builds(
    lambda pp, dp, fsdp, tp: f"{pp} {dp} {fsdp} {tp}",
    st.sampled_from(["pp=1", "pp=2", "pp=4,schedule=gpipe", "pp=2,schedule=interleaved,virtual=2"]),
    st.sampled_from(
        [
            "dp=1",
            "dp=2",
            "dp=2,zero=1",
            "dp=2,zero=1,gather=broadcast",
            "dp=2,overlap=off",
            "dp=2,zero=1,overlap=off,bucket=1e6",
        ]
    ),
    st.sampled_from(["fsdp=1", "fsdp=2", "fsdp=4,reshard=off", "fsdp=2,prefetch=0", "fsdp=2,prefetch=3"]),
    st.sampled_from(["tp=1", "tp=2", "tp=8", "tp=2,sp=off", "tp=2,overlap=on"]),
)


@settings(max_examples=60, deadline=None)
@given(plan=plans, recompute=st.sampled_from(["none", "full"]), tied=st.booleans(), optimizer=st.booleans())
def test_flops_over_ranks_are_the_models(plan, recompute, tied, optimizer):
    optimizer = "adam" if optimizer else "none"
    built = program(plan, SMALL.replace(tied=tied), recompute=recompute, optimizer=optimizer)
    expected = built.model_flops + built.recompute_flops
    assert math.isclose(total_flops(built), expected, rel_tol=1e-9)
    check_resolvable(built)


@pytest.mark.parametrize("name", models.names())
def test_every_model_keeps_its_flops_under_every_kind_of_plan(name):
    tp = math.gcd(models.build(name).heads, 8)
    built = program(f"pp=2,schedule=interleaved,virtual=2 dp=2 fsdp=2 tp={tp}", name, batch=8, sequence=1024)
    assert math.isclose(total_flops(built), built.model_flops, rel_tol=1e-9)


def test_full_recomputation_repeats_the_forward_of_every_layer():
    """A third of the model FLOPs without the head's."""
    built = program("pp=2 tp=2", recompute="full")
    head = 2 * built.tokens * SMALL.vocab * SMALL.hidden
    assert built.recompute_flops == pytest.approx(built.model_flops / 3 - head, rel=1e-12)
    assert program().recompute_flops == 0


@pytest.mark.parametrize(
    "plan", ["pp=1", "dp=1,zero=1", "fsdp=1,reshard=off", "tp=1,sp=off", "pp=1,virtual=2,schedule=interleaved"]
)
def test_degree_one_is_the_identity(plan):
    bare = program("dp=1")
    assert program(plan).blocks == bare.blocks
    assert program(plan).orders == bare.orders


def test_one_gemm_for_each_projection_and_three_passes():
    names = [op.name for op in ops(program(batch=1)) if isinstance(op, Compute) and op.kind == "gemm"]
    assert len(names) == 3 * (4 * SMALL.layers + 1)
    assert {"layer0.qkv", "layer7.down.weight_gradient", "head.logits.input_gradient"} <= set(names)


def test_pointwise_traffic_of_a_layer():
    """20h bytes forward and 24h backward for norms and residuals, 6 and 10 per channel, 4 and 4 per qkv channel."""
    moved = defaultdict(float)
    for op in ops(program(batch=1, sequence=1, optimizer="none")):
        if isinstance(op, Compute) and op.kind in POINTWISE and op.name.startswith("layer0."):
            moved[op.name.endswith("backward")] += op.read_bytes + op.write_bytes
    h, ffn, qkv = SMALL.hidden, SMALL.ffn, SMALL.qkv_width
    assert moved == {False: 20 * h + 6 * ffn + 4 * qkv, True: 24 * h + 10 * ffn + 4 * qkv}


# Tensor parallelism


def layer(program, kind, prefix="layer0."):
    return [op for op in program.blocks[BlockKey(0, kind)].ops if op.name.startswith(prefix)]


def collectives(program, kind):
    return [op.kind for op in layer(program, kind) if isinstance(op, Collective)]


def test_sequence_parallelism_gathers_on_entry_and_scatters_on_leaving():
    built = program("tp=8", batch=1)
    assert collectives(built, "F") == ["all_gather", "reduce_scatter"] * 2
    assert collectives(built, "B") == ["all_gather", "all_gather", "reduce_scatter"] * 2
    size = 2 * 4096 * SMALL.hidden
    assert {op.bytes for op in layer(built, "F") if isinstance(op, Collective)} == {size}


def test_plain_tensor_parallelism_reduces_once_each_way():
    built = program("tp=8,sp=off", batch=1)
    assert collectives(built, "F") == collectives(built, "B") == ["all_reduce"] * 2


@pytest.mark.parametrize("plan", ["tp=8", "tp=8,sp=off"])
def test_the_input_gradients_reduction_overlaps_the_weight_gradient(plan):
    after = {op.name.removeprefix("layer0."): op.after for op in layer(program(plan, batch=1), "B")}
    assert after["enter1.backward"] == ("layer0.qkv.input_gradient",)
    assert "layer0.enter1.backward" not in after["qkv.weight_gradient"]
    assert after["norm1.backward"] == ("layer0.enter1.backward",)


def test_the_second_gather_overlaps_the_input_gradient():
    after = {op.name.removeprefix("layer0."): op.after for op in layer(program("tp=8", batch=1), "B")}
    assert after["enter1.again"] == ("layer0.rope.backward",)
    assert after["qkv.input_gradient"] == ()
    assert after["qkv.weight_gradient"] == ("layer0.enter1.again",)
    assert after["down.input_gradient"] == ("layer0.leave2.backward",)


# Pipelines


@pytest.mark.parametrize("name", schedules.names())
@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 4), (3, 6), (4, 8)])
def test_sends_and_receives_pair_up_on_every_channel(name, ranks, microbatches):
    if name == "dualpipe" and ranks % 2:
        pytest.skip("dualpipe pairs ranks from both ends")
    built = program(f"pp={ranks},schedule={name}", batch=microbatches, sequence=64)
    ends = defaultdict(list)
    for (rank,) in built.orders:
        for op in ops(built, rank):
            if isinstance(op, P2P):
                sender = rank if op.kind == "send" else (rank - op.offset) % ranks
                ends[op.kind, op.offset, op.tag, sender].append(op.bytes)
    sent = {key[1:]: sizes for key, sizes in ends.items() if key[0] == "send"}
    assert sent == {key[1:]: sizes for key, sizes in ends.items() if key[0] == "recv"}
    onward, back = {(1, "F"), (-1, "B")}, {(-1, "F"), (1, "B")}
    both_ways = ranks > 2 and schedules.build(name, ranks, microbatches).placement[-1] == 0
    assert {(offset, tag) for offset, tag, _ in sent} == (onward | back if both_ways else onward)


def test_a_message_is_a_ranks_part_of_the_activation():
    whole = {op.bytes for op in ops(program("pp=2 tp=4,sp=off,scatter=off")) if isinstance(op, P2P)}
    part = {op.bytes for op in ops(program("pp=2 tp=4")) if isinstance(op, P2P)}
    assert whole == {2 * 4096 * SMALL.hidden}
    assert part == {2 * 4096 * SMALL.hidden / 4}


def test_stages_on_one_rank_pass_nothing():
    from workloads.schedule import Action, Schedule

    order = tuple(
        Action(stage, kind, 0) for stage, kind in ((0, "F"), (1, "F"), (2, "F"), (2, "B"), (1, "B"), (0, "B"))
    )
    hops = Hops(Schedule("by_hand", {0: order[:2] + order[4:], 1: order[2:4]}, (0, 0, 1)))
    assert hops.incoming(1, "F") is None
    assert hops.incoming(2, "F") == (1, "F")
    assert hops.outgoing(2, "B") == (-1, "B")


def test_stages_get_their_own_tags_where_a_channel_would_mix_them_up():
    from workloads.schedule import Action, Schedule

    def order(*actions):
        return tuple(Action(int(text[0]), text[1], int(text[2:])) for text in actions)

    first = order("0F0", "2F0", "0F1", "2F1", "2B0", "2B1", "0B0", "0B1")
    last = order("1F0", "1F1", "3F0", "3F1", "3B0", "3B1", "1B0", "1B1")
    crossed = Hops(Schedule("by_hand", {0: first, 1: last}, (0, 1, 0, 1)))
    assert crossed.incoming(1, "F") == (1, "F1")
    assert crossed.incoming(3, "F") == (1, "F3")


def test_equal_blocks_are_one_object():
    step = TrainingStep("llama3_405b", "pp=16,schedule=interleaved,virtual=8 dp=128,zero=1 tp=8", 2048, 8192)
    blocks = step.program().blocks
    assert len({id(block) for block in blocks.values()}) == len({block.ops for block in blocks.values()})
    assert blocks[BlockKey(1, "F", "middle")] is blocks[BlockKey(126, "F", "last")]
    assert blocks[BlockKey(1, "B", "last")] is blocks[BlockKey(126, "B", "last")]


@pytest.mark.parametrize("optimizer", ["adam", "none"])
def test_tied_embeddings_meet_between_first_and_last_stage(optimizer):
    """Gradients of both copies are added up, whether or not a step of the optimizer follows."""
    built = program("pp=4 tp=2", SMALL.replace(tied=True), optimizer=optimizer)
    found = [[op for op in ops(built, rank) if op.name == "tied_embeddings"] for rank in range(4)]
    assert [len(each) for each in found] == [1, 0, 0, 1]
    assert found[0][0].positions == (0, -1)
    assert found[0][0].bytes == 2 * SMALL.vocab * SMALL.hidden / 2
    assert not any(op.name == "tied_embeddings" for op in ops(program("tp=2", SMALL.replace(tied=True))))


# Conversion of weights


def casts(program, kinds="FBIW"):
    """Casts of weights of one rank's replays of some kinds of blocks."""
    replays = [replay for replay in program.orders[0,] if replay.block.kind in kinds]
    return [op for each in replays for op in program.blocks[each.block].ops if op.name.endswith(".weights.cast")]


@pytest.mark.parametrize(
    ("precision", "plan", "share", "passes"),
    [
        ("fp8", "dp=4", 1, 1),
        ("fp8", "dp=4,zero=1", 1, 1),
        ("mxfp8", "tp=4", 1 / 4, 1),
        ("fp8", "fsdp=4,reshard=off", 1, 1),
        ("fp8", "fsdp=4", 1, 4 + 4),
    ],
)
def test_weights_are_converted_where_they_arrive(precision, plan, share, passes):
    """Every weight of a layer's GEMMs, once a step or after every gather: read wide, written narrow and transposed."""
    built = program(plan, precision=precision, batch=4 if "tp" in plan else 16)
    elements = GEMM_WEIGHTS * share * passes
    assert sum(op.read_bytes for op in casts(built)) == pytest.approx(2 * elements, rel=1e-12)
    written = 2 * {"fp8": 1, "mxfp8": 33 / 32}[precision] * elements
    assert sum(op.write_bytes for op in casts(built)) == pytest.approx(written, rel=1e-12)
    assert bool(casts(built, "B")) == (passes > 1)


@pytest.mark.parametrize("plan", ["dp=4,zero=1", "fsdp=4", "dp=2 fsdp=2"])
def test_a_conversion_waits_for_what_it_converts_and_products_follow_it(plan):
    built = program(plan, precision="fp8")
    check_resolvable(built)
    block = built.blocks[BlockKey(0, "F", "first")].ops
    names = [op.name for op in block]
    cast = block[names.index("layer3.weights.cast")]
    assert names.index("layer3.weights.cast") < names.index("layer3.norm1") < names.index("layer3.qkv")
    assert cast.after == (("layer3.all_gather",) if "fsdp" in plan else ())
    if "zero" in plan:
        user = next(op for op in block if op.name.startswith("embedding.lookup"))
        assert "parameters.0" in user.after


def test_weights_stay_as_they_are_in_the_numbers_of_the_model():
    assert not casts(program("fsdp=2", precision="bf16"))


def test_what_is_computed_again_is_converted_again():
    """The FP8 input of a product whose producer is recomputed, of the tokens that a rank keeps."""
    built = program("tp=8", precision="fp8", recompute="selective,modules=norm+activation", batch=1)
    block = {op.name: op for op in built.blocks[BlockKey(0, "B", "only")].ops}
    for name, channels in (("qkv", 4096), ("gate_up", 4096), ("down", 14336)):
        cast = block[f"layer0.recompute.{name}.cast"]
        assert cast.recompute
        assert cast.read_bytes == 2 * 4096 * channels / 8
    assert "layer0.recompute.proj.cast" not in block


def test_tokens_are_gathered_again_as_they_were_converted():
    narrow, wide = (program("tp=8", precision=name, batch=1) for name in ("fp8", "bf16"))
    again = [{op.name: op for op in built.blocks[BlockKey(0, "B", "only")].ops} for built in (narrow, wide)]
    for name in ("layer0.enter1.again", "layer0.enter2.again"):
        assert 2 * again[0][name].bytes == again[1][name].bytes
    assert again[0]["head.enter.again"].bytes == again[1]["head.enter.again"].bytes


# Data parallelism


def test_ddp_moves_the_gradient_of_a_7b_model():
    """2 bytes x 6,738,415,616 parameters = 13.48 GB a rank, in whatever buckets."""
    built = program("dp=8", "llama2_7b", batch=8, precision="fp16")
    assert total_bytes(built, "dp") == 2 * 6_738_415_616 == 13_476_831_232
    names = [op.name for op in ops(built) if op.stream == "dp"]
    assert names[-1] == "dp.gradients"
    assert len(set(names)) == len(names) > 10


@pytest.mark.parametrize("bucket", [1e6, 1e9, 1e12])
def test_buckets_close_once_full_and_carry_everything(bucket):
    built = program(f"dp=4,bucket={bucket}", batch=4)
    sizes = [op.bytes for op in ops(built) if op.stream == "dp"]
    assert sum(sizes) == 2 * PARAMETERS
    assert all(size >= bucket for size in sizes[:-1])


def test_gradients_are_reduced_after_the_last_microbatch_only():
    assert total_bytes(program("dp=2", batch=16), "dp") == total_bytes(program("dp=2", batch=2), "dp")


def test_zero_1_scatters_gradients_and_gathers_parameters():
    built = program("dp=4,zero=1")
    assert total_bytes(built, "dp", "reduce_scatter") == total_bytes(built, "dp", "all_gather") == 2 * PARAMETERS
    opening = ops(built)[0]
    assert (opening.name, opening.kind) == ("parameters.0", "all_gather")
    waiting = [op.name for op in ops(built) if "parameters.0" in op.after]
    assert waiting == ["embedding.lookup"]


def test_groups_that_shard_scatter_inside_and_add_up_their_shares_outside():
    """The whole inside a group of 4, a quarter between the two groups."""
    built = program("dp=8,zero=1,shard=4")
    assert total_bytes(built, "dp_shard", "reduce_scatter") == total_bytes(built, "dp_shard", "all_gather")
    assert total_bytes(built, "dp_shard", "all_gather") == 2 * PARAMETERS
    assert total_bytes(built, "dp", "all_reduce") == total_bytes(built, "dp") == 2 * PARAMETERS / 4
    assert [op.axes for op in ops(built) if op.stream == "norm"] == [("dp_shard",)]
    check_resolvable(built)


def test_without_overlap_groups_scatter_and_add_up_after_the_last_backward():
    built = program("dp=8,zero=1,shard=4,overlap=off", optimizer="none")
    scatter, total = built.blocks[built.orders[0,][-1].block].ops
    assert (scatter.kind, scatter.bytes, total.kind, total.bytes) == (
        "reduce_scatter",
        2 * PARAMETERS,
        "all_reduce",
        2 * PARAMETERS / 4,
    )
    assert total.after == (scatter.name,)


@pytest.mark.parametrize(("plan", "shares"), [("dp=8,zero=1", 8), ("dp=8,zero=1,shard=4", 4), ("dp=8,zero=2", 8)])
def test_shares_may_be_broadcast_one_by_one(plan, shares):
    built, usual = program(f"{plan},gather=broadcast"), program(plan)
    opening = [op for op in ops(built) if op.name.startswith("parameters")]
    assert [(op.kind, op.bytes) for op in opening] == [("broadcast", 2 * PARAMETERS / shares)] * shares
    assert opening[-1].name == "parameters.0"
    check_resolvable(built)
    assert ops(built)[shares + 1 :] == ops(usual)[2:]


@pytest.mark.parametrize("zero", [0, 1])
def test_without_overlap_reductions_follow_the_last_backward(zero):
    built = program(f"pp=2 dp=4,overlap=off,zero={zero}", optimizer="none")
    replay = built.orders[1,][-1]
    assert replay.block == BlockKey(1, "optimizer")
    (reduction,) = built.blocks[replay.block].ops
    assert reduction.after == ("layer0.norm1.backward",)
    half = 4 * SMALL.layer_parameters() + SMALL.head_parameters() + SMALL.hidden
    assert reduction.bytes == 2 * half


@pytest.mark.parametrize("recompute", ["none", "selective", "full", "selective,modules=mlp"])
@pytest.mark.parametrize("plan", ["tp=4", "pp=2,schedule=zb_h1 tp=4"])
def test_overlap_cuts_collectives_and_leaves_their_sum(plan, recompute):
    """As many bytes of each kind; gathers before products forward, and scatters, in a quarter and three of them."""
    whole, cut = (program(f"{plan}{option}", recompute=recompute) for option in ("", ",overlap=on"))
    for kind in ("all_gather", "reduce_scatter", "all_reduce"):
        assert total_bytes(cut, "tp", kind) == pytest.approx(total_bytes(whole, "tp", kind), rel=1e-12)
    assert total_flops(cut) == total_flops(whole)
    check_resolvable(cut)
    sizes = {op.name: op.bytes for op in ops(cut) if isinstance(op, Collective)}
    for name in ("layer0.enter2", "layer0.leave2", "layer0.leave2.backward"):
        assert 3 * sizes[name] == sizes[f"{name}.rest"]


def test_with_overlap_products_wait_for_one_piece_and_are_waited_for_by_the_others():
    after = {op.name: op.after for op in ops(program("tp=4,overlap=on", batch=1))}
    names = list(after)
    assert after["layer0.gate_up"] == ("layer0.enter2",)
    assert after["layer0.activation"] == ("layer0.enter2.rest",)
    assert after["layer0.leave2.rest"] == ("layer0.activation",)
    assert names.index("layer0.leave2.rest") < names.index("layer0.down") < names.index("layer0.leave2")
    assert after["layer0.leave2"] == ("layer0.down",)
    assert after["layer0.residual2"] == ("layer0.leave2",)
    assert after["layer0.down.input_gradient"] == ("layer0.leave2.backward",)
    assert after["layer0.down.weight_gradient"] == ("layer0.leave2.backward.rest",)
    assert not any(name.startswith(("embedding", "head")) and name.endswith("rest") for name in names)


def test_fsdp_moves_three_times_the_parameters():
    """All-gather forward and backward, reduce-scatter after: each of 2 bytes a parameter, every microbatch."""
    built = program("fsdp=4", batch=8)
    assert total_bytes(built, "fsdp") == 2 * 2 * (2 * PARAMETERS)
    assert total_bytes(built, "fsdp_reduce") == 2 * (2 * PARAMETERS)


def test_fsdp_without_resharding_gathers_once():
    built = program("fsdp=4,reshard=off", batch=16)
    assert (total_bytes(built, "fsdp"), total_bytes(built, "fsdp_reduce")) == (2 * PARAMETERS, 4 * 2 * PARAMETERS)


def test_fsdp_without_synchronisation_scatters_once():
    """Accumulated gradients travel with the last microbatch alone: m reductions of every unit become one."""
    built = program("fsdp=4,sync=off", batch=16)
    assert (total_bytes(built, "fsdp"), total_bytes(built, "fsdp_reduce")) == (2 * 4 * 2 * PARAMETERS, 2 * PARAMETERS)


def test_zero_2_scatters_gradients_in_every_microbatch():
    """It keeps its share of them alone; ZeRO-1 accumulates whole ones and scatters once."""
    sharded, whole = program("dp=4,zero=2", batch=16), program("dp=4,zero=1", batch=16)
    assert total_bytes(sharded, "dp", "reduce_scatter") == 4 * total_bytes(whole, "dp", "reduce_scatter")
    assert total_bytes(sharded, "dp", "all_gather") == total_bytes(whole, "dp", "all_gather") == 2 * PARAMETERS
    assert ops(sharded)[-1] == ops(whole)[-1]


def test_gradients_travel_in_the_bytes_that_the_optimizer_names():
    kept, reduced = (
        program("dp=4", optimizer="adam,gradients=4"),
        program("dp=4", optimizer="adam,gradients=4,reduce=2"),
    )
    assert (total_bytes(kept, "dp"), total_bytes(reduced, "dp")) == (4 * PARAMETERS, 2 * PARAMETERS)
    assert total_bytes(program("fsdp=4", batch=4, optimizer="adam,gradients=4"), "fsdp_reduce") == 4 * PARAMETERS


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_fsdp_gathers_run_ahead_by_the_prefetch_depth(prefetch):
    forward = program(f"fsdp=4,prefetch={prefetch}", batch=4).blocks[BlockKey(0, "F")].ops
    gathers = {op.name: op.after for op in forward if op.stream == "fsdp"}
    before = f"layer{4 - prefetch}.residual2"
    assert gathers["layer5.all_gather"] == (before,)
    assert next(op for op in forward if op.name == "layer5.norm1").after == ("layer5.all_gather",)


def test_hybrid_sharding_reduces_shards_between_replicas():
    built = program("dp=2 fsdp=4", batch=16)
    assert total_bytes(built, "dp") == 2 * PARAMETERS / 4
    first = next(op for op in ops(built) if op.stream == "dp")
    assert first.after[0].endswith("reduce_scatter")


def test_late_reductions_of_shards_wait_for_the_scatters():
    built = program("dp=2,overlap=off fsdp=4", batch=16)
    reduction = next(op for op in ops(built) if op.name == "dp.gradients")
    assert "fsdp.gradients" in reduction.after
    assert reduction.bytes == 2 * PARAMETERS / 4


def test_the_order_of_axes_does_not_change_the_work():
    assert total_bytes(program("fsdp=4 dp=2"), "dp") == total_bytes(program("dp=2 fsdp=4"), "dp")


# The end of a step


def test_the_optimizer_waits_for_the_norm_over_every_axis():
    built = program("pp=2 dp=2,zero=1 tp=2")
    last = built.blocks[built.orders[1,][-1].block].ops
    assert [op.name for op in last] == [
        "gradient_norm",
        "gradient_norm.tp",
        "gradient_norm.dp",
        "gradient_norm.pp",
        "optimizer",
    ]
    assert last[0].after == ("dp.gradients",)
    assert last[-1].after == ("gradient_norm.pp",)


@pytest.mark.parametrize(("plan", "share"), [("dp=4", 1), ("dp=4,zero=1", 4), ("fsdp=8", 8), ("dp=2,zero=1 fsdp=4", 8)])
def test_the_optimizer_moves_30_bytes_a_parameter_of_its_share(plan, share):
    update = ops(program(plan))[-1]
    assert update.read_bytes + update.write_bytes == 30 * PARAMETERS / share


@pytest.mark.parametrize(("precision", "element"), [("bf16", 2), ("fp16", 2), ("fp32", 4)])
def test_the_optimizer_moves_what_memory_holds(precision, element):
    """FP32 weight and moments read and written, gradient read and cleared, a parameter beside the weight written."""
    built = program(precision=precision)
    weight, moments, copy = 4, 8, element if element < 4 else 0
    update = ops(built)[-1]
    assert update.read_bytes == (element + weight + moments) * PARAMETERS
    assert update.write_bytes == (weight + moments + copy + element) * PARAMETERS
    rows = built.memory[0,].rows(built.orders[0,])
    assert (rows["optimizer"], rows.get("master_weights", 0)) == (8 * PARAMETERS, copy and 4 * PARAMETERS)


@pytest.mark.parametrize(("precision", "attention"), [("tf32", "unfused"), ("tf32", "flash"), ("fp32", "unfused")])
def test_what_needs_no_conversion_is_multiplied_alike(precision, attention):
    built = program(precision=precision, attention=attention)
    assert {op.dtype for op in ops(built) if isinstance(op, Compute) and op.flops} == {precision}


def test_narrow_formats_are_for_the_products_of_layers():
    names = {op.name for op in ops(program(precision="fp8")) if isinstance(op, Compute) and op.dtype == "fp8"}
    assert {name.split(".")[1] for name in names} == {"qkv", "proj", "gate_up", "down"}


@pytest.mark.parametrize(
    ("plan", "axes"),
    [
        ("dp=4", []),
        ("dp=4,overlap=off", []),
        ("dp=4,zero=1", ["dp"]),
        ("fsdp=4", ["fsdp"]),
        ("dp=2 fsdp=2", ["fsdp"]),
        ("pp=2 dp=2 tp=2", ["tp", "pp"]),
        ("pp=2 dp=2,zero=1 fsdp=2 tp=1", ["fsdp", "dp", "pp"]),
    ],
)
def test_the_gradient_norm_adds_up_where_gradients_differ(plan, axes):
    """Plain dp leaves every rank the same gradients, so there is nothing to add."""
    scalars = [op for op in ops(program(plan)) if isinstance(op, Collective) and op.stream == "norm"]
    assert [op.axes for op in scalars] == [(axis,) for axis in axes]


@pytest.mark.parametrize("zero", [0, 1, 2])
def test_without_optimizer_a_step_ends_with_its_gradients_and_opens_with_nothing(zero):
    built = program(f"dp=2,zero={zero}", optimizer="none", batch=2)
    assert {replay.block.kind for replay in built.orders[0,]} == {"F", "B"}
    assert total_bytes(built, "dp") == 2 * PARAMETERS


def test_a_model_without_vocabulary_is_equal_layers_alone():
    built = program("pp=4", SMALL.replace(vocab=0), optimizer="none")
    work = [sum(op.flops for op in ops(built, rank) if isinstance(op, Compute)) for rank in range(4)]
    assert len(set(work)) == 1
    assert total_flops(built) == pytest.approx(built.model_flops)


def test_input_and_weight_gradients_split_the_backward():
    """I and W together hold the ops of B, each in B's order; W alone completes gradients."""
    step = TrainingStep(SMALL, "tp=2", 1, 4096)
    drafts = {kind: Draft(kind, "only", step.rank_microbatch) for kind in "BIW"}
    for draft in drafts.values():
        draft.assemble(step.stages[0].layers)
    names = {kind: [op.name for op in draft.ops()] for kind, draft in drafts.items()}
    assert sorted(names["I"] + names["W"]) == sorted(names["B"])
    assert [name for name in names["B"] if name in names["W"]] == names["W"]
    assert not any(name.endswith("weight_gradient") for name in names["I"])
    for kind, parameters in (("B", step.stages[0].parameters), ("I", 0), ("W", step.stages[0].parameters)):
        completed = (gradient.parameters for unit in drafts[kind].units for gradient in unit.gradients)
        assert sum(completed) == parameters


def test_end_stages_may_be_empty():
    """They pass messages on and take part in the reductions of scalars."""
    built = program("pp=3 dp=2", SMALL.replace(vocab=0, layers=1), batch=4)
    assert [op.name for op in built.blocks[BlockKey(0, "F", "first")].ops] == ["send"]
    assert [op.name for op in ops(built) if isinstance(op, Collective)] == ["gradient_norm.pp"]
    check_resolvable(built)


# Stacks


def test_older_stacks_add_gradients_up_after_the_products():
    """One kernel for each gradient: the new one and the sum are read, the sum is written, 6 bytes in BF16."""
    fused, apart = (program(stack=stack, batch=2) for stack in ("megatron_2021", "megatron_2021_v2"))
    assert not [op for op in ops(fused) if op.name.endswith(".accumulate")]
    kernels = [op for op in ops(apart) if op.name.endswith(".accumulate")]
    assert sum(op.read_bytes + op.write_bytes for op in kernels) == pytest.approx(2 * 6 * PARAMETERS)
    in_order = [op.name for op in ops(apart)]
    for op in kernels:
        assert in_order[in_order.index(op.name) - 1] == op.name.removesuffix(".accumulate")
    check_resolvable(apart)


def test_replicas_reduce_what_is_added_up():
    reduced = next(op for op in ops(program("dp=2,bucket=1,overlap=on", stack="megatron_2021_v2")) if op.stream == "dp")
    assert all(name.endswith(".accumulate") for name in reduced.after)


def test_older_stacks_wait_for_the_all_reduce_of_an_input_gradient():
    """Two all-reduces of a layer's backward: those before the products by columns, QKV, gate and up; the head's."""

    def waits(stack):
        found = ops(program("tp=4,sp=off", stack=stack, batch=1))
        reduced = {op.name for op in found if isinstance(op, Collective) and "backward" in op.name}
        return [op for op in found if op.name.endswith("weight_gradient") and reduced & set(op.after)]

    assert not waits("megatron_2021")
    assert len(waits("megatron_2021_v2")) == 2 * SMALL.layers + 1


def test_jax_does_not_repeat_the_last_product_of_a_layer():
    """Nobody needs its output again: the repetition has all products of weights but h x ffn."""

    def repeated(stack):
        found = ops(program(stack=stack, batch=1, recompute="full"))
        return {
            op.name.split(".")[-1] for op in found if isinstance(op, Compute) and op.recompute and op.kind == "gemm"
        }

    assert repeated("framework_none") == {"qkv", "proj", "gate_up", "down"}
    assert repeated("maxtext_2024") == {"qkv", "proj", "gate_up"}
    check_resolvable(program("fsdp=2 tp=2", stack="maxtext_2024", batch=2, recompute="full"))
