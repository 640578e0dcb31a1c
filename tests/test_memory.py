"""Memory items against the formulas of the papers."""

import math
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import TrainingStep, models
from workloads.footprint import Item
from workloads.layers import transformer_layer
from workloads.microbatch import Microbatch
from workloads.modules import Split
from workloads.optimizer import PRESETS, Optimizer
from workloads.recompute import Recompute
from workloads.schedule import peak_in_flight

LLAMA = models.build("llama3_8b,layers=8")
TOKEN = Microbatch(1, 4096)
STATES = ("parameters", "gradients", "master_weights", "optimizer")
GIB = 2**30


def items(plan="dp=1", model=LLAMA, batch=16, **options):
    """Bytes of all items at the peak of each pp coordinate."""
    program = TrainingStep(model, plan, batch, options.pop("sequence", 4096), **options).program()
    return {place: each.peak(program.orders[place]) for place, each in program.memory.items()}


def rows(*args, **options):
    """Bytes of all rows at the peak of each pp coordinate."""
    found = {place: defaultdict(float) for place in items(*args, **options)}
    for place, each in items(*args, **options).items():
        for (row, _), size in each.items():
            found[place][row] += size
    return found


def saved(layer, *targets):
    """Bytes that a layer keeps for one token."""
    return sum(layer.saved(TOKEN, targets).values())


def states(row):
    return sum(row[name] for name in STATES)


# Model states


def test_a_7b_model_takes_112_gb_before_anything_is_sharded():
    """2 B parameters + 2 B gradients + 4 B master weights + 8 B moments, of 6,738,415,616 parameters."""
    row = rows(model="llama2_7b")[0,]
    assert [row[name] / 6_738_415_616 for name in STATES] == [2, 2, 4, 8]


def of_parameters(count):
    """A model of exactly so many parameters, none of them in an end stage: layers of 1x1 products."""
    layer = models.build("llama3_8b,layers=1,vocab=0")
    return layer, count / layer.parameters()


@pytest.mark.parametrize(
    ("count", "optimizer", "plan", "gigabytes"),
    [
        (7e9, "adam", "dp=1", 112),
        (70e9, "adam", "dp=1", 1120),
        (70e9, "adam", "fsdp=16", 70),
        (1e9, "simple", "dp=1", 8),
        (100e9, "simple", "dp=1", 800),
        (100e9, "simple", "fsdp=80", 10),
        (7.5e9, "adam", "dp=64", 120),
        (7.5e9, "adam", "dp=64,zero=1", 31.4),
        (7.5e9, "adam", "dp=64,zero=2", 16.6),
        (7.5e9, "adam", "fsdp=64", 1.9),
        (7e9, "adam,gradients=2,master=0,moments=8", "dp=1", 84),
        (88.6e9, "adam", "fsdp=8", 177),
        (70.6e9, "adam_8bit,moments=0", "fsdp=8", 35.3),
    ],
)
def test_states_by_optimizer_and_sharding(count, optimizer, plan, gigabytes):
    """The accounts of the ZeRO paper (its 7.5B table), of the lecture, and of public reports, per GPU."""
    model, times = of_parameters(count)
    row = rows(plan, model, batch=960, optimizer=optimizer)[0,]
    assert states(row) * times / 1e9 == pytest.approx(gigabytes, rel=5e-3, abs=0.05)


def test_deepspeed_zero_2_with_unsharded_gradients():
    """(4 N + 16 N / n) bytes: whole fp16 gradients, an FP32 copy of them sharded with master weights and moments."""
    model, times = of_parameters(5844e6)
    for ranks, expected in ((1, 108.86), (4, 43.54)):
        row = rows(f"dp={ranks},zero=1", model, batch=16, precision="fp16", optimizer="adam_deepspeed")[0,]
        assert states(row) * times / GIB == pytest.approx(expected, rel=5e-4)


def test_zero_3_keeps_18_bytes_in_shares_and_gathers_the_largest_layer():
    """4 x largest + 18 N / n: the layer and its gradient, both in fp16."""
    ranks, units = 4, [each.parameters for each in TrainingStep(LLAMA, "dp=1", 1, 4096).stages[0].layers]
    row = rows("fsdp=4,prefetch=0", optimizer="adam,gradients=4,reduce=2", precision="fp16")[0,]
    assert states(row) == pytest.approx(18 * sum(units) / ranks, rel=1e-12)
    assert row["gathered"] == 4 * max(units)


@pytest.mark.parametrize(("sync", "share"), [("on", 16), ("off", 1)])
def test_gradients_accumulate_in_shares_or_whole(sync, share):
    """2 N / 16 bytes if every microbatch reduces its gradients, 2 N if only the last one does."""
    row = rows(f"fsdp=16,sync={sync}", batch=64)[0,]
    assert row["gradients"] == pytest.approx(2 * LLAMA.parameters() / share, rel=1e-12)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_of_optimizers(name):
    """Bytes a parameter in all, with parameters of 2 bytes."""
    expected = {"adam": 16, "adam_fp32_gradients": 18, "adam_deepspeed": 20, "adam_8bit": 6, "simple": 8, "none": 4}
    optimizer = Optimizer.parse(name)
    assert optimizer.total_bytes(2) == expected.get(name, 12)
    assert states(rows(optimizer=name)[0,]) == optimizer.total_bytes(2) * LLAMA.parameters()
    assert str(optimizer) == name


@pytest.mark.parametrize("name", models.names())
def test_stages_hold_every_parameter_once(name):
    step = TrainingStep(name, "pp=2", 2, 128)
    model = step.model
    copies = model.vocab * model.hidden if model.tied else 0
    assert sum(stage.parameters for stage in step.stages) == model.parameters() + copies
    assert sum(stage.parameters for stage in step.replace(plan="dp=1").stages) == model.parameters()


@pytest.mark.parametrize(
    ("plan", "shares"),
    [
        ("dp=8", (1, 1, 1, 1)),
        ("dp=8,zero=1", (1, 1, 8, 8)),
        ("dp=8,zero=2", (1, 8, 8, 8)),
        ("fsdp=8", (8, 8, 8, 8)),
        ("dp=2,zero=1 fsdp=4", (4, 4, 8, 8)),
        ("dp=8,zero=1,shard=4", (1, 1, 4, 4)),
        ("dp=4,zero=1,shard=2 fsdp=2", (2, 2, 4, 4)),
    ],
)
def test_data_parallel_strategies_divide_the_states(plan, shares):
    whole, row = rows()[0,], rows(plan)[0,]
    for state, share in zip(STATES, shares, strict=True):
        assert row[state] == pytest.approx(whole[state] / share, rel=1e-12)


PLANS = st.tuples(
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 8]),
)


@settings(max_examples=40, deadline=None)
@given(plan=PLANS, tied=st.booleans(), optimizer=st.sampled_from(list(PRESETS)))
def test_states_over_ranks_are_the_models_times_their_replication(plan, tied, optimizer):
    """Norms are replicated over tp; a tied embedding is on both end stages; each state over what does not shard it.

    The ranks that share a state are those of the data-parallel axes: it is not divided by tp or pp twice.
    """
    pp, dp, zero, fsdp, tp = plan
    model = LLAMA.replace(tied=tied)
    memory = rows(f"pp={pp} dp={dp},zero={zero} fsdp={fsdp} tp={tp}", model, optimizer=optimizer)
    norms = (2 * model.layers + 1) * model.norm_parameters()
    copies = model.vocab * model.hidden if tied and pp > 1 else 0
    distinct = model.parameters() + (tp - 1) * norms + copies
    found, ranks = Optimizer.parse(optimizer), dp * fsdp * tp
    sizes = dict(
        zip(STATES, (2, found.gradient_bytes(2), found.master_bytes(2), found.moments + found.copy), strict=True)
    )
    for row, sharded_from in zip(STATES, (3, 2, 1, 1), strict=True):
        replicas = 1 if zero >= sharded_from else dp
        total = ranks * sum(each[row] for each in memory.values())
        assert math.isclose(total, sizes[row] * distinct * replicas, rel_tol=1e-9)
    whole = found.total_bytes(2) * model.parameters()
    assert max(states(each) for each in memory.values()) >= whole / (pp * ranks) * (1 - 1e-9)


def test_fsdp_gathers_the_largest_units():
    """One unit in use, one prefetched, one gradient; without resharding all parameters, without sync no gradient."""
    units = sorted([LLAMA.embedding_parameters(), LLAMA.head_parameters() + LLAMA.hidden, LLAMA.layer_parameters()])
    assert rows("fsdp=8")[0,]["gathered"] == 2 * (sum(units[-2:]) + units[-1])
    assert rows("fsdp=8,reshard=off,sync=off")[0,]["gathered"] == 2 * LLAMA.parameters()


def test_precision_sets_the_bytes_per_parameter():
    """FP32 needs no master copy; FP8 keeps two copies of the weights of layers' products."""
    count = LLAMA.parameters()
    assert [rows(precision="fp32")[0,][name] / count for name in STATES] == [4, 4, 0, 8]
    narrow = LLAMA.layers * LLAMA.layer_matmul_parameters()
    assert rows(precision="fp8")[0,]["parameters"] == 2 * count + 2 * narrow
    assert rows(precision="nvfp4")[0,]["parameters"] == 2 * count + 2 * narrow * (0.5 + 1 / 16)


# Activations


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_saved_bytes_of_a_llama_layer_per_token(tp):
    """Inputs of norms and projections, q, k, v and the attention output, gate, up and their product, over t."""
    h, kv, ffn = LLAMA.hidden, LLAMA.kv_heads * LLAMA.head_dim, LLAMA.ffn
    inputs, attention, feed_forward = 4 * 2 * h, 2 * h + 4 * kv + 2 * h, 4 * ffn + 2 * ffn
    layer = transformer_layer(LLAMA).split(Split("tp", tp, sequence=True))
    assert saved(layer) == pytest.approx((inputs + attention + feed_forward) / tp, rel=1e-12)


def test_without_sequence_parallelism_inputs_are_kept_whole():
    h, kv, ffn, tp = LLAMA.hidden, LLAMA.kv_heads * LLAMA.head_dim, LLAMA.ffn, 4
    layer = transformer_layer(LLAMA).split(Split("tp", tp, sequence=False))
    assert saved(layer) == 4 * 2 * h + (4 * h + 4 * kv + 6 * ffn) / tp


@pytest.mark.parametrize("plan", ["dp=8,zero=2", "dp=8,zero=2,bucket=1e9", "dp=2,zero=2 fsdp=4", "pp=2 dp=4,zero=2"])
def test_the_largest_bucket_is_whole_until_it_is_scattered(plan):
    """As large as the largest reduction of dp over the step: at least the table's gradient."""
    step = TrainingStep("llama3_8b", plan, 16, 4096)
    for rank in range(step.schedule.ranks):
        blocks = [step.program().blocks[replay.block] for replay in step.program().orders[rank,]]
        largest = max(op.bytes for block in blocks for op in block.ops if op.stream == "dp" and op.kind[0] == "r")
        found = items(plan, "llama3_8b", 16, sequence=4096)[rank,][Item("gathered", "gradients")]
        whole = 2 * 4096 * 128256 if "fsdp" in plan else 0  # what fsdp scatters before
        assert found == pytest.approx(largest + whole, rel=1e-4)


@pytest.mark.parametrize(("plan", "resident"), [("dp=8", True), ("fsdp=8,reshard=off", True), ("fsdp=8", False)])
def test_converted_weights_stay_where_parameters_do(plan, resident):
    """Two bytes of each in all, as it is and transposed; of one layer at a time where parameters come and go."""
    weights = 2 * (LLAMA.parameters() - 2 * LLAMA.vocab * LLAMA.hidden - (2 * LLAMA.layers + 1) * LLAMA.hidden)
    found = items(plan, batch=8, precision="fp8")[0,]
    assert found.get(Item("parameters", "narrow copies"), 0) == (weights if resident else 0)
    assert found.get(Item("gathered", "narrow copies"), 0) == (0 if resident else weights / LLAMA.layers)


def test_offloaded_parameters_leave_no_copies_behind():
    found = items("fsdp=8", batch=8, precision="fp8", offload="optimizer+parameters")[0,]
    assert Item("parameters", "narrow copies") not in found


def test_the_gradient_of_a_tied_table_waits_for_its_second_part():
    model = models.build("gpt2_xl")
    table = model.vocab * model.hidden
    found = items("fsdp=8", "gpt2_xl", 8, sequence=1024)[0,]
    assert found[Item("gathered", "gradients")] == pytest.approx(2 * (2 * table), rel=0.05)
    assert found[Item("gathered", "parameters")] == pytest.approx(2 * 2 * table, rel=0.05)


def test_narrow_products_keep_narrow_inputs():
    """A byte instead of two of the inputs of the four products; attention keeps its own output beside that."""
    h, ffn, heads = LLAMA.hidden, LLAMA.ffn, LLAMA.heads * LLAMA.head_dim
    whole = rows(batch=1)[0,]["activations"]
    assert whole - rows(batch=1, precision="fp8")[0,]["activations"] == 8 * 4096 * (h + heads + h + ffn - 2 * heads)


GPT = {
    "22B": ("gpt_22b", 1, 1, 4, 45.5625, 59.25, 9.5625),
    "175B": ("gpt3_175b,dropout=on,vocab=51200", 8, 3, 1, 45.5625, 66.84, 12.35),
    "530B": ("gpt_530b", 35, 3, 1, 31.6406, 114.02, 23.08),
    "1T": ("gpt_1t", 64, 1, 1, 32.9590, 131.25, 26.56),
}
"""Case A01: model, pipeline ranks, virtual stages, microbatch; GiB of states and of activations, plain and least."""


def gpt(name, **options):
    """Items of the first stage of a model of arXiv:2205.05198, enough microbatches in flight; the layers' alone."""
    model, pp, virtual, microbatch, *_ = GPT[name]
    sp = options.pop("sp", "off")
    schedule = f",schedule=interleaved,virtual={virtual}" if virtual > 1 else ""
    plan = f"pp={pp}{schedule} tp=8,sp={sp}"
    options = {"precision": "fp16", "optimizer": "adam,gradients=4", "attention": "unfused"} | options
    return items(plan, model, 4 * pp * microbatch, sequence=2048, microbatch=microbatch, **options)[0,]


def of_layers(found):
    """Activations of the layers in GiB: embedding and head are items of their own."""
    return sum(size for (row, part), size in found.items() if row == "activations" and "." not in part) / GIB


@pytest.mark.parametrize("name", GPT)
def test_states_and_activations_of_the_selective_recomputation_paper(name):
    """12 L h^2 x 18 / (t p) of states; activations of a layer s b h (10 + 24 / t + 5 a s / h t) or 34 s b h / t."""
    *_, expected, whole, least = GPT[name]
    found = gpt(name)
    kept = sum(size for (row, part), size in found.items() if row in STATES and part == "layers")
    assert kept / GIB == pytest.approx(expected, rel=1e-3)
    assert of_layers(found) == pytest.approx(whole, rel=1e-3)
    assert of_layers(gpt(name, sp="on", recompute="selective")) == pytest.approx(least, rel=1e-3)


PERCENTAGES = {
    "22B": (66.8, 49.4, 16.2, 7.6),
    "175B": (62.0, 56.5, 18.5, 8.7),
    "530B": (58.3, 62.0, 20.3, 9.4),
    "1T": (58.3, 62.0, 20.3, 9.4),
}
"""Case A02: sequence parallelism, selective recomputation, both, full recomputation: activations in % of neither.

The last one of 530B and 1T is 2 / 21 = 9.5 % by the paper's own formula; its figure says 9.4 %."""


@pytest.mark.parametrize("name", GPT)
def test_activations_by_mode_of_the_selective_recomputation_paper(name):
    """The smaller of the two single measures changes sides: selective alone is less at 175B, more at 530B."""
    model, t, s = models.build(GPT[name][0]), 8, 2048
    h, heads = model.hidden, model.heads
    layer, token = transformer_layer(model, "unfused"), Microbatch(1, s)
    core = Recompute.parse("selective").targets

    def bytes_per_token(sequence, targets):
        return sum(layer.split(Split("tp", t, sequence=sequence)).saved(token, targets).values())

    neither = bytes_per_token(False, ())
    assert neither == pytest.approx(h * (10 + 24 / t + 5 * heads * s / (h * t)), rel=1e-12)
    modes = [bytes_per_token(True, ()), bytes_per_token(False, core), bytes_per_token(True, core), 2 * h]
    found = [100 * each / neither for each in modes]
    assert found[:3] == pytest.approx(PERCENTAGES[name][:3], rel=0.01)
    assert found[3] == pytest.approx(PERCENTAGES[name][3], rel=0.014)
    assert (found[1] < found[0]) == (name in ("22B", "175B"))


def test_feed_forward_activations_of_the_405b_model():
    """The real width at 4,096 tokens, a tensor of 2 bytes in each of 126 layers: 51 GiB; the lecture's 4 h: 63 GiB."""
    model = models.build("llama3_405b")
    found = items("dp=1", model, 1, sequence=4096)[0,]
    down = found["activations", "down"]
    assert down == 2 * model.layers * model.ffn * 4096
    assert down / GIB == pytest.approx(51, rel=0.01)
    lecture = items("dp=1", model.replace(ffn=4 * model.hidden), 1, sequence=4096)[0,]
    assert lecture["activations", "down"] / GIB == pytest.approx(63, rel=0.001)


@pytest.mark.parametrize(("plan", "counts"), [("pp=4", [4, 3, 2, 1]), ("pp=4,schedule=gpipe", [16] * 4)])
def test_activations_follow_the_microbatches_in_flight(plan, counts):
    """1F1B keeps p - r microbatches on rank r, GPipe all m."""
    bare = LLAMA.replace(vocab=0)
    memory = rows(plan, bare)
    layer = 4096 * saved(transformer_layer(bare))
    assert [memory[rank,]["activations"] for rank in range(4)] == [2 * count * layer for count in counts]


def test_the_head_keeps_its_softmax():
    """4 bytes a logit for each microbatch in flight, 2 more for one."""
    assert rows(batch=1)[0,]["logits"] == 4096 * LLAMA.vocab * (4 + 2)
    assert rows("pp=2,schedule=gpipe")[1,]["logits"] == 4096 * LLAMA.vocab * (4 * 16 + 2)
    assert rows("pp=2")[0,]["logits"] == 0


def test_nothing_in_flight_in_an_empty_order():
    assert peak_in_flight([], [1.0]) == 0
