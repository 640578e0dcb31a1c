"""Schedules as text: a line of actions for each rank, as PyTorch's pipelining writes them to CSV files."""

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from workloads.schedule import Action, Schedule

SINGLE = re.compile(r"(\d+)([FBIW])(\d+)")
PAIR = re.compile(r"\((\d+[FBIW]\d+);(\d+[FBIW]\d+)\)(?:OVERLAP_F_B)?")


def read_action(text: str) -> Action:
    """An action as `str` writes it, or an overlapped pair of two.

    >>> read_action("3F7"), str(read_action("(0F7;7B3)"))
    (Action(stage=3, kind='F', microbatch=7, parts=()), '(0F7;7B3)')
    """
    if found := SINGLE.fullmatch(text):
        stage, kind, microbatch = found.groups()
        return Action(int(stage), kind, int(microbatch))
    if found := PAIR.fullmatch(text):
        return Action.pair(*map(read_action, found.groups()))
    raise ValueError(f"{text!r} is no action such as 3F7 (stage 3, forward, microbatch 7) or a pair such as (0F7;7B3)")


def from_orders(
    name: str, lines: Sequence[Iterable[str]], chains: Sequence[Sequence[int]] = (), weights: Sequence[int] = ()
) -> Schedule:
    """A schedule from the actions of each rank as text; stages are where they are run.

    >>> print(from_orders("mine", [["0F0", "0B0"], ["1F0", "1B0"]]))
    mine: ranks=2 stages=2 microbatches=1
    rank 0  0F0  .   .  0B0
    rank 1   .  1F0 1B0
    """
    orders = {rank: tuple(map(read_action, line)) for rank, line in enumerate(lines)}
    places = {each.stage: rank for rank, order in orders.items() for action in order for each in action.singles}
    missing = next((stage for stage in range(len(places)) if stage not in places), None)
    if missing is not None or not places:
        raise ValueError(f"{name}: nothing runs stage {missing or 0}; stages are numbered from 0")
    placement = tuple(places[stage] for stage in range(len(places)))
    return Schedule(name, orders, placement, tuple(weights), tuple(map(tuple, chains)))


def load(path: str | Path, chains: int = 1) -> Schedule:
    """A schedule from a CSV file with a row for each rank and an action in each cell; empty cells are skipped.

    The stages are cut into `chains` equal parts, each of which microbatches pass by themselves, with the weights of
    the first one: 2 for DualPipe.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            rows = ([cell.strip() for cell in row if cell.strip()] for row in csv.reader(file))
            lines = [row for row in rows if row]
        return from_orders(Path(path).stem, lines, *_chained(lines, chains))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _chained(lines: Sequence[Sequence[str]], chains: int) -> tuple[list[range], list[int]]:
    """Equal chains of the stages in some lines, and their weight sets."""
    actions = [single for line in lines for text in line for single in read_action(text).singles]
    stages = 1 + max((action.stage for action in actions), default=0)
    if chains < 1 or stages % chains:
        raise ValueError(f"{stages} stages cannot be cut into chains={chains} equal parts")
    each = stages // chains
    return [range(start, start + each) for start in range(0, stages, each)], [*range(each)] * chains


def save(schedule: Schedule, path: str | Path) -> None:
    """Write a schedule to a CSV file that `load` reads again, given how many chains it has if there are several."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(map(str, order) for order in schedule.orders.values())
