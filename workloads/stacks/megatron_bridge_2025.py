"""Megatron-Bridge of 2025 on Megatron-Core, as in NVIDIA's performance summaries.

Transformer Engine layers with cuDNN attention; gradients reduced in BF16; everything of data parallelism overlaps.
"""

from types import MappingProxyType

from workloads.stack import Stack

PUBLISHED = Stack(
    name="megatron_bridge_2025",
    fused_loss=True,
    sources=MappingProxyType(
        {
            "fused_loss": "Megatron-Bridge: cross_entropy_loss_fusion with Transformer Engine",
            "attention": "Megatron-Core with Transformer Engine: cuDNN fused attention",
            "overlap_gradients": "Megatron-Bridge performance recipes: overlap_grad_reduce, overlap_param_gather",
            "overlap_tensor": "Megatron-Bridge: CommOverlapConfig(tp_comm_overlap=False) unless a recipe sets it",
            "gradients": "Megatron-Bridge performance recipes: grad_reduce_in_fp32 is off",
        }
    ),
)


def build() -> Stack:
    """Megatron-Bridge of 2025 on Megatron-Core."""
    return PUBLISHED
