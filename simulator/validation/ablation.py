"""What each effect of the model is worth: switched off, and the constants fitted anew without it.

python -m simulator.validation.ablation --out ablation.csv

Fitted to calibration runs (dense, tier 1), and told on those and on public validation. Assumes in fitting anew that log
times are linear in the logarithms of constants, with the slopes that the whole model has at the constants given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from simulator.compute import ATTENTIONS, GEMMS, MEMORY_BOUND
from simulator.constants import Key
from simulator.demand import Floats
from simulator.kernel_files import chosen
from simulator.kernels import Constants, published
from simulator.outputs import check_writable
from simulator.runs import COMPUTE
from simulator.validation import report
from simulator.validation.calibration import CLASS, SPLIT, Model, measured_rows
from simulator.validation.calibration_priors import prior
from simulator.validation.published_runs import Case, cases, kind, read
from simulator.validation.run_times import WORKERS, Change, RunTimes, Values, run_times, unchanged
from workloads.ops import P2P, Collective, Compute, Op

VALIDATION = "public_validation"
OUTSIDE_DATA = ("tp", "pp", "cp", "ep")
"""Axes along which ranks hold different parts of a model; along all others they hold the same."""
REFITS = 50
"""Evaluations of a linear model, which cost nothing."""


@dataclass(frozen=True, slots=True)
class Effect:
    """How an effect is switched off: by constants of training of these names, by kernels, or by other ops."""

    constants: Mapping[str, float] | None = None
    kernel: Change = unchanged
    change: Change = unchanged

    def values(self, values: Values) -> dict[Key, float]:
        """Constants without it."""
        off = self.constants or {}
        given = {("training", "other", name): value for name, value in off.items()}
        return {key: off.get(key[2], value) if key[0] == "training" else value for key, value in values.items()} | given


def idle(op: Compute) -> Op:
    """A kernel that is launched for nothing."""
    return replace(op, kind="elementwise", flops=0.0, read_bytes=0.0, write_bytes=0.0, shape=())


def without_recompute(op: Op) -> Op:
    """Nothing is computed twice, though what is kept for it and its collectives stay."""
    return idle(op) if isinstance(op, Compute) and op.recompute else op


def without_attention(op: Op) -> Op:
    """The core of attention, fused or not, takes no time."""
    return idle(op) if isinstance(op, Compute) and _of_attention(op) else op


def _of_attention(op: Compute) -> bool:
    return op.kind in ATTENTIONS or ".attention." in op.name


def without_elementwise(op: Op) -> Op:
    """Kernels bound by memory, but for attention's, the loss and the optimizer, take no time."""
    kinds = set(MEMORY_BOUND) - {"loss", "optimizer"}
    return idle(op) if isinstance(op, Compute) and op.kind in kinds and not _of_attention(op) else op


def without_loss(op: Op) -> Op:
    """Logits and the loss take no time."""
    return idle(op) if isinstance(op, Compute) and (op.kind == "loss" or ".logits" in op.name) else op


def without_optimizer(op: Op) -> Op:
    """The optimizer's update takes no time."""
    return idle(op) if isinstance(op, Compute) and op.kind == "optimizer" else op


def without_shapes(op: Op) -> Op:
    """GEMMs of any shape reach the share of large ones."""
    return replace(op, shape=()) if isinstance(op, Compute) and op.kind in GEMMS else op


def _of_data(op: Op) -> bool:
    return isinstance(op, Collective) and any(axis not in OUTSIDE_DATA for axis in op.axes)


def _of_tensor(op: Op) -> bool:
    return isinstance(op, Collective) and op.axes == ("tp",)


def without_data_traffic(op: Op) -> Op:
    """Data parallel collectives carry nothing."""
    return replace(op, bytes=0.0) if isinstance(op, Collective) and _of_data(op) else op


def without_data_overlap(op: Op) -> Op:
    """Nothing is computed while data parallel collectives run."""
    return replace(op, stream=COMPUTE) if _of_data(op) else op


def without_tensor_traffic(op: Op) -> Op:
    """Tensor parallel collectives carry nothing."""
    return replace(op, bytes=0.0) if isinstance(op, Collective) and _of_tensor(op) else op


def without_tensor_overlap(op: Op) -> Op:
    """Nothing is computed while tensor parallel collectives run."""
    return replace(op, stream=COMPUTE) if _of_tensor(op) else op


def without_messages(op: Op) -> Op:
    """Messages between stages carry nothing."""
    return replace(op, bytes=0.0) if isinstance(op, P2P) else op


EFFECTS = {
    "recompute": Effect(kernel=without_recompute),
    "attention core": Effect(kernel=without_attention),
    "elementwise traffic": Effect(kernel=without_elementwise),
    "logits and loss": Effect(kernel=without_loss),
    "optimizer": Effect(kernel=without_optimizer),
    "shapes of GEMMs": Effect(kernel=without_shapes),
    "data parallel traffic": Effect(change=without_data_traffic),
    "data parallel overlap": Effect(change=without_data_overlap),
    "tensor parallel traffic": Effect(change=without_tensor_traffic),
    "tensor parallel overlap": Effect(change=without_tensor_overlap),
    "messages of pipelines": Effect(change=without_messages),
    "launch": Effect({"launch_interval": 0.0}),
    "jitter": Effect({"jitter": 0.0}),
    "seconds between steps": Effect({"step_seconds": 0.0}),
    "sustained clocks": Effect({"clock": 1.0, "attention_clock": 1.0, "memory": 1.0}),
    "speed of stacks": Effect({"kernel_share": 1.0}),
}
"""What can be switched off."""


def ablate(
    *,
    effects: Sequence[str] = tuple(EFFECTS),
    every: int = 1,
    constants: Constants | None = None,
    workers: int = WORKERS,
    progress: bool = False,
) -> pd.DataFrame:
    """A row for the whole model and for each effect: weighted errors without it, before and after fitting anew.

    Of the package's runs only each `every`-th counts.
    """
    from topologies.plugins import unknown

    for name in effects:
        if name not in EFFECTS:
            raise ValueError(unknown("effect", name, EFFECTS))
    if every < 1:
        raise ValueError(f"every={every}; of the runs, each, or each second, and so on")
    rows, found = _rows(every)
    with run_times(found, workers, progress=progress) as times:
        return table(times, rows, (constants or published()).values, effects)


def table(times: RunTimes, rows: pd.DataFrame, values: Values, effects: Sequence[str]) -> pd.DataFrame:
    """The table of effects over runs that have `measured` seconds, a `series` and a `split`."""
    base = times(values)
    usable = np.isfinite(base)
    rows = rows[usable].reset_index(drop=True)
    priors = {key: found for key, value in values.items() if value and (found := prior(key)) is not None}
    whole = Model(lambda each: times(each)[usable], rows, values, priors)
    slopes = dict(zip(priors, whole.slopes(whole.start).T, strict=True))
    lines = [_line("nothing", rows, base[usable], slopes, values)]
    for name in effects:
        effect = EFFECTS[name]
        without = times(effect.values(values), effect.change, effect.kernel)[usable]
        left = {key: slope for key, slope in slopes.items() if key[2] not in (effect.constants or {})}
        lines.append(_line(name, rows, without, left, values))
    return pd.DataFrame(lines)


def _line(
    name: str, rows: pd.DataFrame, predicted: Floats, slopes: Mapping[Key, Floats], values: Values
) -> dict[str, Any]:
    """Errors by split, as the constants are and fitted anew to the calibration runs."""
    calib = (rows["split"] == SPLIT).to_numpy()
    refitted = predicted * np.exp(_refit(rows, predicted, slopes, values, calib))
    line: dict[str, Any] = {"without": name}
    for words, times in (("as_is", predicted), ("refitted", refitted)):
        for split, mine in ((SPLIT, calib), (VALIDATION, ~calib)):
            block = report.block(rows[mine].assign(predicted=times[mine]))
            line |= {f"{split}_{words}": block["wmape"], f"{split}_{words}_bias": block["bias"]}
    return line


def _refit(
    rows: pd.DataFrame, predicted: Floats, slopes: Mapping[Key, Floats], values: Values, calib: "np.ndarray"
) -> Floats:
    """How log times of all rows change when constants are fitted anew to some, by their slopes."""

    def change(found: Values) -> Floats:
        steps = (slope * np.log(found[key] / values[key]) for key, slope in slopes.items())
        return np.asarray(sum(steps, np.zeros(len(rows))))

    priors = {key: found for key in slopes if (found := prior(key)) is not None}
    model = Model(lambda found: (predicted * np.exp(change(found)))[calib], rows[calib], values, priors)
    return change(model.values(model.fit(REFITS)))


def _rows(every: int) -> tuple[pd.DataFrame, list[Case]]:
    """The runs that are fitted and those of public validation, dense and tier 1."""
    frame = read()
    records = [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
    splits = (SPLIT, VALIDATION)
    mine = [
        case for case in cases(frame)[0] if records[case.row]["split"] in splits and kind(records[case.row]) == CLASS
    ][::every]
    return measured_rows(frame, mine), mine


def text(found: pd.DataFrame) -> str:
    """The table in words: mean errors where a recipe weighs 1, and the bias of unseen runs."""
    columns = [f"{split}_{words}" for words in ("as_is", "refitted") for split in (SPLIT, VALIDATION)]
    lines = [f"{'without':<26} {'as is:':>7} {'unseen':>7} {'refit:':>7} {'unseen':>7} {'bias':>7}"]
    for row in found.to_dict("records"):
        bias = row[f"{VALIDATION}_refitted_bias"]
        shown = [_percent(row[column]) for column in columns] + [_percent(bias, "+")]
        lines.append(f"{row['without']:<26} " + " ".join(f"{each:>7}" for each in shown))
    return "\n".join(lines)


def _percent(error: float | None, sign: str = "") -> str:
    return "-" if error is None else f"{error:{sign}.1%}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and write it to a file if one is named."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m simulator.validation.ablation", description=ablate.__doc__)
    parser.add_argument("--out", help="Write the table to this CSV file.")
    parser.add_argument("--every", type=int, default=1, help="Only each so manieth run.")
    parser.add_argument("--constants", help="Constants other than the published ones, as a YAML file.")
    given = parser.parse_args(arguments)
    check_writable(given.out)
    found = ablate(every=given.every, constants=chosen(given.constants), progress=True)
    if given.out is not None:
        found.to_csv(given.out, index=False)
    print(text(found))  # noqa: T201


if __name__ == "__main__":
    main()
