"""MosaicML's llm-foundry of 2023: Composer with PyTorch's FSDP.

A Triton kernel for attention, eager PyTorch for the rest.
"""

from types import MappingProxyType

from workloads.stack import Stack

PUBLISHED = Stack(
    name="mpt_fsdp_2023",
    fused_loss=True,
    fused_optimizer=False,
    attention="triton",
    fusion=False,
    distributed_optimizer=False,
    sources=MappingProxyType(
        {
            "fused_loss": "llm-foundry: loss_fn is fused_crossentropy of flash-attn",
            "fused_optimizer": "Composer: DecoupledAdamW, one parameter after the other",
            "attention": "llm-foundry 2023, scripts/train/benchmarking: attn_impl triton",
            "fusion": "llm-foundry 2023: eager PyTorch 1.13 and 2.0",
            "distributed_optimizer": "llm-foundry: fsdp_config with sharding_strategy FULL_SHARD; no ZeRO-1",
        }
    ),
)


def build() -> Stack:
    """MosaicML's llm-foundry of 2023."""
    return PUBLISHED
