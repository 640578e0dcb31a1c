"""The front door: a step on a topology, simulated."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Protocol

import topologies
from simulator import collectives
from simulator.compute import ComputeModel, Roofline
from simulator.kernel_files import chosen
from simulator.kernels import Constants
from simulator.quotient import Quotient, quotient
from simulator.replay import ReplayOptions, replay, scripts
from simulator.result import Result
from simulator.script import Script
from simulator.timeline import Timeline
from topologies import Topology
from topologies.plugins import unknown
from workloads.program import Program

ROOFLINE = Roofline(sustained=True)
KEPT = 8
"""Foldings that a program remembers, those of the latest topologies."""


class Programmed(Protocol):
    """Whatever has a program: a TrainingStep, or a hand-made Program itself."""

    def program(self) -> Program:
        """The ops of one step for every rank."""
        ...


def simulate(  # noqa: PLR0913 (one argument for each way to simulate)
    step: Programmed,
    topology: Topology | str,
    *,
    detail: str = "ops",
    fold: bool = True,
    network: str = "shared",
    shortcuts: bool = True,
    algorithms: Mapping[str, str] = MappingProxyType({}),
    constants: Constants | str | Path | None = None,
) -> Result:
    """Simulate one step on a topology, given as such or as the text that builds it.

    `detail` is `ops`, every kernel and collective, or `actions`, one activity per schedule action. `fold=False`
    replays every rank instead of one per symmetry class. `network="unshared"` is the closed form without
    contention; `shortcuts=False` replays every op even where runs of ops could be taken as one. `algorithms` names one
    for kinds of collectives (`{"all_reduce": "ring"}`), taken where it fits the group; the rest is chosen. `constants`
    of kernels, as such or as the path of a file (see `stepsim calibrate`), replace the published ones.

    >>> from workloads import TrainingStep
    >>> step = TrainingStep("llama3_8b", plan="dp=2 tp=4", batch=4, sequence=8192)
    >>> result = simulate(step, "dgx_h100")
    >>> result.rank_classes, 0 < result.mfu <= 1
    (1, True)
    """
    topology = topologies.build(topology) if isinstance(topology, str) else topology
    if not isinstance(topology, Topology):
        raise ValueError(f"topology={topology!r} is neither a Topology nor the text that builds one")  # noqa: TRY004
    _check(algorithms)
    options = ReplayOptions(detail, shortcuts, network)
    compute = ROOFLINE if constants is None else Roofline(sustained=True, constants=chosen(constants))
    timeline, timings = run(step, topology, compute, options, algorithms, fold=fold)
    return Result(step, timeline, timings)


def run(
    step: Programmed,
    topology: Topology,
    compute: ComputeModel,
    options: ReplayOptions,
    algorithms: Mapping[str, str] = MappingProxyType({}),
    *,
    fold: bool,
) -> tuple[Timeline, dict[str, float]]:
    """Lower, fold and replay; the timeline, and the seconds that each of these took."""
    with _no_collection():
        start = perf_counter()
        program = step.program()
        programmed = perf_counter()
        whole, written = _prepared(program, topology, compute, algorithms, fold=fold)
        folded = perf_counter()
        recordings = replay(whole, written, options)
    timings = {"program": programmed - start, "fold": folded - programmed, "replay": perf_counter() - folded}
    return Timeline(whole, tuple(written), tuple(recordings)), timings


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the cyclic garbage collector: all that is made here is kept, so that looking for garbage is in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _prepared(
    program: Program, topology: Topology, compute: ComputeModel, algorithms: Mapping[str, str], *, fold: bool
) -> tuple[Quotient, list[Script]]:
    """The quotient and its scripts, kept on the program; scripts only of the latest compute model."""
    key = topology, frozenset(algorithms.items()), fold
    if key not in program.cache:
        while len(program.cache) >= KEPT:
            program.cache.pop(next(iter(program.cache)))
        program.cache[key] = quotient(program, topology, algorithms, fold=fold)
    whole: Quotient = program.cache[key]
    if whole.once("compute", lambda: compute) != compute:
        whole.cache.clear()
        whole.cache["compute"] = compute
    return whole, whole.once("scripts", lambda: scripts(whole, compute))


def _check(algorithms: Mapping[str, str]) -> None:
    """Kinds and algorithms that are there."""
    if not isinstance(algorithms, Mapping):
        raise ValueError(f"algorithms={algorithms!r} is no mapping such as {{'all_reduce': 'ring'}}")  # noqa: TRY004
    for kind, algorithm in algorithms.items():
        if kind not in collectives.KINDS:
            raise ValueError(unknown("kind of collective", kind, collectives.KINDS))
        if algorithm != collectives.AUTO:
            collectives.FOLDER.resolve(algorithm)
