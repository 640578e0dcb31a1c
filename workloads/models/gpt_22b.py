"""GPT 22B: 22,074,273,792 parameters.

Source: Reducing Activation Recomputation in Large Transformer Models, arXiv:2205.05198, table 3, with the
vocabulary and sequence of its evaluation; tied embeddings and dropout of Megatron-LM (its memory formulas count masks).
"""

from typing import Any

from workloads.transformer import Transformer

PUBLISHED = Transformer(
    name="gpt_22b",
    layers=48,
    hidden=6144,
    heads=64,
    kv_heads=64,
    head_dim=96,
    ffn=24576,
    vocab=51200,
    gated=False,
    tied=True,
    norm="layernorm",
    bias=True,
    positions=2048,
    dropout=True,
)


def build(**changes: Any) -> Transformer:
    """GPT 22B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
