"""GPT 7.5B: 7,467,786,240 parameters.

Source: Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, arXiv:2104.04473, table 1,
with the vocabulary and sequence of its evaluation; tied embeddings and dropout of Megatron-LM.
"""

from typing import Any

from workloads.models._gpt import gpt
from workloads.transformer import Transformer

PUBLISHED = gpt("gpt_7_5b", layers=36, hidden=4096, heads=32)


def build(**changes: Any) -> Transformer:
    """GPT 7.5B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
