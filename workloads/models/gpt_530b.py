"""GPT 530B: 529,600,819,200 parameters.

Source: Reducing Activation Recomputation in Large Transformer Models, arXiv:2205.05198, table 3, with the
vocabulary and sequence of its evaluation; tied embeddings and dropout of Megatron-LM (its memory formulas count masks).
"""

from typing import Any

from workloads.transformer import Transformer

PUBLISHED = Transformer(
    name="gpt_530b",
    layers=105,
    hidden=20480,
    heads=128,
    kv_heads=128,
    head_dim=160,
    ffn=81920,
    vocab=51200,
    gated=False,
    tied=True,
    norm="layernorm",
    bias=True,
    positions=2048,
    dropout=True,
)


def build(**changes: Any) -> Transformer:
    """GPT 530B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
