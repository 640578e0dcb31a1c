"""Recomputation: what it costs in FLOPs, what it frees, in which order it comes."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import TrainingStep, models
from workloads.layers import transformer_layer
from workloads.microbatch import Microbatch
from workloads.ops import Collective, Compute
from workloads.program import BlockKey
from workloads.recompute import Recompute, naive_recompute

MODEL = models.build("llama3_8b,layers=16")


def step(recompute, plan="dp=1", model=MODEL, **options):
    return TrainingStep(model, plan, options.pop("batch", 4), 2048, recompute=recompute, **options)


def backward(step):
    return step.program().blocks[BlockKey(0, "B", "first")].ops


def activations(step):
    program = step.program()
    rows = program.memory[0,].rows(program.orders[0,])
    return rows["activations"] + rows.get("recomputed", 0.0)


def repeated(step):
    """Names of the kernels that repeat the forward pass, in order, for one microbatch."""
    return [op.name for op in backward(step) if isinstance(op, Compute) and op.recompute]


# FLOPs


@pytest.mark.parametrize("convention", ["causal", "full", "megatron", "nemo"])
def test_a_whole_forward_more_is_a_third_more_flops(convention):
    """HFU / MFU: 4/3 with the head, 1.30 to 1.334 without, 1 without recomputation."""

    def ratio(recompute, model="llama2_7b"):
        program = step(recompute, model=model, convention=convention).program()
        return (program.model_flops + program.recompute_flops) / program.model_flops

    assert ratio("none") == 1
    assert ratio("full,head=on") == pytest.approx(4 / 3, rel=1e-9)
    for model in ("llama2_7b", "llama2_70b", "gpt3_175b"):
        assert 1.30 < ratio("full", model) < 1.334
        assert 1 < ratio("selective", model) < ratio("full", model)


@settings(max_examples=30, deadline=None)
@given(
    recompute=st.sampled_from(
        ["none", "selective", "selective,modules=norm+mlp", "full", "full,every=3", "full,layers=5", "full,head=on"]
    ),
    plan=st.sampled_from(["dp=1", "pp=4 tp=2", "fsdp=2", "pp=2,schedule=interleaved,virtual=4 tp=2,sp=off"]),
    attention=st.sampled_from(["flash", "unfused"]),
    model=st.sampled_from([MODEL, MODEL.replace(window=512), MODEL.replace(block_density=0.5, causal=False)]),
)
def test_emitted_flops_are_the_closed_form(recompute, plan, attention, model):
    """What all kernels do, with and without repetition, is what the model says; at most one forward is repeated."""
    program = step(recompute, plan, model, attention=attention).program()
    useful, again = program.emitted_flops()
    assert useful == pytest.approx(program.model_flops, rel=1e-9)
    assert again == pytest.approx(program.recompute_flops, rel=1e-9)
    assert 0 <= again <= useful / 3 * (1 + 1e-9)


# The lecture's account


def slope(cost, sizes):
    """Of the logarithms, from end to end."""
    low, high = sizes[0], sizes[-1]
    return math.log(cost(high) / cost(low)) / math.log(high / low)


SIZES = [256, 4096]


@pytest.mark.parametrize(
    ("checkpoints", "compute", "memory"),
    [(lambda n: 1, 2, 0), (lambda n: round(n**0.5), 1.5, 0.5), (lambda n: n, 1, 1)],
)
def test_the_naive_account_grows_as_the_lecture_says(checkpoints, compute, memory):
    accounts = {n: naive_recompute(n, checkpoints(n)) for n in SIZES}
    assert slope(lambda n: accounts[n].forwards, SIZES) == pytest.approx(compute, abs=0.1)
    assert slope(lambda n: accounts[n].kept, SIZES) == pytest.approx(memory, abs=0.1)


def test_the_naive_account_falls_with_checkpoints():
    """O(N^2 / C)."""
    assert slope(lambda c: naive_recompute(4096, c).forwards, [4, 64]) == pytest.approx(-1, abs=0.1)
    with pytest.raises(ValueError, match="checkpoints=9 of layers=8: whole numbers, from 1 to the layers"):
        naive_recompute(8, 9)


# Memory of what frameworks do


@pytest.mark.parametrize(("recompute", "power"), [("none", 1), ("full", 1), ("full,every=sqrt", 0.5)])
def test_activations_of_the_simulated_modes_grow_with_layers(recompute, power):
    """O(N), O(N / C + C), O(sqrt N): of a model without end stages, as the slope between 256 and 4096 layers."""

    def size(layers):
        return activations(step(recompute, model=MODEL.replace(layers=layers, vocab=0), batch=1))

    assert slope(size, [1024, 8100]) == pytest.approx(power, abs=0.1)


@pytest.mark.parametrize("every", [1, 2, 4, 16])
def test_a_checkpoint_every_c_layers_keeps_n_over_c_inputs_and_c_layers(every):
    """The input of the group that is computed again is one of those inputs."""
    layer = sum(transformer_layer(MODEL).saved(Microbatch(2048, 2048)).values())
    boundary = 2048 * 2 * MODEL.hidden
    kept = activations(step(f"full,every={every}", model=MODEL.replace(vocab=0)))
    assert kept == MODEL.layers / every * boundary + every * layer - boundary


def test_some_layers_of_each_stage():
    """Megatron-LM's method block: the first three of eight, computed again when the rest is free already."""
    layer = sum(transformer_layer(MODEL).saved(Microbatch(2048, 2048)).values())
    boundary = 2048 * 2 * MODEL.hidden
    kept = activations(step("full,layers=3", "pp=2,schedule=gpipe", model=MODEL.replace(vocab=0)))
    assert kept == 4 * (5 * layer + 3 * boundary)
    one = activations(step("full,layers=1", model=MODEL.replace(vocab=0), batch=1))
    assert one == 15 * layer + boundary < activations(step("none", model=MODEL.replace(vocab=0), batch=1))


@pytest.mark.parametrize(
    ("modules", "freed"),
    [
        ("norm", lambda m: 2 * 2 * m.hidden),
        ("activation", lambda m: 2 * m.ffn),
        ("mlp", lambda m: 2 * 3 * m.ffn),
        ("norm+mlp", lambda m: 2 * 2 * m.hidden + 2 * 3 * m.ffn),
        ("attention", lambda m: 0),
    ],
)
def test_named_modules_free_what_they_can_compute_again(modules, freed):
    """Bytes per token; the core of fused attention keeps nothing of its own."""
    layer, token = transformer_layer(MODEL), Microbatch(1, 2048)
    targets = Recompute.parse(f"selective,modules={modules}").targets
    assert sum(layer.saved(token).values()) - sum(layer.saved(token, targets).values()) == freed(MODEL)


# Order


def test_full_recomputation_comes_layer_by_layer_or_in_groups():
    names = [op.name for op in backward(step("full", batch=2))]
    assert names.index("recompute.layer14.norm1") > names.index("layer15.norm1.backward")
    names = [op.name for op in backward(step("full,every=2", batch=2))]
    assert names.index("recompute.layer15.norm1") < names.index("layer15.residual2.backward")
    assert names.index("recompute.layer14.norm1") < names.index("recompute.layer15.norm1")
    assert names.index("recompute.layer13.norm1") > names.index("layer14.norm1.backward")


def test_selective_recomputation_comes_before_what_needs_it():
    names = [op.name for op in backward(step("selective,modules=norm+activation", batch=2))]
    assert names.index("layer3.recompute.activation") + 1 == names.index("layer3.down.input_gradient")
    assert names.index("layer3.recompute.norm1") + 1 == names.index("layer3.qkv.input_gradient")
    assert len(repeated(step("selective", batch=2))) == MODEL.layers


def test_the_feed_forward_network_gathers_its_input_again():
    built = step("selective,modules=mlp", "tp=2", batch=2)
    gathers = [op.name for op in backward(built) if isinstance(op, Collective) and op.name.startswith("layer0.enter2")]
    again = [op.name for op in backward(built) if op.name == "layer0.recompute.enter2"]
    assert (len(again), len(gathers)) == (1, 2)


@pytest.mark.parametrize(("every", "gathers"), [(1, 2), (2, 3)])
def test_groups_of_sharded_layers_are_gathered_once_more(every, gathers):
    """Forward and backward; where a group is recomputed before its backward begins, that gathers it, too."""
    built = step(f"full,every={every}", "fsdp=2", batch=2, model=MODEL.replace(vocab=0))
    blocks = built.program().blocks.values()
    found = [op for block in blocks for op in block.ops if isinstance(op, Collective) and op.kind == "all_gather"]
    assert len(found) == gathers * MODEL.layers
