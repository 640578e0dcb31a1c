"""Which of stepsim's schedules a published one is, by its name and the program that it comes from."""

from typing import Any

from simulator.validation.schedule_figures import Profile
from simulator.validation.schedule_tables import Refusal, Table
from simulator.validation.tables import LeftOutError
from topologies.plugins import unknown
from workloads import schedules
from workloads.schedule import Schedule

DETERMINISTIC = {
    "GPipe": "gpipe",
    "1F1B": "one_f_one_b",
    "Interleaved1F1B": "interleaved",
    "LoopedBFS": "breadth_first",
    "InterleavedZeroBubble": "zb_h1",
    "ZBVZeroBubble": "zb_v",
    "DualPipe": "dualpipe",
    "DualPipeV": "dualpipe_v",
}
SEARCHED = {
    "ZB1P": "zb_auto",
    "ZB2P": "zb_auto",
    "ZBV_greedy_auto": "zb_v_auto",
    "VHalf": "v_half",
    "VMin": "v_min",
    "V1F1B": "v_1f1b",
}
VIRTUAL = ("Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble")
"""Those that take any number of virtual stages a rank."""
PER_RANK = {"zb_v_auto": 2}
"""Stages a rank of those that are searched for under a limit."""
PYTORCH = "PyTorch"


def generated(table: Table) -> tuple[Schedule, str]:
    """The schedule of a table's name and size, and what had to be assumed; LeftOutError if none has that name."""
    if table.schedule not in DETERMINISTIC:
        raise LeftOutError(unknown("schedule", table.schedule, (*DETERMINISTIC, *SEARCHED)))
    options = _options(table.schedule, table.virtual, pytorch=PYTORCH in table.source)
    if table.group is not None:
        options["group"] = table.group
    name = DETERMINISTIC[table.schedule]
    try:
        return schedules.build(name, table.stages, table.microbatches, **options), ""
    except ValueError:
        if "strict" not in schedules.options(name):
            raise
        schedule = schedules.build(name, table.stages, table.microbatches, strict=False, **options)
        return schedule, "strict=False"


def refusing(refusal: Refusal) -> Schedule:
    """What another program refuses, if stepsim builds it."""
    names = DETERMINISTIC | SEARCHED
    if refusal.schedule not in names:
        raise LeftOutError(unknown("schedule", refusal.schedule, names))
    options = _options(refusal.schedule, refusal.virtual, pytorch="M // P" in refusal.reason)
    return schedules.build(names[refusal.schedule], refusal.stages, refusal.microbatches, **options)


def _options(schedule: str, virtual: int, *, pytorch: bool) -> dict[str, Any]:
    """Virtual stages where a schedule takes any number of them, and whose rounds they go in."""
    rounds = {"rounds": "pytorch"} if pytorch and schedule == "Interleaved1F1B" else {}
    return {**({"virtual": virtual} if schedule in VIRTUAL else {}), **rounds}


def searched(name: str, stages: int, microbatches: int, *, profile: Profile, chunks: int) -> Schedule:
    """What a search of stepsim's own finds for some times within a limit, as far as it takes these.

    `chunks` is how many stages' worth a rank may hold; stepsim's limits are shares of what 1F1B's first rank holds.
    """
    wanted = {
        "forward": float(profile.forward),
        "backward_input": float(profile.backward_input),
        "backward_weight": float(profile.backward_weight),
        "hop": float(profile.hop),
        "memory": chunks / (stages * PER_RANK.get(name, 1)),
    }
    known = schedules.options(name)
    options = {key: value for key, value in wanted.items() if key in known}
    return schedules.build(name, stages, microbatches, **options)
