"""GPT 530B: 529,600,819,200 parameters.

Source: Reducing Activation Recomputation in Large Transformer Models, arXiv:2205.05198, table 3, with the
vocabulary and sequence of its evaluation; tied embeddings and dropout of Megatron-LM (its memory formulas count masks).
"""

from typing import Any

from workloads.models._gpt import gpt
from workloads.transformer import Transformer

PUBLISHED = gpt("gpt_530b", layers=105, hidden=20480, heads=128)


def build(**changes: Any) -> Transformer:
    """GPT 530B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
