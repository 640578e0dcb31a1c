"""Step times of many published runs as a function of the constants of kernels, over and over.

A run's program, cluster and symmetry classes do not depend on constants, so each process keeps those of its runs; other
constants cost no more than a replay, and nothing where no kernel of a run takes longer with them.
"""

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import numpy as np
from tqdm import tqdm

import topologies
from simulator.compute import Roofline
from simulator.constants import Key
from simulator.deadlock import DeadlockError
from simulator.demand import Floats
from simulator.kernels import Constants
from simulator.replay import ReplayOptions, of_program
from simulator.simulation import run
from simulator.validation.published_runs import Case
from topologies import Topology
from workloads.ops import Compute, Op
from workloads.program import Block, Program

Values = Mapping[Key, float]
Change = Callable[[Op], Op]
"""What an effect makes of each op of a program."""
OPTIONS = ReplayOptions(detail="actions")
WORKERS = 2


def unchanged(op: Op) -> Op:
    """An op as it is."""
    return op


@dataclasses.dataclass(frozen=True)
class Changed(Roofline):
    """A roofline for kernels that are no longer what their program says."""

    change: Change = unchanged

    def seconds(self, op: Compute, accelerator: topologies.Accelerator) -> float:
        """Time of what a change makes of a kernel."""
        return super().seconds(cast(Compute, self.change(op)), accelerator)


class Rerun:
    """A program on a topology, timed again and again; `change` alters ops other than kernels, once."""

    def __init__(self, program: Program, topology: Topology, change: Change = unchanged) -> None:
        self.program = program if change is unchanged else altered(program, change)
        self.topology = topology
        chips = dict.fromkeys(topology.accelerators)
        ops = (op for block in self.program.blocks.values() for op in block.ops if isinstance(op, Compute))
        kernels = dict.fromkeys(dataclasses.replace(op, name=re.sub(r"\d+", "", op.name), after=()) for op in ops)
        self._kernels = [(op, chip) for op in kernels for chip in chips]
        self._chips = list(chips)
        self._known: dict[tuple[Any, ...], float] = {}

    def seconds(self, constants: Constants, kernel: Change = unchanged) -> float:
        """The step's time with some constants, and with kernels as a change leaves them."""
        roofline = Changed(sustained=True, constants=constants, change=kernel)
        first, told = self._told(roofline)
        if told not in self._known:
            timeline, _ = run(self.program, self.topology, roofline, OPTIONS, fold=True)
            self._known[told] = timeline.end - first
            for whole in self.program.cache.values():
                whole.cache.clear()
        return first + self._known[told]

    def _told(self, roofline: Roofline) -> tuple[float, tuple[Any, ...]]:
        """When the first host begins, and all else that constants tell a replay.

        That is how long each kernel takes, how often hosts launch one, and how much later than the first they begin.
        """
        mine = cast(Roofline, of_program(roofline, self.program))
        hosts = [mine.training(chip) for chip in self._chips]
        first = hosts[0].step_seconds
        launches = ((each.step_seconds - first, each.launch_interval) for each in hosts)
        return first, (*launches, *(mine.seconds(op, chip) for op, chip in self._kernels))


def altered(program: Program, change: Change) -> Program:
    """A program with other ops in its blocks."""
    blocks = {key: Block(tuple(map(change, block.ops)), block.beside) for key, block in program.blocks.items()}
    return dataclasses.replace(program, blocks=blocks, cache={})


@cache
def _kept(case: Case) -> Rerun | str:
    """A case ready to be timed in this process, or why it cannot be."""
    try:
        rerun = Rerun(case.step().program(), case.cluster())
    except (ValueError, DeadlockError) as error:
        return " ".join(str(error).split())
    return rerun


def _times(cases: Sequence[Case], values: Values, change: Change, kernel: Change) -> list[float]:
    """Times of a process's cases; undefined for those that cannot be simulated."""
    return [_time(case, Constants(values), change, kernel) for case in cases]


def _time(case: Case, constants: Constants, change: Change, kernel: Change) -> float:
    rerun = _kept(case)
    if isinstance(rerun, str):
        return float("nan")
    if change is not unchanged:
        rerun = Rerun(rerun.program, rerun.topology, change)
    try:
        return rerun.seconds(constants, kernel)
    except (ValueError, DeadlockError):
        return float("nan")


class RunTimes:
    """Times of cases on several processes, each of which keeps its share of them; equal ones are simulated once."""

    def __init__(self, cases: Sequence[Case], pools: Sequence[ProcessPoolExecutor], bar: tqdm) -> None:
        self.cases, self._bar = cases, bar
        first = {case.key: case for case in reversed(cases)}
        self._parts = [(pool, list(first.values())[index :: len(pools)]) for index, pool in enumerate(pools)]

    def __call__(self, values: Values, change: Change = unchanged, kernel: Change = unchanged) -> Floats:
        """The time of each case with constants, in seconds; undefined where it cannot be simulated.

        `change` alters all ops of a program, `kernel` those whose times constants tell.
        """
        asked = [(part, pool.submit(_times, part, dict(values), change, kernel)) for pool, part in self._parts if part]
        found = {case.key: time for part, each in asked for case, time in zip(part, each.result(), strict=True)}
        self._bar.update()
        return np.array([found[case.key] for case in self.cases])


@contextmanager
def run_times(cases: Sequence[Case], workers: int = WORKERS, *, progress: bool = False) -> Iterator[RunTimes]:
    """Times of cases on processes that end with the context; on stderr, how often they were asked for."""
    pools = [ProcessPoolExecutor(1) for _ in range(workers)]
    bar = tqdm(desc="evaluations", file=sys.stderr, disable=not progress, leave=False)
    try:
        yield RunTimes(cases, pools, bar)
    finally:
        bar.close()
        for pool in pools:
            pool.shutdown(cancel_futures=True)
