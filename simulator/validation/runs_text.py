"""The report on published runs in words."""

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.validation import report


def text(summary: Mapping[str, Any]) -> str:
    """Errors by split, class and group, every row alike; recipes weighing the same; then memory, order and scaling."""
    tables = [{"all rows but context": summary}]
    for name, split in summary["splits"].items():
        classes = {f"  {each}": block for each, block in split["classes"].items() if block["rows"]}
        groups = {f"    {each}": block for each, block in split["groups"].items() if block["rows"]}
        tables.append({name: split, **classes, **groups})
    return "\n".join([report.text(tables, summary), "", *_weighted(summary), "", *_beside(summary)])


def _weighted(summary: Mapping[str, Any]) -> Iterator[str]:
    """The errors in which every recipe weighs the same, beside those of a guess."""
    yield "recipes weighing the same: mean absolute error, bias; a guess by constant MFU"
    for name, split in summary["splits"].items():
        for each, block in split["classes"].items():
            if block["rows"]:
                guess = summary["baseline"]["splits"][name]["classes"][each]
                yield f"  {name} {each}: {block['wmape']:.1%}, {block['bias']:+.1%}; {guess['wmape']:.1%}"


def _beside(summary: Mapping[str, Any]) -> Iterator[str]:
    left = summary["dense_left_out"]
    yield (
        f"dense rows left out: {left['context_parallel']} that need context parallelism, {left['others']} others "
        f"({left['share']:.1%})"
    )
    memory = summary["memory"]
    if memory["rows"]:
        yield (
            f"peak memory of {memory['rows']} rows: median error {memory['median_ape']:.1%}, bias "
            f"{memory['bias']:+.1%}, {memory['under']} lower by more than 15 %, "
            f"{memory['unexplained']} of them without a known reason"
        )
    yield "by software stack: mean error, bias; rows; sources that it serves"
    for name, each in summary["stacks"].items():
        yield f"  {name}: {each['wmape']:.1%}, {each['bias']:+.1%}; {each['rows']}; {each['sources']}"
    yield "pairs of a group more than 3 % apart that are ordered rightly:"
    for name, each in summary["ranking"].items():
        if each["pairs"]:
            yield f"  {name}: {each['share']:.1%} of {each['pairs']}"
    scaling = summary["scaling"]
    if scaling["curves"]:
        deviation = scaling["median_largest_deviation"]
        yield f"{scaling['curves']} curves of scaling: largest deviation {deviation:.1%} (median)"
