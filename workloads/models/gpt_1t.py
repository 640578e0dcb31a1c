"""GPT 1T: 1,008,038,758,400 parameters.

Source: Reducing Activation Recomputation in Large Transformer Models, arXiv:2205.05198, table 3, with the
vocabulary and sequence of its evaluation; tied embeddings and dropout of Megatron-LM (its memory formulas count masks).
"""

from typing import Any

from workloads.transformer import Transformer

PUBLISHED = Transformer(
    name="gpt_1t",
    layers=128,
    hidden=25600,
    heads=160,
    kv_heads=160,
    head_dim=160,
    ffn=102400,
    vocab=51200,
    gated=False,
    tied=True,
    norm="layernorm",
    bias=True,
    positions=2048,
    dropout=True,
)


def build(**changes: Any) -> Transformer:
    """GPT 1T, with changes to its fields."""
    return PUBLISHED.replace(**changes)
