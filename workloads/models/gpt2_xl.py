"""GPT-2 XL (1.5B): 1,557,611,200 parameters.

Source: Language Models are Unsupervised Multitask Learners (2019), table 2; the released model 1558M (gpt2-xl),
whose configuration names 25 heads and dropout 0.1.
"""

from typing import Any

from workloads.models._gpt import gpt
from workloads.transformer import Transformer

PUBLISHED = gpt("gpt2_xl", layers=48, hidden=1600, heads=25, vocab=50257, positions=1024)


def build(**changes: Any) -> Transformer:
    """GPT-2 XL (1.5B), with changes to its fields."""
    return PUBLISHED.replace(**changes)
