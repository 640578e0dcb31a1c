"""Megatron-LM 2.x of early 2021, as in arXiv:2104.04473: the stack of 2021 before its backward pass was overlapped.

Neither option existed yet: --no-gradient-accumulation-fusion and --no-async-tensor-model-parallel-allreduce, which
switch off what later versions do by default (megatron/arguments.py; the years when they came were not re-checked).
"""

from workloads.stack import Stack
from workloads.stacks import megatron_2021

PUBLISHED = megatron_2021.PUBLISHED.variant(
    "megatron_2021_v2",
    {
        "fused_accumulation": "Megatron-LM 2.x: main_grad.add_ in a hook of its own DDP",
        "async_reduction": "Megatron-LM 2.x: copy_to_tensor_model_parallel_region, whose backward waits",
    },
    fused_accumulation=False,
    async_reduction=False,
)


def build() -> Stack:
    """Megatron-LM 2.x of early 2021."""
    return PUBLISHED
