"""GPT 1T: 1,008,038,758,400 parameters.

Source: Reducing Activation Recomputation in Large Transformer Models, arXiv:2205.05198, table 3, with the
vocabulary and sequence of its evaluation; tied embeddings and dropout of Megatron-LM (its memory formulas count masks).
"""

from typing import Any

from workloads.models._gpt import gpt
from workloads.transformer import Transformer

PUBLISHED = gpt("gpt_1t", layers=128, hidden=25600, heads=160)


def build(**changes: Any) -> Transformer:
    """GPT 1T, with changes to its fields."""
    return PUBLISHED.replace(**changes)
