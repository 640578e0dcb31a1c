"""Llama 2 7B: 6,738,415,616 parameters.

Source: Llama 2, arXiv:2307.09288, table 1 and appendix A.2.1, with the released model's dimensions
(those of LLaMA 7B, arXiv:2302.13971, table 2).
"""

from typing import Any

from workloads.transformer import Transformer

PUBLISHED = Transformer(
    name="llama2_7b",
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=32,
    head_dim=128,
    ffn=11008,
    vocab=32000,
)


def build(**changes: Any) -> Transformer:
    """Llama 2 7B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
