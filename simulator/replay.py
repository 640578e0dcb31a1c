"""Replays a quotient at a level of detail, on a kind of network."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from simulator import deadlock
from simulator.actions import Actions
from simulator.blocks import BlockCompiler
from simulator.compute import MEASURED, ComputeModel, Roofline
from simulator.engine import NETWORKS, Engine
from simulator.flights import Flights
from simulator.mailbox import channels
from simulator.network import SharedNetwork
from simulator.quotient import Quotient
from simulator.recording import Recording
from simulator.script import Script
from simulator.templates import Templates
from topologies.plugins import unknown
from workloads.program import Program

DETAILS = ("ops", "actions")
UPDATES = ("optimizer", "update")
"""Kinds of ops that end a step with new parameters, on the accelerator or at the host."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How to replay.

    `detail="ops"` replays every op; runs of ops that nothing foreign meets take one event unless `shortcuts`
    is off. `"actions"` replays every run as one piece of work. `network` is `shared`, or `unshared` for the
    closed form without contention.
    """

    detail: str = "ops"
    shortcuts: bool = True
    network: str = "shared"

    def __post_init__(self) -> None:
        for what, name, known in (("detail", self.detail, DETAILS), ("network", self.network, NETWORKS)):
            if name not in known:
                raise ValueError(unknown(what, name, known))


def replay(whole: Quotient, scripts: Sequence[Script], options: ReplayOptions) -> list[Recording]:
    """Replay all rank classes to the end and return what each did; a deadlock raises."""
    engine = Engine(whole, scripts, options.network, ahead=options.shortcuts)
    templates = whole.once(f"templates.{options.network}", lambda: Templates(whole, options.network))
    if options.detail == "actions":
        engine.shortcuts = Actions(engine, templates)
    elif options.shortcuts:
        flights = Flights(engine, templates, options.network)
        engine.shortcuts = flights
        engine.context.holding = flights.holding
        if isinstance(engine.context.network, SharedNetwork):
            engine.context.network.entering = flights.entering
    engine.start()
    engine.environment.run()
    deadlock.check(engine)
    return [state.recording for state in engine.states]


def of_program(compute: ComputeModel, program: Program) -> ComputeModel:
    """A roofline as a program needs it: its stack's kernels, its number of ranks, launched as it launches them."""
    if not isinstance(compute, Roofline):
        return compute
    return dataclasses.replace(compute, graphs=program.graphs, stack=program.stack, ranks=program.mesh.size)


def scripts(whole: Quotient, compute: ComputeModel, *, launch: bool = True) -> list[Script]:
    """What every rank class of a quotient replays; the host launches nothing when the program comes from graphs.

    Between steps, that is where an optimizer ends one, the host has work of its own.
    """
    program = whole.program
    compute = of_program(compute, program)
    compiler = BlockCompiler(program, compute)
    whole_step = any(getattr(op, "kind", "") in UPDATES for block in program.blocks.values() for op in block.ops)
    written = []
    for rank_class in whole.rank_classes:
        blocks = [compiler.ready(program.blocks[each.block], rank_class.accelerator) for each in rank_class.order]
        training = compute.training(rank_class.accelerator) if isinstance(compute, Roofline) else MEASURED
        interval = training.launch_interval if launch and not program.graphs else 0.0
        begins = training.step_seconds if launch and whole_step else 0.0
        written.append(Script.of(rank_class, blocks, interval, begins=begins, channels=channels(whole)))
    return written
