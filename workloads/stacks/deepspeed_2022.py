"""Megatron-DeepSpeed of 2022, as BLOOM was trained.

Megatron-LM's kernels of its day below DeepSpeed's pipeline engine and ZeRO-1.
"""

from types import MappingProxyType

from workloads.stack import Stack

PUBLISHED = Stack(
    name="deepspeed_2022",
    attention="unfused",
    overlap_gradients=False,
    keeps_outputs=True,
    copy=6.0,
    bucket=500e6,
    fused_accumulation=False,
    async_reduction=False,
    sources=MappingProxyType(
        {
            "attention": "BLOOM, arXiv:2211.05100, section 3.3: Megatron's fused kernels; no fused attention",
            "fused_accumulation": "Megatron-DeepSpeed: forked from Megatron-LM 2.x",
            "async_reduction": "Megatron-DeepSpeed: forked before Megatron-LM had it",
            "overlap_gradients": "DeepSpeed pipeline engine: reduces gradients once the schedule ends",
            "keeps_outputs": "DeepSpeed runtime/pipe/engine.py: pipe_buffers hold outputs until backward_pass",
            "copy": "DeepSpeed runtime/zero/stage_1_and_2.py, step: gradients of the share flattened, then in FP32",
            "bucket": "DeepSpeed ZeRO: reduce_bucket_size is 5e8 by default, buckets are flattened copies",
        }
    ),
)


def build() -> Stack:
    """Megatron-DeepSpeed of 2022."""
    return PUBLISHED
