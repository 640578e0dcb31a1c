"""GPT 22B: 22,074,273,792 parameters.

Source: Reducing Activation Recomputation in Large Transformer Models, arXiv:2205.05198, table 3, with the
vocabulary and sequence of its evaluation; tied embeddings and dropout of Megatron-LM (its memory formulas count masks).
"""

from typing import Any

from workloads.models._gpt import gpt
from workloads.transformer import Transformer

PUBLISHED = gpt("gpt_22b", layers=48, hidden=6144, heads=64)


def build(**changes: Any) -> Transformer:
    """GPT 22B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
