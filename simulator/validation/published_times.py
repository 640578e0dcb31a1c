"""The measured step time of a published run, from whatever its source printed."""

import math

from simulator.validation.published_cells import Cells
from simulator.validation.tables import LeftOutError
from topologies import Accelerator
from workloads import Transformer
from workloads.precision import PRECISIONS

RECOMPUTED = 4 / 3
"""FLOPs of a step whose layers are all computed again over those of one that keeps them: four forwards for three."""
DIRECT = ("step_time_seconds", "tokens_per_second_per_gpu", "samples_per_second")


def is_direct(cells: Cells) -> bool:
    """Whether a time or a throughput was published, and not FLOP/s or MFU alone."""
    return any(cells.states(name) for name in DIRECT)


def measured(cells: Cells, model: Transformer, batch: int, chip: Accelerator) -> float:
    """Seconds of a step: published, else from a throughput, else from FLOP/s or MFU as the source counts FLOPs."""
    sequence, gpus = cells.number("sequence"), cells.number("gpus")
    if cells.states("step_time_seconds"):
        return cells.number("step_time_seconds")
    if cells.states("tokens_per_second_per_gpu"):
        return batch * sequence / (cells.number("tokens_per_second_per_gpu") * gpus)
    if cells.states("samples_per_second"):
        return batch / cells.number("samples_per_second")
    speed = _speed(cells, chip)
    if math.isnan(speed):
        raise LeftOutError("neither a time nor a speed is published")
    return counted(cells, model, batch) / (speed * gpus)


def counted(cells: Cells, model: Transformer, batch: int) -> float:
    """FLOPs of a step as the source of a row counts them; an unstated convention is taken for `model_full`."""
    convention = cells.word("flops_convention")
    if convention in ("", "unstated", "model_unstated"):
        cells.assume("flops_convention=model_full")
    if convention == "model_full_ignoring_gqa":
        model = model.replace(kv_heads=model.heads)
    sequence = int(cells.number("sequence"))
    counts = "causal" if convention == "model_causal" else "full"
    if counts == "full" and "N includes" in cells.word("flops_note"):
        counts = "palm"
    flops = model.flops(batch * sequence, counts, sequence=sequence)
    return flops * (RECOMPUTED if _counts_recomputation(cells, convention) else 1.0)


def implies_recomputation(cells: Cells, model: Transformer) -> bool:
    """Whether the FLOPs of a token that rate and time of a source come to are nearer to a full recomputation's.

    >>> from workloads import models
    >>> row = {"sequence": 2048.0, "flops_per_token_implied": 1.438e12}
    >>> implies_recomputation(Cells(row), models.build("gpt3_175b"))
    True
    """
    if not cells.states("flops_per_token_implied", "sequence"):
        return False
    sequence = int(cells.number("sequence"))
    counted_once = model.flops(sequence, "full", sequence=sequence) / sequence
    return cells.number("flops_per_token_implied") > (1.0 + RECOMPUTED) / 2 * counted_once


def _counts_recomputation(cells: Cells, convention: str) -> bool:
    """Whether the figure of a source includes the FLOPs of a full recomputation: by its convention, or being an HFU."""
    only_hfu = cells.states("hfu") and not cells.states("tflops_reported") and not cells.states("mfu")
    return cells.word("recompute") == "full" and (convention.startswith("hardware") or only_hfu)


def _speed(cells: Cells, chip: Accelerator) -> float:
    """FLOP/s of an accelerator: as printed, or by MFU or HFU of the peak that the source used."""
    if cells.states("tflops_reported"):
        return 1e12 * cells.number("tflops_reported")
    peak = 1e12 * cells.number("peak_tflops_used")
    if math.isnan(peak):
        dtype = PRECISIONS[cells.word("precision") or "bf16"].gemm
        peak = chip.peak_flops.get(dtype, math.nan)
        cells.assume("MFU is of the data sheet's peak")
    return peak * cells.number("mfu" if cells.states("mfu") else "hfu")
