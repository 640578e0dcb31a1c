"""Mistral 7B: 7,241,732,096 parameters.

Source: Mistral 7B, arXiv:2310.06825, table 1: sliding window of 4096 in every layer (the released v0.1).
"""

from typing import Any

from workloads.transformer import Transformer

PUBLISHED = Transformer(
    name="mistral_7b",
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    ffn=14336,
    vocab=32000,
    window=4096,
)


def build(**changes: Any) -> Transformer:
    """Mistral 7B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
