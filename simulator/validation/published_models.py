"""The model of a published run: its printed dimensions, and what is known of its family."""

import re
from typing import Any

from simulator.validation.published_cells import Cells
from simulator.validation.tables import LeftOutError
from workloads import Transformer

FAMILIES: dict[str, dict[str, Any]] = {
    "mpt": {"gated": False, "tied": True, "norm": "layernorm", "learned": True},
    "nemotron": {"gated": False, "norm": "layernorm"},
    "gpt": {"gated": False, "tied": True, "norm": "layernorm", "bias": True, "learned": True},
    "bloom": {"gated": False, "tied": True, "norm": "layernorm", "bias": True, "learned": True},
    "opt": {"gated": False, "tied": True, "norm": "layernorm", "bias": True, "learned": True},
    "palm": {"gated": True, "tied": True, "norm": "layernorm"},
    "gemma": {"gated": True, "tied": True},
}
"""Facts of families by how a model's name begins; every other one is as Llama: gated, untied, RMSNorm, no biases.

Sources: MPT, github.com/mosaicml/llm-foundry (no biases, learned positions, one table for both ends); Nemotron-4,
arXiv:2402.16819 (squared ReLU, untied, no biases, rotary positions); GPT as Megatron-LM builds it, arXiv:1909.08053;
BLOOM, arXiv:2211.05100, whose first runs were Megatron's GPT; OPT, arXiv:2205.01068; PaLM, arXiv:2204.02311 (SwiGLU,
one table, no biases; its layers, parallel there, are serial here); Gemma, arXiv:2403.08295.
"""
LLAMA: dict[str, Any] = {"gated": True}

VOCABULARY = 51200
"""Of GPT: GPT-2's 50,257 entries, padded to a multiple of 128 x tp as Megatron-LM does by default."""
WITH_DROPOUT = ("megatron_2021", "megatron_2021_v2", "deepspeed_2022")
"""Stacks that train GPT with dropout, Megatron-LM's default; NeMo's and Megatron-core's recipes have none."""
FINE_TUNED = ("lora", "sft")
"""Words of sources whose runs train a part of the weights, or on packed short samples."""
HYBRIDS = ("hybrid", "nemotron-h", "mamba")


def model(cells: Cells, stack: str) -> Transformer:
    """The model of a row, trained by a stack; LeftOutError where it is none of dense attention layers."""
    name = cells.word("model").lower()
    if cells.word("moe") != "no":
        raise LeftOutError("expert parallelism: no MoE layers yet")
    if any(re.search(rf"\b{word}\b", cells.sources.lower()) for word in FINE_TUNED):
        raise LeftOutError("fine-tuning: not a step of pre-training")
    if any(word in name for word in HYBRIDS):
        raise LeftOutError("a hybrid model: its layers are not all attention")
    if not cells.states("layers", "hidden", "heads"):
        raise LeftOutError("the model's dimensions are not published")
    facts = dict(next((facts for family, facts in FAMILIES.items() if name.startswith(family)), LLAMA))
    learned = facts.pop("learned", False)
    facts["gated"] = _gated(cells, facts["gated"])
    if learned:
        facts["positions"] = int(cells.number("sequence"))
    if name.startswith(("gpt", "bloom")):
        facts["dropout"] = stack in WITH_DROPOUT
    return Transformer(name=cells.word("model"), **{**_dimensions(cells), **facts})


def _gated(cells: Cells, usual: bool) -> bool:
    """Whether the feed-forward network has a gate: as printed, else as its family."""
    return cells.told("gated_mlp", "yes" if usual else "no") == "yes"


def _dimensions(cells: Cells) -> dict[str, Any]:
    """Sizes as printed; heads all have keys of their own, and the network is 4 times as wide, unless said otherwise."""
    hidden, heads = int(cells.number("hidden")), int(cells.number("heads"))
    return {
        "layers": int(cells.number("layers")),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": cells.count("kv_heads", heads),
        "head_dim": int(cells.number("head_dim")) if cells.states("head_dim") else hidden // heads,
        "ffn": cells.count("ffn_hidden", 4 * hidden),
        "vocab": cells.count("vocabulary", VOCABULARY),
    }
