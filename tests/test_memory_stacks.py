"""What software stacks add to memory: copies of the loss, outputs of stages, flat buckets."""

from collections import defaultdict

import pytest

from workloads import TrainingStep, models, stacks
from workloads.layers import transformer_layer
from workloads.microbatch import Microbatch
from workloads.optimizer import Optimizer
from workloads.recompute import TARGETS

LLAMA = models.build("llama3_8b,layers=8")
PLAIN = "megatron_2021,attention=flash"


def rows(plan, batch=16, **options):
    """Bytes of all rows at the peak of each pp coordinate."""
    step = TrainingStep(LLAMA, plan, batch, 4096, **options)
    orders = step.program_orders()
    return {place: defaultdict(float, each.rows(orders[place])) for place, each in step.footprints().items()}


@pytest.mark.parametrize(("plan", "ranks", "bytes_per_logit"), [("dp=1", 1, 12), ("tp=2", 2, 16)])
def test_an_eager_loss_has_a_tensor_for_each_operation(plan, ranks, bytes_per_logit):
    """Softmax and two gradients in FP32; where ranks share the vocabulary one more, the softmax's exponential."""
    memory = rows(plan, batch=1, stack=f"{PLAIN},eager_loss=on")[0,]
    assert memory["logits"] == 4096 * LLAMA.vocab / ranks * bytes_per_logit


def test_kept_outputs_are_a_boundary_for_each_microbatch_in_flight():
    """Under 1F1B stage r of p has p - r in flight; the last stage sends nothing."""
    plain, kept = (rows("pp=4", stack=f"{PLAIN},keeps_outputs={switch}", recompute="full") for switch in ("off", "on"))
    more = [kept[rank,]["activations"] - plain[rank,]["activations"] for rank in range(4)]
    boundary = 4096 * LLAMA.hidden * 2
    assert more == [4 * boundary, 3 * boundary, 2 * boundary, 0]


def test_a_bucket_is_a_copy_of_so_many_gradients_where_replicas_reduce():
    def buffers(plan, bucket):
        return rows(plan, stack=f"{PLAIN},bucket={bucket}")[0,]["buffers"]

    assert buffers("dp=2", 1e6) - buffers("dp=2", 0) == 1e6 * 2
    assert buffers("dp=2", 1e12) - buffers("dp=2", 0) == LLAMA.parameters() * 2
    assert buffers("tp=2,sp=off", 1e6) == buffers("tp=2,sp=off", 0)


def test_copies_of_gradients_lie_with_the_states_in_shares():
    plain, copied = (rows("dp=4,zero=1", stack=f"{PLAIN},copy={copy}")[0,]["optimizer"] for copy in (0, 6))
    assert copied - plain == pytest.approx(6 / 4 * LLAMA.parameters())


def test_an_optimizer_that_names_a_copy_overrules_the_stack():
    stack = stacks.build("deepspeed_2022")
    assert stack.copy == 6
    assert Optimizer.parse("adam_deepspeed").settled(stack).copy == 4
    assert Optimizer.parse("adam").settled(stack).copy == stack.copy
    assert Optimizer.parse("none").settled(stack).copy == 0


@pytest.mark.parametrize("name", ["copy", "bucket"])
def test_sizes_of_a_stack_are_not_negative(name):
    with pytest.raises(ValueError, match=f"{name}=-1 of a stack"):
        TrainingStep(LLAMA, "dp=1", 1, 4096, stack=f"megatron_2021,{name}=-1")


def test_a_recomputed_rotary_embedding_keeps_its_input():
    """Its product is not computed again, so queries, keys and values stay, as large before the embedding as after."""
    layer, token = transformer_layer(LLAMA), Microbatch(1, 4096)
    kept = layer.saved(token, TARGETS["op"])
    assert kept["attention"] == layer.saved(token)["attention"] == LLAMA.qkv_width * 2
