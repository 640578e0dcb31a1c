"""Software stacks: documented facts, what they settle of a plan, what a step says for itself, what it comes to."""

import dataclasses
import pickle

import pytest

from workloads import TrainingStep, models, stacks
from workloads.layers import transformer_layer
from workloads.microbatch import Microbatch
from workloads.ops import Collective, Compute
from workloads.optimizer import Optimizer
from workloads.plan import ParallelPlan
from workloads.stack import FACTS, Stack

SMALL = models.build("llama3_8b,layers=2")
GPT = models.build("gpt_22b,layers=2")
NAMES = stacks.names()
DEFAULTS = {each.name: each.default for each in dataclasses.fields(Stack) if each.name in FACTS}


def step(stack=stacks.CURRENT, plan="dp=2,zero=1 tp=2", model=SMALL, **options):
    return TrainingStep(model, plan, options.pop("batch", 8), 2048, stack=stack, **options)


def settled(stack, plan):
    """The strategies that a plan comes to, by axis."""
    return {each.axis: each for each in step(stack, plan).settled_plan.strategies}


def ops(step, rank=0):
    program = step.program()
    return [op for replay in program.orders[rank,] for op in program.blocks[replay.block].ops]


# ------------------------------------------------------------------------------------------- facts


@pytest.mark.parametrize("name", NAMES)
def test_every_fact_that_is_not_usual_has_a_source(name):
    stack = stacks.build(name)
    unusual = {fact for fact, value in stack.facts().items() if value != DEFAULTS[fact]}
    assert unusual <= set(stack.sources) <= set(FACTS)
    assert all(len(source.split()) >= 3 for source in stack.sources.values())
    assert stack.name == name
    assert isinstance(stack, Stack)


@pytest.mark.parametrize("name", NAMES)
def test_a_stack_is_the_same_after_pickling(name):
    changed = stacks.build(f"{name},graphs=on")
    for stack in (stacks.build(name), changed, step(changed).stack):
        again = pickle.loads(pickle.dumps(stack))
        assert (again, again.sources, str(again)) == (stack, stack.sources, str(stack))
    assert pickle.loads(pickle.dumps(step(changed))) == step(changed)


@pytest.mark.parametrize("name", NAMES)
def test_the_text_of_a_stack_builds_it(name):
    text = f"{name},attention=flash2,fusion=off,copy=2"
    stack = stacks.build(text)
    assert str(stack) == text
    assert stacks.build(str(stack)) == stack == stacks.build(name, attention="flash2", fusion=False, copy=2)
    assert str(step(text)).endswith(f"stack {text}")
    assert step(text) == step(stack)


def test_a_step_names_its_stack_unless_it_is_the_current_one():
    assert "stack" not in str(step())
    assert step().stack == stacks.build(stacks.CURRENT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("megatron_2042", "unknown stack 'megatron_2042'; did you mean megatron_2024"),
        ("megatron_2024,graph=on", "unknown fact of a stack 'graph'; did you mean graphs"),
        ("megatron_2024,seconds=3", "unknown fact of a stack 'seconds'"),
        ("megatron_2024,graphs=yes", "graphs=yes is neither on nor off"),
        ("megatron_2024,attention=flash3", "unknown attention 'flash3'; did you mean flash"),
        ("megatron_2024,p2p=pigeon", "unknown p2p 'pigeon'"),
        ("megatron_2024,reduce=0", "reduce=0 of a stack: bytes per parameter, above 0"),
    ],
)
def test_bad_stacks_in_one_line(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        step(text)
    assert "\n" not in str(caught.value)


def test_a_stack_holds_no_seconds():
    """How fast it is, is for the simulator to know."""
    assert not {fact for fact in FACTS if "second" in fact or "share" in fact or "interval" in fact}


# ------------------------------------------------------------------------------------------- the settled plan


@pytest.mark.parametrize("name", NAMES)
def test_a_stack_settles_what_the_plan_leaves_open(name):
    stack = stacks.build(name)
    found = settled(name, "pp=2 dp=2,zero=1 tp=2")
    assert found["dp"].overlap == stack.overlap_gradients
    assert found["dp"].gather == stack.gather
    assert found["tp"].overlap == stack.overlap_tensor
    assert found["pp"].p2p == stack.p2p


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_of_a_step_stays_as_it_was_typed(name):
    typed = step(name, "pp=2 dp=2,zero=1 tp=2")
    assert str(typed.plan) == "pp=2 dp=2,zero=1 tp=2"
    assert typed.settled_plan == typed.settled_plan.settled(typed.stack)
    assert typed.settled_plan.mesh == typed.plan.mesh
    assert typed.program().mesh == typed.plan.mesh


@pytest.mark.parametrize("switch", ["on", "off"])
@pytest.mark.parametrize("name", NAMES)
def test_what_a_plan_says_overrules_the_stack(name, switch):
    found = settled(name, f"dp=2,zero=1,overlap={switch},gather=broadcast tp=2,overlap={switch}")
    assert found["dp"].overlap == found["tp"].overlap == (switch == "on")
    assert found["dp"].gather == "broadcast"
    assert settled(f"{name},p2p=blocking", "pp=2,p2p=latency dp=2")["pp"].p2p == "latency"
    assert settled(f"{name},p2p=blocking", "pp=2 dp=2")["pp"].p2p == "blocking"


@pytest.mark.parametrize("name", NAMES)
def test_some_things_leave_a_stack_no_choice(name):
    """ZeRO-2 scatters as gradients appear; without sequence parallelism no product has a gather beside it."""
    assert settled(name, "dp=4,zero=2")["dp"].overlap is True
    assert settled(name, "dp=2 tp=2,sp=off")["tp"].overlap is False


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_the_stack_unless_the_optimizer_says_otherwise(name):
    """Bytes in which they are kept, and those in which they travel: as kept, unless a stack tells them apart."""
    stack = stacks.build(name)
    kept = stack.gradients or 2
    numbers = step(name).rank_microbatch
    assert (numbers.gradient_bytes, numbers.reduced_bytes) == (kept, stack.reduce or kept)
    own = step(name, optimizer="adam,gradients=4,reduce=2").rank_microbatch
    assert (own.gradient_bytes, own.reduced_bytes) == (4, 2)
    assert Optimizer.parse("adam").settled(stack).gradients == stack.gradients
    assert str(step(name).optimizer) == "adam"


@pytest.mark.parametrize("name", NAMES)
def test_what_replicas_reduce_is_every_gradient_once_in_its_bytes(name):
    """N parameters in `reduce` bytes, all-reduced; in the closing block where nothing overlaps."""
    one = step(name, "dp=4", optimizer="none")
    stack = one.stack
    found = [op for op in ops(one) if isinstance(op, Collective) and op.axes == ("dp",)]
    assert {op.kind for op in found} == {"all_reduce"}
    assert sum(op.bytes for op in found) == pytest.approx((stack.reduce or stack.gradients or 2) * SMALL.parameters())
    closing = [block for key, block in one.program().blocks.items() if key.kind == "optimizer"]
    assert bool(closing) != stack.overlap_gradients


@pytest.mark.parametrize("name", NAMES)
def test_every_stack_makes_whole_steps(name):
    """Useful FLOPs are the model's, whatever the software."""
    one = step(name, "pp=2 dp=2,zero=1 tp=2", recompute="full")
    useful, again = one.program().emitted_flops()
    assert useful == pytest.approx(SMALL.flops(one.tokens, sequence=2048), rel=1e-9)
    assert again > 0
    assert one.program().stack == name


@pytest.mark.parametrize("dp", [4, 64])
def test_shares_that_are_broadcast_are_whole_tensors(dp):
    """As many broadcasts as ranks, or as tensors if there are fewer; together they carry all parameters."""
    one = step("internlm_2023", f"dp={dp},zero=1", batch=64)
    opening = [op for op in ops(one) if op.name.startswith("parameters")]
    tensors = 6 * SMALL.layers + 3
    assert one.stages[0].tensors == tensors
    assert {op.kind for op in opening} == {"broadcast"}
    assert len(opening) == min(dp, tensors)
    assert sum(op.bytes for op in opening) == pytest.approx(2 * SMALL.parameters())


# ------------------------------------------------------------------------------------------- the step's own word


@pytest.mark.parametrize("name", NAMES)
def test_a_step_overrules_its_stack(name):
    one = step(name, attention="unfused", fusion=False, graphs=True)
    assert (one.software.attention, one.software.fusion, one.software.graphs) == ("unfused", False, True)
    others = {
        fact: value for fact, value in one.software.facts().items() if fact not in ("attention", "fusion", "graphs")
    }
    assert others == {fact: one.stack.facts()[fact] for fact in others}
    assert (one.software.name, one.program().graphs) == (name, True)
    plain = step(name)
    assert plain.software == plain.stack
    assert step(name, attention=plain.stack.attention, graphs=plain.stack.graphs).software == plain.stack


def test_the_implementation_of_attention_reaches_its_kernels():
    for name in NAMES:
        stack = stacks.build(name)
        found = {op.variant for op in ops(step(name, "dp=1")) if op.kind == "attention"}
        expected = {"flash": {""}, "unfused": set()}.get(stack.attention, {stack.attention})
        assert found == expected


# ------------------------------------------------------------------------------------------- eager modules


def kernels_of_a_layer(model, *, fusion, norms_only=False):
    """Kernels that a rank runs for each layer of one microbatch, forward and backward."""
    found = [
        op
        for op in ops(step(model=model, plan="dp=1", batch=1, fusion=fusion))
        if isinstance(op, Compute) and op.name.startswith("layer0.")
    ]
    return [op for op in found if not norms_only or op.kind == "norm"]


def test_eager_modules_are_counted_kernel_by_kernel():
    """Two norms of 6 kernels, rotary positions of 5, a gate of 2, each way: 2 x (2 x 5 + 4 + 1) more than fused."""
    eager, fused = (len(kernels_of_a_layer(SMALL, fusion=fusion)) for fusion in (False, True))
    assert eager - fused == 2 * (2 * (6 - 1) + (5 - 1) + (2 - 1))


def test_layer_norms_and_gelu_are_one_kernel_each():
    eager, fused = (kernels_of_a_layer(GPT, fusion=fusion) for fusion in (False, True))
    assert eager == fused


def test_an_eager_norm_moves_36_bytes_a_channel_forward():
    """Cast 2 + 4, square 4 + 4, mean 4, product 4 + 4, cast 4 + 2, weight 2 + 2; one kernel moves 2 + 2."""
    tokens = 2048
    for fusion, expected in ((False, 36), (True, 4)):
        found = [op for op in kernels_of_a_layer(SMALL, fusion=fusion, norms_only=True) if "backward" not in op.name]
        moved = sum(op.read_bytes + op.write_bytes for op in found) / 2
        assert moved == pytest.approx(expected * tokens * SMALL.hidden)


@pytest.mark.parametrize(("name", "ratio"), [("rope", 5.0), ("activation", 10 / 6)])
def test_other_eager_modules_move_so_many_times_the_bytes(name, ratio):
    layer = transformer_layer(SMALL)
    module = next(each for each in layer.modules if each.name == name)
    numbers = step().rank_microbatch
    assert isinstance(numbers, Microbatch)
    moved = [sum(op.read_bytes + op.write_bytes for op in each.forward(numbers)) for each in (module, module.eager())]
    assert moved[1] / moved[0] == pytest.approx(ratio)


# ------------------------------------------------------------------------------------------- recomputation by operators


def test_every_operator_but_attention_and_every_second_product_is_repeated():
    """The output projection h x h and half of gate and up, h x ffn, as torchtitan's option of this name does."""
    one = step(plan="dp=1", batch=1, recompute="selective,modules=op")
    h, width = SMALL.hidden, SMALL.heads * SMALL.head_dim
    again = [op for op in ops(one) if isinstance(op, Compute) and op.recompute]
    products = sum(op.flops for op in again if op.kind == "gemm")
    assert products == 2 * 2048 * SMALL.layers * h * (width + SMALL.ffn)
    assert one.program().recompute_flops == pytest.approx(products, rel=1e-3)
    assert not [op for op in again if op.kind.startswith("attention")]
    assert {"norm", "elementwise", "activation", "gemm"} == {op.kind for op in again}


def test_what_it_frees_is_in_between_selective_and_full():
    def held(recompute):
        one = step(plan="dp=1", batch=1, recompute=recompute)
        return one.footprints()[0,].rows(one.program_orders()[0,])["activations"]

    assert held("full") < held("selective,modules=op") < held("selective,modules=norm+activation") < held("none")


# ------------------------------------------------------------------------------------------- messages in shares


def test_without_sequence_parallelism_messages_travel_in_shares_and_are_gathered():
    """Each of t ranks sends 1/t of the activation (scatter/gather, arXiv:2104.04473, section 4.1), then all gather."""
    whole = 2 * 2048 * SMALL.hidden
    for options, sent, gathered in (
        (",sp=off", whole / 4, whole),
        (",sp=off,scatter=off", whole, 0),
        ("", whole / 4, 0),
    ):
        found = ops(step(plan=f"pp=2 tp=4{options}", batch=1), rank=1)
        received = [op for op in found if op.name == "recv"]
        assert [op.bytes for op in received] == [sent]
        gathers = [op for op in found if op.name == "recv.gather"]
        assert sum(op.bytes for op in gathers) == gathered
        assert all((op.kind, op.axes, op.after) == ("all_gather", ("tp",), ("recv",)) for op in gathers)
        if gathers:
            first = next(op for op in found if isinstance(op, Compute))
            assert "recv.gather" in first.after


def test_a_plan_knows_what_a_message_is_of_the_activation():
    shares = {
        text: ParallelPlan.parse(text).share("message") for text in ("tp=4", "tp=4,sp=off", "tp=4,sp=off,scatter=off")
    }
    assert list(shares.values()) == [1 / 4, 1 / 4, 1]
