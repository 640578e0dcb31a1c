"""FLOPs conventions: which weights and how many keys per query a source counts when it reports TFLOP/s or MFU.

A product of weights counts 2 FLOPs per weight and token forward, attention 4 x heads x head_dim per query and key
(scores, then their product with the values). Backward is twice forward. Recomputation counts in no convention,
and none changes a time: they only say what a figure means.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from workloads.plugins import unknown


@dataclass(frozen=True, slots=True)
class Convention:
    """What one convention counts.

    `weights`: those that are `multiplied` by every token (layers and head), or `all` parameters with embedding,
    norms and biases. `keys`: per query, those it `attends` to, those in its `reach` before the causal mask, or
    what sources count that know neither window nor blocks: the whole `square` of the sequence, or its causal
    `half`.
    """

    weights: Literal["multiplied", "all"]
    keys: Literal["attended", "reach", "square", "half"]


CONVENTIONS = {
    "causal": Convention("multiplied", "attended"),
    "full": Convention("multiplied", "reach"),
    "palm": Convention("all", "reach"),
    "palm_causal": Convention("all", "attended"),
    "megatron": Convention("multiplied", "square"),
    "nemo": Convention("multiplied", "half"),
}
"""Every convention by name.

- `causal`: the work there is. Window and blocks count as they are, of a causal mask the half that it leaves.
- `full`: as `causal`, but not halved for the mask.
- `palm`: all parameters, attention as in `full` (PaLM, arXiv:2204.02311, appendix B).
- `palm_causal`: all parameters, attention as in `causal`.
- `megatron`: the whole square of the sequence under any mask. In the Megatron-LM paper (arXiv:2104.04473, appendix)
  B sequences of s tokens cost 72 B s L h^2 (1 + s / 6h + V / 12 L h); its tables use 96 B s L h^2 (1 + s / 6h +
  V / 16 L h), which adds a recomputed forward of the layers and so is HFU. Megatron-LM's own log counted a plain
  network of width 4h at first, since March 2024 (its pull request 682) width and gate of the model, and grouped keys
  and values as few as they are. So it equals `full` for every model here without window and blocks. Between
  May 2024 (its issue 831) and July 2025 that log began to halve the square: later figures are `nemo` here.
- `nemo`: half of the square if the model is causal, in NeMo since 2.5 (container 25.09): nemo/utils/flops_formulas.py
  for GPT-3, Llama 2 and 3, Nemotron, Mixtral. Equals `causal` for every model here without window and blocks.
  NeMo up to 2.4 did not halve them: those figures are `megatron` here.

Assumes the model's own vocabulary, where Megatron-LM pads it and NeMo has one size per family, and the width
heads x head_dim, where both wrote h. NVIDIA's Nemotron recipes (dgxc-benchmarking, 2025) count keys and values as if
they were not grouped: `model.replace(kv_heads=model.heads)` under `megatron`.
"""


def find(convention: str) -> Convention:
    """What a convention counts; an unknown one fails with the known ones.

    >>> find("nemo")
    Convention(weights='multiplied', keys='half')
    """
    if convention not in CONVENTIONS:
        raise ValueError(unknown("FLOPs convention", convention, CONVENTIONS))
    return CONVENTIONS[convention]


def attention_flops(width: int, keys: float, tokens: int) -> int:
    """FLOPs of attention forward, in whole FLOPs: 4 x width x keys a query x tokens.

    >>> attention_flops(4096, 1023.5, 3)
    50307072
    """
    return round(4 * width * tokens * Fraction(keys))
