"""GPT-3 175B: 174,604,259,328 parameters.

Source: Language Models are Few-Shot Learners, arXiv:2005.14165, table 2.1; byte-pair vocabulary, learned positions
and tied embeddings of GPT-2. Assumes dense attention in every layer; the original alternates dense and sparse.
"""

from typing import Any

from workloads.models._gpt import gpt
from workloads.transformer import Transformer

PUBLISHED = gpt("gpt3_175b", layers=96, hidden=12288, heads=96, vocab=50257).replace(dropout=False)


def build(**changes: Any) -> Transformer:
    """GPT-3 175B, with changes to its fields."""
    return PUBLISHED.replace(**changes)
