"""Megatron-LM with Megatron-Core of 2024.

Transformer Engine layers, FP32 gradients, distributed optimizer with overlapped reduction and gathers.
"""

from types import MappingProxyType

from workloads.stack import Stack

PUBLISHED = Stack(
    name="megatron_2024",
    gradients=4.0,
    sources=MappingProxyType(
        {
            "attention": "Megatron-Core: FlashAttention or cuDNN through Transformer Engine",
            "gradients": "Megatron-LM: accumulate_allreduce_grads_in_fp32 is set with bf16",
            "overlap_gradients": "Megatron-LM: --overlap-grad-reduce and --overlap-param-gather of its published runs",
            "overlap_tensor": "Megatron-LM: --tp-comm-overlap is off unless given",
        }
    ),
)


def build() -> Stack:
    """Megatron-LM with Megatron-Core of 2024."""
    return PUBLISHED
