"""A result in words: the table that is printed, and the same in HTML."""

import html as markup
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulator.placements import words
from topologies.units import GIGA, MICRO, MILLI, TERA

if TYPE_CHECKING:
    from simulator.result import Result

Row = tuple[str, str]
LEFT = "style='text-align:left'"


def text(result: "Result") -> str:
    """The summary as aligned lines."""
    rows = list(_rows(result))
    width = max(len(name) for name, _ in rows)
    return "\n".join([result.title, *(f"  {name:<{width}}  {value}" for name, value in rows)])


def html(result: "Result") -> str:
    """The summary as an HTML table."""
    cells = (
        f"<tr><th {LEFT}>{markup.escape(name)}</th><td {LEFT}>{markup.escape(value)}</td></tr>"
        for name, value in _rows(result)
    )
    return f"<table><caption>{markup.escape(result.title)}</caption>{''.join(cells)}</table>"


def seconds(value: float) -> str:
    """A time in a unit that suits it.

    >>> seconds(5.5), seconds(0.0123), seconds(4e-6), seconds(0.0)
    ('5.500 s', '12.300 ms', '4.000 µs', '0 s')
    """
    if not value:
        return "0 s"
    for unit, name in ((1.0, "s"), (MILLI, "ms")):
        if value >= unit:
            return f"{value / unit:.3f} {name}"
    return f"{value / MICRO:.3f} µs"


def verdict(result: "Result") -> str:
    """Whether memory suffices; if not, which row is the largest and the nearest change that fits."""
    over = [size - usable for size, usable in zip(result.reserved, result.usable_memory, strict=True)]
    worst = over.index(max(over))
    rank, rows = result.timeline.quotient.rank_classes[worst].rank, result.memory[worst]
    sizes = f"{_gigabytes(sum(rows.values()))} ({_gigabytes(result.reserved[worst])} reserved)"
    budget = f"{sizes} of {_gigabytes(result.usable_memory[worst])} on rank {rank}"
    if over[worst] <= 0:
        return f"{budget}: fits"
    row, size = max(rows.items(), key=lambda item: item[1])
    parts = [f"{budget}: does not fit", f"the largest row is {row}, {_gigabytes(size)}"]
    remedy = result.remedy
    if remedy is not None:
        parts.append(str(remedy))
    return "; ".join(parts)


def _gigabytes(size: float) -> str:
    return f"{size / GIGA:.1f} GB"


def _rows(result: "Result") -> Iterator[Row]:
    yield "step time", seconds(result.step_time)
    yield "ranks", f"{result.topology.size:,} in {result.rank_classes} class{'es' * (result.rank_classes != 1)}"
    if result.program.tokens:
        each = result.tokens_per_second / result.topology.size
        yield "tokens/s", f"{result.tokens_per_second:,.0f} ({each:,.1f} per accelerator)"
    if result.program.model_flops:
        rate = result.flops_per_accelerator / TERA
        yield (
            "MFU",
            f"{result.mfu:.1%}, {_grade(result.mfu)} ({rate:.0f} TFLOP/s, {result.program.convention} attention)",
        )
        if result.program.recompute_flops:
            yield "HFU", f"{result.hfu:.1%}"
    yield "bubble", f"{result.bubble_fraction:.1%} of the pipeline phase"
    for name, value in result.mean_seconds.items():
        label = name.removesuffix("_seconds").replace("exposed_", "exposed ")
        yield f"· {label}", f"{seconds(value)} ({value / result.step_time if result.step_time else 0.0:.1%})"
    if any(math.isfinite(each.narrowest) for each in result.places):
        yield "placement", words(result.places)
    if any(result.memory):
        yield "memory", verdict(result)
    if result.offloaded_memory:
        yield "offloaded", f"{_gigabytes(result.offloaded_memory)} on the fullest host"
    for warning in result.warnings:
        yield "warning", warning


def _grade(mfu: float) -> str:
    """MFU above 30 % is good, above 40 % excellent."""
    return "excellent" if mfu > 0.4 else "good" if mfu > 0.3 else "low"
