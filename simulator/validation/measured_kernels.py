"""Kernels as measured and published, rebuilt as ops that the kernel models can time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from simulator.compute import GEMMS, Roofline
from simulator.kernels import FLASH2, ITEM_BYTES
from simulator.validation import tables
from simulator.validation.tables import COUNT, TIME, LeftOutError, Number, stated
from topologies import Accelerator, accelerators
from workloads.ops import Compute

SOURCE = files("simulator") / "data" / "gemm.csv"
"""Published measurements, each row with its source."""

SHAPE = ("m", "n", "k")
HEADS = ("batch", "sequence", "query_heads", "head_dim_qk", "head_dim_v")
NUMBERS = {
    **dict.fromkeys((*SHAPE, "groups", *HEADS), COUNT),
    "flops_per_second": Number("a speed from 1e6 to 1e18 FLOP/s", 1e6, 1e18),
    "memory_bytes_per_second": Number("a rate from 1e6 to 1e15 B/s", 1e6, 1e15),
    "time_seconds": TIME,
}
COLUMNS = (
    *("series", "quality", "kind", "accelerator", "data_type", "output_type", "accumulate"),
    *("causal", "pass", "implementation", "notes"),
    *NUMBERS,
)

# The one rule of what is left out: vendors' own figures (acceptance baselines are apart); rows whose notes call the
# system abnormal; rows without a time or a speed; accelerators without a data sheet, and data types that it does not
# have; GEMMs without a shape; attention whose batch, length, heads, mask or pass is not stated, or that is not a kernel
# of the model (FlashAttention-1, several kernels that are not fused).
KINDS = {
    **dict.fromkeys(("gemm", "gemm_best_shape", "gemm_acceptance_baseline"), "gemm"),
    **{name: name for name in ("grouped_gemm", "batched_gemm", "attention")},
}
STREAMS = {"hbm_stream_copy": (1, 1), "hbm_stream_triad": (2, 1), "hbm_stream_dot": (2, 0)}
"""Arrays that each kind of memory stream reads and writes."""
APART = {"gemm_best_shape": "best_shape", "gemm_acceptance_baseline": "acceptance"}
"""Kinds that are no ordinary measurements of ordinary shapes: reported, but not counted among the rest."""

IMPLEMENTATIONS = {"FlashAttention-2": FLASH2, "FlashAttention-3": "", "cuDNN": "", "TE/FA": ""}
"""How a row's words for an implementation of attention begin, and the variant of an op; "" is the best there is."""
PASSES = {
    "forward": (("attention", 1.0),),
    "backward": (("attention_backward", 2.5),),
    "forward_and_backward": (("attention", 1.0), ("attention_backward", 2.5)),
}
"""The kernels of a pass, and the FLOPs that sources count for each, in those of a forward (Dao-AILab/flash-attention,
benchmark_flash_attention.py: a backward counts 2.5 times a forward, a causal mask half)."""

OF_PASS: dict[str, Callable[..., tuple[float, float, float]]] = {
    "forward": lambda m, n, k: (m, n, k),
    "backward_input": lambda m, n, k: (m, k, n),
    "backward_weight": lambda m, n, k: (n, k, m),
}
"""Shape of the GEMMs of a grouped layer's passes, of which rows state that of the forward: tokens, outputs, inputs."""

ACCEPTANCE = (8192.0, 8192.0, 8192.0)
"""What an acceptance baseline, which states no shape, is taken for."""
STREAM_BYTES = 2.0**30
"""Of one array of a memory stream, whose size is not stated: far beyond any cache."""


@dataclass(frozen=True, slots=True)
class Case:
    """A measured kernel, rebuilt: its ops, one after the other, on an accelerator; its source counts `flops`."""

    row: int
    series: str
    kind: str
    accelerator: Accelerator
    ops: tuple[Compute, ...]
    flops: float
    measured: float

    def seconds(self, roofline: Roofline, clock: float = 1.0) -> float:
        """What a model makes of it; GEMMs run at a share of the clock behind the accelerator's peaks."""
        chip = self.accelerator
        if clock != 1.0 and self.is_gemm:
            chip = replace(chip, peak_flops={dtype: peak * clock for dtype, peak in chip.peak_flops.items()})
        return sum(roofline.seconds(op, chip) for op in self.ops)

    @property
    def is_gemm(self) -> bool:
        """Whether it is a GEMM of any kind."""
        return self.ops[0].kind in GEMMS


def read(path: str | Path | None = None) -> pd.DataFrame:
    """Measurements from a file with the columns of the package's own, or those."""
    return tables.read(path, SOURCE, COLUMNS, NUMBERS)


def cases(frame: pd.DataFrame) -> tuple[list[Case], dict[int, str]]:
    """The rows that can be compared, and why each other one is left out."""
    return tables.cases(frame, case)


def case(number: int, row: dict[str, Any]) -> Case:
    """The kernel of a row; LeftOutError with the reason where it cannot or must not be compared."""
    tables.check_normal(str(row["notes"]))
    if row["kind"] not in APART:
        tables.check_quality(row)
    if row["kind"] not in KINDS and row["kind"] not in STREAMS:
        raise LeftOutError(f"no such kernel is modelled ({row['kind']})")
    chip = _chip(str(row["accelerator"]))
    if row["kind"] in STREAMS:
        ops, flops, amount = _stream(row["kind"]), 0.0, STREAM_BYTES * sum(STREAMS[row["kind"]])
        rate = row["memory_bytes_per_second"]
    else:
        ops, flops = _attention(row, chip) if row["kind"] == "attention" else _gemm(row, chip)
        amount, rate = flops, row["flops_per_second"]
    timed = stated(row["time_seconds"]) and row["kind"] not in STREAMS
    if not timed and not stated(rate):
        raise LeftOutError("no time and no speed published")
    measured = row["time_seconds"] if timed else amount / rate
    return Case(number, row["series"], row["kind"], chip, ops, flops, float(measured))


def _chip(name: str) -> Accelerator:
    """The accelerator of a row."""
    try:
        return accelerators.build(name)
    except ValueError:
        raise LeftOutError(f"no data sheet of this accelerator is known ({name})") from None


def _dtype(row: dict[str, Any], chip: Accelerator) -> str:
    """The data type of a row, the first where one figure stands for two."""
    dtype = str(row["data_type"]).partition("/")[0]
    if dtype not in ITEM_BYTES or dtype not in chip.peak_flops:
        raise LeftOutError(f"no peak of this data type is known ({row['data_type']} on {chip.name})")
    return dtype


def _gemm(row: dict[str, Any], chip: Accelerator) -> tuple[tuple[Compute, ...], float]:
    """A GEMM, which reads both factors, and the result where it adds to it, and writes the result."""
    dtype, kind = _dtype(row, chip), KINDS[row["kind"]]
    m, n, k = ACCEPTANCE if row["kind"] == "gemm_acceptance_baseline" else (row[name] for name in SHAPE)
    if not stated(m, n, k):
        raise LeftOutError("the shape of a GEMM is not stated")
    if kind == "grouped_gemm":
        m, n, k = OF_PASS.get(row["pass"], OF_PASS["forward"])(m, n, k)
    groups = row["groups"] if stated(row["groups"]) else 1.0
    item = ITEM_BYTES[dtype]
    written = groups * m * n * (4.0 if row["output_type"] == "fp32" else max(item, 2.0))
    adds = str(row["accumulate"]).lower() in ("true", "yes")
    flops = 2.0 * groups * m * n * k
    op = Compute(
        name="kernel",
        kind=kind,
        flops=flops,
        read_bytes=groups * (m * k + k * n) * item + (written if adds else 0.0),
        write_bytes=written,
        dtype=dtype,
        shape=(m, n, k) if kind == "gemm" else (groups, m, n, k),
    )
    return (op,), flops


def _attention(row: dict[str, Any], chip: Accelerator) -> tuple[tuple[Compute, ...], float]:
    """Fused attention, and its FLOPs as sources count them: a backward has 2 forwards for the model, 2.5 for them."""
    dtype = _dtype(row, chip)
    words = str(row["implementation"])
    variant = next((ours for theirs, ours in IMPLEMENTATIONS.items() if words.startswith(theirs)), None)
    if variant is None:
        raise LeftOutError(f"no such implementation of attention is modelled ({words})")
    batch, sequence, heads, wide, narrow = (row[name] for name in HEADS)
    if not stated(batch, sequence, heads, wide, narrow) or row["causal"] not in ("yes", "no"):
        raise LeftOutError("the batch, the length, the heads or the mask of attention is not stated")
    if row["pass"] not in PASSES:
        raise LeftOutError("the pass of attention is not stated")
    tokens, width = batch * sequence, (wide + narrow) / 2.0
    forward = 4.0 * tokens * sequence * heads * width * (0.5 if row["causal"] == "yes" else 1.0)
    matrix = tokens * heads * width * ITEM_BYTES[dtype]
    ops = [
        Compute(
            name=kind,
            kind=kind,
            flops=forward * (1.0 if kind == "attention" else 2.0),
            read_bytes=matrix * (3.0 if kind == "attention" else 5.0),
            write_bytes=matrix * (1.0 if kind == "attention" else 3.0),
            dtype=dtype,
            shape=(tokens, sequence, heads, width),
            variant=variant,
        )
        for kind, _ in PASSES[row["pass"]]
    ]
    return tuple(ops), forward * sum(counted for _, counted in PASSES[row["pass"]])


def _stream(kind: str) -> tuple[Compute, ...]:
    read, written = STREAMS[kind]
    return (Compute(name=kind, kind="elementwise", read_bytes=read * STREAM_BYTES, write_bytes=written * STREAM_BYTES),)


def assumed(case: Case, row: dict[str, Any]) -> Iterator[str]:
    """What a row leaves open, and how it was taken."""
    if "/" in str(row["data_type"]):
        yield f"{row['data_type']} is {case.ops[0].dtype}"
    if row["kind"] == "gemm_acceptance_baseline":
        yield "the shape is 8192 x 8192 x 8192"
    if row["kind"] in STREAMS:
        yield "arrays are 1 GiB"
    if row["kind"] == "attention" and row["head_dim_qk"] != row["head_dim_v"]:
        yield "heads are as wide as queries and values on average"
