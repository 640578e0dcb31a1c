"""NeMo 24.x on Megatron-Core, as in NVIDIA's DGX Cloud benchmarking recipes.

Transformer Engine layers with cuDNN attention; gradients reduced in BF16; overlap of data parallel collectives.
"""

from types import MappingProxyType

from workloads.stack import Stack

PUBLISHED = Stack(
    name="nemo_2024",
    sources=MappingProxyType(
        {
            "attention": "NeMo: Transformer Engine, cuDNN fused attention",
            "overlap_gradients": "dgxc-benchmarking recipes: overlap_grad_sync, overlap_param_sync",
            "overlap_tensor": "NeMo: ub_tp_comm_overlap is off unless a recipe sets it",
            "gradients": "NeMo performance recipes: grad_reduce_in_fp32 is off",
        }
    ),
)


def build() -> Stack:
    """NeMo 24.x on Megatron-Core."""
    return PUBLISHED
