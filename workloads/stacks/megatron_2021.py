"""Megatron-LM of 2021 and 2022, as in arXiv:2104.04473 and arXiv:2205.05198.

Scores of attention go through memory; pipelines and tensor parallelism, and replicas that reduce at the end.
"""

from types import MappingProxyType

from workloads.stack import Stack

PUBLISHED = Stack(
    name="megatron_2021",
    attention="unfused",
    overlap_gradients=False,
    distributed_optimizer=False,
    sources=MappingProxyType(
        {
            "attention": "arXiv:2205.05198, section 4: the softmax, its dropout and its inputs are kept",
            "fusion": "arXiv:2104.04473, section 4.2: bias and GeLU, bias, dropout and add, softmax are fused",
            "overlap_gradients": "Megatron-LM 2.x: local DDP, reduced after the last backward",
            "distributed_optimizer": "Megatron-LM 2.x: none before 2022",
        }
    ),
)


def build() -> Stack:
    """Megatron-LM of 2021 and 2022."""
    return PUBLISHED
