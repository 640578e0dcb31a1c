"""Llama 3 405B: 405,853,388,800 parameters.

Source: The Llama 3 Herd of Models, arXiv:2407.21783, table 3; the vocabulary padded to 128,256 as released.
"""

from typing import Any

from workloads.transformer import Transformer

PUBLISHED = Transformer(
    name="llama3_405b",
    layers=126,
    hidden=16384,
    heads=128,
    kv_heads=8,
    head_dim=128,
    ffn=53248,
    vocab=128256,
)


def build(**changes: Any) -> Transformer:
    """Llama 3 405B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
