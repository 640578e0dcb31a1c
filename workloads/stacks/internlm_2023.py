"""InternEvo (InternLM) of 2023.

FlashAttention-2, fused norms, rotary positions and activations, ZeRO-1 whose parameters are broadcast by their owners.
"""

from types import MappingProxyType

from workloads.stack import Stack

PUBLISHED = Stack(
    name="internlm_2023",
    fused_loss=True,
    fused_accumulation=False,
    attention="flash2",
    gather="broadcast",
    sources=MappingProxyType(
        {
            "fused_accumulation": "PyTorch autograd adds each microbatch's gradients up by kernels of their own",
            "gather": "InternEvo: every ZeRO rank broadcasts the parameters that it updated",
            "fused_loss": "InternEvo: FlashCrossEntropyLoss of flash-attn",
            "attention": "InternEvo: flash-attention with packed samples",
            "fusion": "InternEvo: RMSNorm by Apex, rotary by flash-attn, gated activation by TorchScript",
            "overlap_gradients": "InternEvo configs/7B_sft.py: overlap_sync_grad on, overlap_sync_param on",
        }
    ),
)


def build() -> Stack:
    """InternEvo (InternLM) of 2023."""
    return PUBLISHED
