"""torchtitan of 2024 without torch.compile.

As torchtitan_2024, but every elementwise operation is a kernel of its own.
"""

from types import MappingProxyType

from workloads.stack import Stack

PUBLISHED = Stack(
    name="torchtitan_2024_eager",
    fused_optimizer=False,
    eager_loss=True,
    attention="flash2",
    fusion=False,
    distributed_optimizer=False,
    gradients=4.0,
    reduce=4.0,
    sources=MappingProxyType(
        {
            "fused_optimizer": "torchtitan 2024: AdamW without fused=True",
            "eager_loss": "torchtitan 2024, train.py: F.cross_entropy of pred.float(), its torch.compile commented out",
            "attention": "PyTorch 2.5: scaled_dot_product_attention takes FlashAttention-2",
            "fusion": "torchtitan: training.compile is off by default",
            "gradients": "torchtitan: FSDP2, param bfloat16, reduce float32, shards in float32",
            "reduce": "torchtitan: FSDP2, MixedPrecisionPolicy(reduce_dtype=torch.float32)",
            "distributed_optimizer": "torchtitan: fully_shard puts all states in shares; no ZeRO-1",
        }
    ),
)


def build() -> Stack:
    """Torchtitan of 2024 without torch.compile."""
    return PUBLISHED
