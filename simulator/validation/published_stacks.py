"""Which software stack a published run used, by one rule: who published it, when, and what the row says."""

import re

from simulator.validation.published_cells import Cells

# The rule, blind to results. The words of source and reference tell the framework, the first of FRAMEWORKS that they
# contain. Megatron-LM changed most (fused attention, distributed optimizer): what was published before 2023 has the
# stack of 2022, or of 2021, all else the current one. Torchtitan compiles layers only where the row says so. A source
# of which no framework is known has the stack `framework_none`.
FRAMEWORKS = {
    "megatron-bridge": "megatron_bridge_2025",
    "dgxc-benchmarking": "nemo_2024",
    "nemo": "nemo_2024",
    "mlperf": "nemo_2024",
    "torchtitan": "torchtitan_2024",
    "llm-foundry": "mpt_fsdp_2023",
    "mosaicml": "mpt_fsdp_2023",
    "internevo": "internlm_2023",
    "internlm": "internlm_2023",
    "maxtext": "maxtext_2024",
    "bigscience": "deepspeed_2022",
    "deepspeed": "deepspeed_2022",
    "megatron": "megatron",
    "arxiv:2205.05198": "megatron",
    "zero bubble": "megatron_2021",
    "megascale": "megatron",
    "vtrain": "megatron_2021",
    "simumax": "megatron",
}
"""Words of sources, in lower case, and their framework; papers whose title does not name Megatron-LM did use it.
The scripts of arXiv:2401.10241 for its sequences of 1,024 tokens switch on none of what came to Megatron-LM after 2022
(github.com/sail-sg/zero-bubble-pipeline-parallelism, examples/pretrain_zbh1.sh: no --use-flash-attn); vTrain measured a
Megatron-LM of 2022 and 2023, say the notes of its rows."""

MEGATRON = {2023: "megatron_2024", 2022: "megatron_2021"}
FIRST_MEGATRON = "megatron_2021_v2"
"""Stacks of Megatron-LM's runs from these years on, latest first (that of Megatron-core; that of arXiv:2205.05198), and
before."""
NOW = 2025
"""The year of a source that tells none."""
EAGER = {"torchtitan_2024": "torchtitan_2024_eager"}
"""Stacks of rows that do not say `torch.compile`."""
WITHOUT_SEQUENCE_PARALLELISM = ("megatron_2021", FIRST_MEGATRON, "deepspeed_2022", "framework_none")
"""Stacks older than arXiv:2205.05198: tensor parallel runs that do not mention sequence parallelism have none."""


def year(cells: Cells) -> int:
    """When a row's runs were made: the earliest year that source, reference or notes name, papers by arXiv number.

    >>> year(Cells({"source": "Narayanan et al. SC21", "reference": "arXiv:2104.04473"})), year(Cells({}))
    (2021, 2025)
    """
    words = f"{cells.sources} {cells.word('notes')}"
    found = [int(text) for text in re.findall(r"\b(20[12]\d)\b", words)]
    found += [2000 + int(text) for text in re.findall(r"arXiv:(\d\d)\d\d\.", words)]
    return min(found, default=NOW)


def stack(cells: Cells) -> str:
    """The name of the stack of a row.

    >>> stack(Cells({"source": "MaxText TPU v5e README"})), stack(Cells({"source": "Qi et al. ICLR24 Zero Bubble"}))
    ('maxtext_2024', 'megatron_2021')
    """
    sources = cells.sources.lower()
    name = next((name for word, name in FRAMEWORKS.items() if word in sources), "framework_none")
    if name == "framework_none":
        cells.assume(f"stack={name}")
    if name == "megatron":
        return next((name for first, name in MEGATRON.items() if year(cells) >= first), FIRST_MEGATRON)
    return name if "torch.compile" in cells.word("notes") else EAGER.get(name, name)
