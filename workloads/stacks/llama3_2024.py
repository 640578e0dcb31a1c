"""What trained Llama 3: Meta's own stack on PyTorch.

FP32 gradients, accumulated over microbatches by kernels of their own and reduce-scattered in FP32.
"""

from types import MappingProxyType

from workloads.stack import Stack

PUBLISHED = Stack(
    name="llama3_2024",
    gradients=4.0,
    reduce=4.0,
    fused_accumulation=False,
    sources=MappingProxyType(
        {
            "gradients": "arXiv:2407.21783, section 3.3.2: FP32 accumulation of gradients over microbatches",
            "reduce": "arXiv:2407.21783, section 3.3.2: gradients are reduce-scattered in FP32",
            "fused_accumulation": "PyTorch autograd adds gradients up by kernels of their own",
            "attention": "FlashAttention-3 and cuDNN are Hopper's; the paper names none",
        }
    ),
)


def build() -> Stack:
    """What trained Llama 3."""
    return PUBLISHED
