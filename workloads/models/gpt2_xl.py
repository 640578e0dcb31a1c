"""GPT-2 XL (1.5B): 1,557,611,200 parameters.

Source: Language Models are Unsupervised Multitask Learners (2019), table 2; the released model 1558M (gpt2-xl),
whose configuration names 25 heads and dropout 0.1.
"""

from typing import Any

from workloads.transformer import Transformer

PUBLISHED = Transformer(
    name="gpt2_xl",
    layers=48,
    hidden=1600,
    heads=25,
    kv_heads=25,
    head_dim=64,
    ffn=6400,
    vocab=50257,
    gated=False,
    tied=True,
    norm="layernorm",
    bias=True,
    positions=1024,
    dropout=True,
)


def build(**changes: Any) -> Transformer:
    """GPT-2 XL (1.5B), with changes to its fields."""
    return PUBLISHED.replace(**changes)
