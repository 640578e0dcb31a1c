"""Memory rows against the formulas of the papers."""

import math
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import TrainingStep, models
from workloads.layers import transformer_layer
from workloads.modules import Split
from workloads.schedule import peak_in_flight

LLAMA = models.build("llama3_8b,layers=8")


def rows(plan="dp=1", model=LLAMA, batch=16, **options):
    step = TrainingStep(model, plan, batch, options.pop("sequence", 4096), **options)
    program = step.program()
    found = {place: each.rows(program.orders[place]) for place, each in program.memory.items()}
    return {place: defaultdict(float, each) for place, each in found.items()}


def test_a_7b_model_takes_112_gb_before_anything_is_sharded():
    """2 B parameters + 2 B gradients + 4 B master weights + 8 B moments, of 6,738,415,616 parameters."""
    row = rows(model="llama2_7b")[0,]
    states = row["parameters"] + row["gradients"] + row["optimizer"]
    assert states == 16 * 6_738_415_616
    assert row["optimizer"] == 12 * 6_738_415_616


@pytest.mark.parametrize("name", models.names())
def test_stages_hold_every_parameter_once(name):
    step = TrainingStep(name, "pp=2", 2, 128)
    model = step.model
    copies = model.vocab * model.hidden if model.tied else 0
    assert sum(stage.parameters for stage in step.stages) == model.parameters() + copies
    assert sum(stage.parameters for stage in step.replace(plan="dp=1").stages) == model.parameters()


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_saved_bytes_of_a_llama_layer_per_token(tp):
    """Inputs of norms and projections, q, k, v and the attention output, gate, up and their product, over t."""
    h, kv, ffn = LLAMA.hidden, LLAMA.kv_heads * LLAMA.head_dim, LLAMA.ffn
    inputs, attention, feed_forward = 4 * 2 * h, 2 * h + 4 * kv + 2 * h, 4 * ffn + 2 * ffn
    saved = transformer_layer(LLAMA).split(Split("tp", tp, sequence=True)).saved
    assert 2 * saved == pytest.approx((inputs + attention + feed_forward) / tp, rel=1e-12)


def test_without_sequence_parallelism_inputs_are_kept_whole():
    h, kv, ffn, tp = LLAMA.hidden, LLAMA.kv_heads * LLAMA.head_dim, LLAMA.ffn, 4
    saved = transformer_layer(LLAMA).split(Split("tp", tp, sequence=False)).saved
    assert 2 * saved == 4 * 2 * h + (4 * h + 4 * kv + 6 * ffn) / tp


def test_full_recomputation_keeps_layer_inputs_and_one_layer():
    none, full = rows(batch=1), rows(batch=1, recompute="full")
    layer = transformer_layer(LLAMA).saved
    tokens, h = 4096, LLAMA.hidden
    freed = 2 * tokens * (7 * layer - 8 * h)
    assert none[0,]["activations"] - full[0,]["activations"] == freed


@pytest.mark.parametrize(("plan", "counts"), [("pp=4", [4, 3, 2, 1]), ("pp=4,schedule=gpipe", [16] * 4)])
def test_activations_follow_the_microbatches_in_flight(plan, counts):
    """1F1B keeps p - r microbatches on rank r, GPipe all m."""
    bare = LLAMA.replace(vocab=0)
    memory = rows(plan, bare)
    layer = 2 * 4096 * transformer_layer(bare).saved
    assert [memory[rank,]["activations"] for rank in range(4)] == [2 * count * layer for count in counts]


def test_the_head_keeps_its_softmax():
    """4 bytes a logit for each microbatch in flight, 2 more for one."""
    assert rows(batch=1)[0,]["logits"] == 4096 * LLAMA.vocab * (4 + 2)
    assert rows("pp=2,schedule=gpipe")[1,]["logits"] == 4096 * LLAMA.vocab * (4 * 16 + 2)
    assert rows("pp=2")[0,]["logits"] == 0


@pytest.mark.parametrize(
    ("plan", "shares"),
    [
        ("dp=8", (1, 1, 1)),
        ("dp=8,zero=1", (1, 1, 8)),
        ("fsdp=8", (8, 8, 8)),
        ("dp=2,zero=1 fsdp=4", (4, 4, 8)),
    ],
)
def test_data_parallel_strategies_divide_the_states(plan, shares):
    whole, row = rows()[0,], rows(plan)[0,]
    for state, share in zip(("parameters", "gradients", "optimizer"), shares, strict=True):
        assert row[state] == whole[state] / share


def test_fsdp_gathers_the_largest_units():
    """One unit in use, one prefetched, one gradient; without resharding all parameters and all gradients."""
    units = sorted([LLAMA.embedding_parameters(), LLAMA.head_parameters() + LLAMA.hidden, LLAMA.layer_parameters()])
    assert rows("fsdp=8")[0,]["gathered_parameters"] == 2 * (sum(units[-2:]) + units[-1])
    assert rows("fsdp=8,reshard=off")[0,]["gathered_parameters"] == 2 * 2 * LLAMA.parameters()


@settings(max_examples=25, deadline=None)
@given(
    pp=st.sampled_from([1, 2, 4]),
    dp=st.sampled_from([1, 2]),
    fsdp=st.sampled_from([1, 2, 4]),
    tp=st.sampled_from([1, 2, 8]),
    tied=st.booleans(),
)
def test_parameters_over_ranks_are_the_models_times_their_replication(pp, dp, fsdp, tp, tied):
    """Norms are replicated over tp, everything over dp; a tied embedding is on the first and on the last stage."""
    model = LLAMA.replace(tied=tied)
    memory = rows(f"pp={pp} dp={dp} fsdp={fsdp} tp={tp}", model)
    norms = (2 * model.layers + 1) * model.norm_parameters()
    copies = model.vocab * model.hidden if tied and pp > 1 else 0
    expected = 2 * dp * (model.parameters() + (tp - 1) * norms + copies)
    total = sum(row["parameters"] for row in memory.values()) * dp * fsdp * tp
    assert math.isclose(total, expected, rel_tol=1e-12)


def test_precision_and_optimizer_set_the_bytes_per_parameter():
    count = LLAMA.parameters()
    single = rows(precision="fp32")[0,]
    assert (single["parameters"], single["optimizer"]) == (4 * count, 8 * count)
    assert rows(optimizer="none")[0,]["optimizer"] == 0


def test_nothing_in_flight_in_an_empty_order():
    assert peak_in_flight([], [1.0]) == 0
