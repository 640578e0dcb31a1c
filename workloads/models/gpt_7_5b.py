"""GPT 7.5B: 7,467,786,240 parameters.

Source: Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, arXiv:2104.04473, table 1,
with the vocabulary and sequence of its evaluation; tied embeddings and dropout of Megatron-LM.
"""

from typing import Any

from workloads.transformer import Transformer

PUBLISHED = Transformer(
    name="gpt_7_5b",
    layers=36,
    hidden=4096,
    heads=32,
    kv_heads=32,
    head_dim=128,
    ffn=16384,
    vocab=51200,
    gated=False,
    tied=True,
    norm="layernorm",
    bias=True,
    positions=2048,
    dropout=True,
)


def build(**changes: Any) -> Transformer:
    """GPT 7.5B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
