"""Training steps: what is refused, with the numbers and the nearest legal values."""

import pickle
import re

import pytest

import workloads
from workloads import TrainingStep, models
from workloads.ops import Collective, Compute
from workloads.optimizer import Optimizer
from workloads.recompute import Recompute


def step(plan="dp=8", model="llama3_8b", batch=16, **options):
    return TrainingStep(model, plan, batch, options.pop("sequence", 8192), **options)


def test_text_and_values_make_the_same_step():
    plan = workloads.ParallelPlan.parse("dp=8")
    assert step() == step(plan, models.build("llama3_8b"))
    assert hash(step()) == hash(step(plan))


def test_program_is_lowered_once():
    one = step()
    assert one.program() is one.program()
    assert one.replace(batch=32).program() is not one.program()


def test_replace_checks_again():
    assert step().replace(plan="dp=4").microbatches == 4
    with pytest.raises(ValueError, match="unknown field of a step 'batchsize'; did you mean batch"):
        step().replace(batchsize=3)


def test_a_step_pickles_without_what_it_has_computed():
    one = step("pp=2,schedule=interleaved,virtual=4 dp=4,zero=1", microbatch=2, recompute="full")
    before = pickle.dumps(one)
    one.program()
    assert pickle.dumps(one) == before
    assert pickle.loads(before) == one


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"batch": 100, "microbatch": 2},
            "batch=100 is not divisible by dp 8 × microbatch 2 = 16; nearest: 96 or 112",
        ),
        ({"batch": 3}, "batch=3 is not divisible by dp 8 × microbatch 1 = 8; nearest: 8"),
        ({"plan": "dp=2 fsdp=4", "batch": 12}, "dp 2 × fsdp 4 × microbatch 1 = 8; nearest: 8 or 16"),
        ({"plan": "tp=3"}, "heads=32 are not divisible by tp=3; nearest tp: 2 or 4"),
        ({"plan": "tp=64"}, "heads=32 are not divisible by tp=64; nearest tp: 32"),
        ({"plan": "tp=8", "model": "llama3_8b,heads=24,kv_heads=12"}, "kv_heads=12 and tp=8 do not divide each other"),
        ({"plan": "tp=8", "model": "llama3_8b,ffn=14340"}, "ffn=14340 is not divisible by tp=8; nearest tp: 6 or 10"),
        ({"plan": "tp=8", "sequence": 100}, "100 tokens are not divisible by tp=8, as sp needs; nearest: 96 or 104"),
        ({"plan": "pp=64", "batch": 64}, "layers=32 are too few for 64 stages.*at most 34 stages"),
        ({"plan": "pp=4,layers=8x3"}, "gives 24 layers to 3 stages; the model has 32 layers and the schedule 4"),
        ({"plan": "pp=4,schedule=interleaved,virtual=2", "batch": 6}, "nearest: microbatches=4 or 8"),
        ({"batch": 0}, "batch=0 is not a whole number from 1"),
        ({"sequence": 2.5}, "sequence=2.5 is not a whole number"),
        ({"microbatch": 10**12}, "microbatch=1000000000000 is not a whole number from 1 to 1000000000"),
        ({"precision": "bf61"}, "unknown precision 'bf61'; did you mean bf16"),
        ({"recompute": "ful"}, "unknown recompute 'ful'; did you mean full"),
        ({"optimizer": "adm"}, "unknown optimizer 'adm'; did you mean adam"),
        ({"optimizer": "adam,grad=4"}, "unknown coefficient of optimizer adam 'grad'; did you mean gradients"),
        ({"optimizer": "adam,moments=-1"}, "moments=-1 of optimizer adam: bytes per parameter, from 0 to 64"),
        ({"optimizer": "adam,gradients=0"}, "gradients=0 of optimizer adam: bytes per parameter, above 0 to 64"),
        ({"optimizer": "adam,reduce=0"}, "reduce=0 of optimizer adam: bytes per parameter, above 0 to 64"),
        ({"recompute": "selective,modules=attn"}, "unknown module to recompute 'attn'; did you mean attention"),
        ({"recompute": "selective,modules=mlp+activation"}, "recomputes a module twice"),
        ({"recompute": "selective,every=2"}, "unknown option of recompute=selective 'every'; Known: modules"),
        ({"recompute": "none,every=2"}, "recompute=none has no options, and so no every"),
        ({"recompute": "full,every=0"}, "every=0: layers a checkpoint, a whole number from 1 or sqrt"),
        ({"recompute": "full,layers=-1"}, "layers=-1: layers of each stage to recompute"),
        ({"recompute": "full,head=1"}, "head=1 is neither on nor off"),
        ({"attention": "flsh"}, "unknown attention 'flsh'; did you mean flash"),
        ({"fusion": "eager"}, "fusion=eager is neither on nor off"),
        ({"convention": "casual"}, "unknown convention 'casual'; did you mean causal"),
        ({"model": "llama3_9b"}, "unknown model 'llama3_9b'"),
        ({"model": "gpt3_175b"}, "sequence=8192 is longer than the 2048 learned positions of gpt3_175b; nearest: 2048"),
        (
            {"plan": "dp=2,zero=2 fsdp=2,sync=off"},
            "sync=off scatters gradients in the last microbatch, but dp=2,zero=2 in",
        ),
        ({"offload": "optimizer", "optimizer": "none"}, "offload=optimizer: with optimizer=none there is nothing to"),
        ({"plan": ""}, "the plan is empty; write for example dp=8"),
        ({"model": None}, "model=None is neither text nor Transformer"),
        ({"plan": None}, "plan=None is neither text nor ParallelPlan"),
        ({"recompute": None}, "recompute=None is neither text nor Recompute"),
        ({"optimizer": True}, "optimizer=True is neither text nor Optimizer"),
        ({"offload": 3}, "offload=3 is neither text nor Offload"),
        ({"plan": "pp=4,schedule=interleaved,strict=1", "batch": 8}, "strict=1 is neither on nor off"),
        ({"plan": "pp=4,schedule=interleaved,virtual=2.0", "batch": 8}, "virtual=2.0: a schedule needs a whole number"),
    ],
)
def test_bad_input_fails_at_construction_in_one_line(options, message):
    with pytest.raises(ValueError, match=message) as failure:
        step(**options)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Recompute("ful"), "unknown recompute 'ful'; did you mean full"),
        (lambda: Recompute("selective"), "selective alone names modules"),
        (lambda: Recompute("full", ("norm",)), "selective alone names modules"),
        (lambda: Recompute(every=4), "recompute=none: every, layers and head are options of full"),
    ],
)
def test_bad_parts_of_a_step_fail_at_construction(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("changes", [{"moments": -1}, {"master": True}, {"copy": float("nan")}, {"gradients": 0}])
def test_an_optimizer_is_checked_however_it_is_made(changes):
    with pytest.raises(ValueError, match="of optimizer mine: bytes per parameter"):
        Optimizer("mine", **changes)


def test_key_value_heads_may_be_replicated():
    assert step("tp=16").program().mesh.size == 16


@pytest.mark.parametrize(
    ("plan", "warning"),
    [
        ("dp=1,zero=1", "dp=1: zero=1 changes nothing"),
        ("dp=1,bucket=1e6,overlap=off", "dp=1: bucket=1e+06 changes nothing"),
        ("dp=8,overlap=off,bucket=1e6", "dp=8: bucket=1e+06 changes nothing with overlap=off"),
        ("fsdp=1,prefetch=2", "fsdp=1: prefetch=2 changes nothing"),
        ("fsdp=1,reshard=off", "fsdp=1: reshard=off changes nothing"),
        ("tp=1,sp=off", "tp=1: sp=off changes nothing"),
        ("pp=1,schedule=interleaved,virtual=4", "pp=1: virtual=4 changes nothing"),
        ("pp=2,schedule=interleaved,virtual=1,group=4", "group=4 changes nothing with virtual=1"),
        ("pp=2,schedule=interleaved,strict=off", "strict=off changes nothing: no round is short"),
    ],
)
def test_options_that_change_nothing_are_named(plan, warning):
    assert warning in step(plan).warnings


@pytest.mark.parametrize(
    "plan", ["dp=8,bucket=1e6", "dp=8,overlap=off", "fsdp=8,prefetch=2", "tp=1,sp=on", "tp=8,sp=off"]
)
def test_options_that_change_something_or_are_at_their_default_are_not(plan):
    assert step(plan).warnings == ()


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ({"recompute": "selective"}, "recompute=selective repeats fused attention.*norm.mlp would free some"),
        (
            {"recompute": "selective,modules=attention+mlp"},
            "repeats fused attention, which keeps no scores to be freed$",
        ),
        ({"recompute": "full,layers=0"}, "recompute=full,layers=0 recomputes nothing"),
        ({"recompute": "full,layers=33"}, "layers=33 of recompute=full,layers=33: no stage has more than 32 layers"),
        ({"recompute": "full,every=33"}, "every=33 of recompute=full,every=33: no stage has more than 32 layers"),
        ({"recompute": "full,every=32"}, None),
        ({"recompute": "selective", "attention": "unfused"}, None),
        ({"recompute": "full,head=on"}, None),
    ],
)
def test_recomputation_that_frees_nothing_is_named(options, warning):
    found = step("dp=8", **options).warnings
    assert not found if warning is None else re.search(warning, " ".join(found))


def test_an_uneven_split_is_named():
    uneven = step("pp=16,schedule=interleaved,virtual=8 tp=8", "llama3_405b", batch=16)
    assert any("0-1x126-0" in warning for warning in uneven.warnings)


def test_tokens_do_not_depend_on_the_plan():
    plans = ["dp=1", "dp=8", "pp=4 tp=2", "fsdp=8"]
    assert {step(plan).program().tokens for plan in plans} == {16 * 8192}


@pytest.mark.parametrize("amount", [-1.0, float("nan"), float("inf")])
def test_an_op_moves_and_computes_finite_amounts(amount):
    with pytest.raises(ValueError, match="an amount is 0 or more, and finite"):
        Compute(name="a", kind="gemm", flops=amount)
    with pytest.raises(ValueError, match="an amount is 0 or more, and finite"):
        Collective(name="a", stream="tp", kind="all_reduce", axes=("tp",), bytes=amount)
