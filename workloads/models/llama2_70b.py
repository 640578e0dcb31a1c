"""Llama 2 70B: 68,976,648,192 parameters.

Source: Llama 2, arXiv:2307.09288, table 1 (grouped queries), with the released model's dimensions.
"""

from typing import Any

from workloads.transformer import Transformer

PUBLISHED = Transformer(
    name="llama2_70b",
    layers=80,
    hidden=8192,
    heads=64,
    kv_heads=8,
    head_dim=128,
    ffn=28672,
    vocab=32000,
)


def build(**changes: Any) -> Transformer:
    """Llama 2 70B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
