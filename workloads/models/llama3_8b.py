"""Llama 3 8B: 8,030,261,248 parameters.

Source: The Llama 3 Herd of Models, arXiv:2407.21783, table 3; the vocabulary padded to 128,256 as released.
"""

from typing import Any

from workloads.transformer import Transformer

PUBLISHED = Transformer(
    name="llama3_8b",
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    ffn=14336,
    vocab=128256,
)


def build(**changes: Any) -> Transformer:
    """Llama 3 8B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
