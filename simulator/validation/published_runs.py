"""Training runs as measured and published, rebuilt as steps and clusters that can be simulated."""

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

import topologies
from simulator.remedies import fullest
from simulator.validation import (
    published_clusters,
    published_memory,
    published_models,
    published_plans,
    published_stacks,
    tables,
)
from simulator.validation.published_cells import Cells
from simulator.validation.published_times import is_direct, measured
from simulator.validation.tables import COUNT, TIME, LeftOutError, Number
from topologies import Accelerator, Topology, accelerators
from workloads import TrainingStep, Transformer
from workloads.precision import PRECISIONS

SOURCE = files("simulator") / "data" / "runs.csv"
"""Published runs, each row with its source."""

DIMENSIONS = ("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "head_dim", "vocabulary")
DEGREES = ("tp", "pp", "vpp", "cp", "shard_group", "microbatch", "microbatches", "batch", "sequence")
RATE = Number("a rate from 1e-6 to 1e18", 1e-6, 1e18)
SHARE = Number("a share from 1e-6 to 1", 1e-6, 1)
NUMBERS = {
    **dict.fromkeys((*DIMENSIONS, *DEGREES, "gpus"), COUNT),
    **dict.fromkeys(("step_time_seconds", "step_time_seconds_derived"), TIME),
    **dict.fromkeys(("tokens_per_second_per_gpu", "samples_per_second", "tflops_reported", "peak_tflops_used"), RATE),
    **dict.fromkeys(("mfu", "hfu"), SHARE),
    **dict.fromkeys(("network_bytes_per_second_per_gpu", "flops_per_token_implied", "peak_memory_bytes"), RATE),
}
COLUMNS = (
    *("id", "split", "recipe", "group", "source", "reference", "model", "gated_mlp", "moe", "accelerator"),
    *("accelerator_as_published", "dp", "sharding", "sharding_note", "schedule", "recompute", "recompute_note"),
    *("precision", "sequence_parallel", "overlap_tp", "overlap_pp", "overlap_dp", "flops_convention", "flops_note"),
    *("notes", *NUMBERS),
)

MICROBATCHES_A_STAGE = 8
"""Microbatches of a pipeline for each of its stages where no batch is published."""


@dataclass(frozen=True, slots=True)
class Case:
    """A published run, rebuilt: the step, given by its model, its plan and other `arguments`; the text of a cluster.

    `measured` is in seconds, and so are `flops`: the model's, over the peak of all accelerators. `memory` says what a
    published peak of memory counts.
    """

    row: int
    model: Transformer
    plan: str
    arguments: tuple[tuple[str, Any], ...]
    stack: str
    topology: str
    measured: float
    flops: float
    assumed: tuple[str, ...]
    memory: str = published_memory.UNSTATED

    def step(self) -> TrainingStep:
        """What to simulate."""
        given = dict(self.arguments)
        return TrainingStep(self.model, self.plan, **given, stack=self.stack)

    def cluster(self) -> Topology:
        """Where to simulate it; runs of one cluster share it while each process keeps it among its latest ones."""
        return _built(self.topology)

    @property
    def key(self) -> tuple[Any, ...]:
        """What a prediction depends on; runs that were repeated have one."""
        return self.model, self.plan, self.arguments, self.stack, self.topology, self.memory


@lru_cache(maxsize=16)
def _built(text: str) -> Topology:
    return topologies.build(text)


def read(path: str | Path | None = None) -> pd.DataFrame:
    """Runs from a file with the columns of the package's own, or those."""
    return tables.read(path, SOURCE, COLUMNS, NUMBERS)


def cases(frame: pd.DataFrame) -> tuple[list[Case], dict[int, str]]:
    """The rows that can be compared, and why each other one is left out."""
    return tables.cases(frame, case)


def case(number: int, row: dict[str, Any]) -> Case:
    """The run of a row; LeftOutError with the reason where it cannot be compared."""
    cells = Cells(row)
    stack = published_stacks.stack(cells)
    model = _model(cells, stack)
    plan = published_plans.plan(cells, stack)
    arguments = _arguments(cells, model)
    topology = published_clusters.topology(cells)
    chip = accelerators.build(cells.word("accelerator"))
    if _chooses_microbatch(cells):
        try:
            arguments["microbatch"] = _largest_microbatch(TrainingStep(model, plan, **arguments, stack=stack), chip)
        except ValueError as error:
            raise LeftOutError(f"no such step: {error}") from None
        cells.assume(f"microbatch={arguments['microbatch']}, the largest that fits")
    seconds = measured(cells, model, arguments["batch"], chip)
    flops = _flops(cells, model, arguments, chip)
    counted = published_memory.counted(cells)
    assumed = tuple(cells.assumed)
    return Case(number, model, plan, tuple(arguments.items()), stack, topology, seconds, flops, assumed, counted)


def _model(cells: Cells, stack: str) -> Transformer:
    """The model, if its dimensions go together."""
    try:
        return published_models.model(cells, stack)
    except LeftOutError:
        raise
    except ValueError as error:
        raise LeftOutError(f"no such model: {error}") from None


def _flops(cells: Cells, model: Transformer, arguments: dict[str, Any], chip: Accelerator) -> float:
    """The seconds that a step's model FLOPs take at the peak of all accelerators."""
    tokens = arguments["batch"] * arguments["sequence"]
    peak = chip.peak_flops.get(PRECISIONS[arguments["precision"]].gemm)
    if peak is None:
        raise LeftOutError(f"no peak of this data type is known ({arguments['precision']} on {chip.name})")
    return model.flops(tokens, "causal", sequence=arguments["sequence"]) / (peak * cells.number("gpus"))


def _arguments(cells: Cells, model: Transformer) -> dict[str, Any]:
    """What a step takes beside model, plan and stack."""
    _, pp, dp = published_plans.degrees(cells)
    microbatch = _microbatch(cells, dp)
    if not cells.states("sequence"):
        raise LeftOutError("the length of sequences is not published")
    precision = cells.told("precision", "bf16")
    if precision not in PRECISIONS:
        raise LeftOutError(f"no such precision is modelled ({precision})")
    return {
        "batch": cells.count("batch", MICROBATCHES_A_STAGE * pp * dp * microbatch),
        "sequence": int(cells.number("sequence")),
        "microbatch": microbatch,
        "precision": precision,
        "recompute": published_plans.recompute(cells, model),
    }


def _microbatch(cells: Cells, dp: int) -> int:
    """Sequences of a pipeline's microbatch. Where the microbatches printed need larger ones, they decide.

    Sources that split a sequence batch by device, as MaxText's `per_device_batch_size`, print a microbatch of each
    device: that of a pipeline is as many times larger as there are tensor parallel ranks.
    """
    microbatch = 1 if _chooses_microbatch(cells) else cells.count("microbatch", 1)
    if not cells.states("microbatches", "batch"):
        return microbatch
    needed, rest = divmod(int(cells.number("batch")), dp * int(cells.number("microbatches")))
    if rest or needed <= microbatch:
        return microbatch
    cells.assume(f"microbatch={needed} for microbatches={cells.number('microbatches'):g}")
    return needed


def _chooses_microbatch(cells: Cells) -> bool:
    """Whether a row leaves the microbatch open and has no pipeline, which alone would want it small."""
    _, pp, _ = published_plans.degrees(cells)
    return pp == 1 and cells.states("batch") and not (cells.states("microbatch") or cells.states("microbatches"))


def _largest_microbatch(step: TrainingStep, chip: Accelerator) -> int:
    """The largest microbatch with which a step fits: kernels are larger, and gradients travel beside more work.

    arXiv:2104.04473 chose so too, table 1: without a pipeline 16 of 16 and 8 of 32 sequences of a replica.
    """
    sequences = step.microbatches
    for size in (each for each in range(sequences, 1, -1) if sequences % each == 0):
        if fullest(step.replace(microbatch=size)) <= chip.usable_memory_bytes:
            return size
    return 1


def tier(row: dict[str, Any]) -> int:
    """1 where a source printed what a prediction needs most, else 2.

    That is the batch, the microbatch, tensor and pipeline parallel degrees, virtual stages where there is a pipeline,
    and a time or a throughput.
    """
    cells = Cells(row)
    printed = cells.states("batch", "microbatch", "tp", "pp") and (cells.number("pp") == 1 or cells.states("vpp"))
    return 1 if printed and is_direct(cells) else 2


def kind(row: dict[str, Any]) -> str:
    """The class of a row: `dense_tier1`, `dense_tier2`, `moe_tier1`, `moe_tier2`."""
    return f"{'dense' if Cells(row).word('moe') == 'no' else 'moe'}_tier{tier(row)}"
