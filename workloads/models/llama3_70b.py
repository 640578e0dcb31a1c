"""Llama 3 70B: 70,553,706,496 parameters.

Source: The Llama 3 Herd of Models, arXiv:2407.21783, table 3; the vocabulary padded to 128,256 as released.
"""

from typing import Any

from workloads.transformer import Transformer

PUBLISHED = Transformer(
    name="llama3_70b",
    layers=80,
    hidden=8192,
    heads=64,
    kv_heads=8,
    head_dim=128,
    ffn=28672,
    vocab=128256,
)


def build(**changes: Any) -> Transformer:
    """Llama 3 70B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
