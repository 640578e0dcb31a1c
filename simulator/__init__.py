"""Simulates training steps: bytes meet bandwidth here, and programs become time.

Nothing heavy is imported until it is asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.balancing import balance as balance
    from simulator.collective_time import CollectiveTime as CollectiveTime
    from simulator.collective_time import time_collective as time_collective
    from simulator.deadlock import DeadlockError as DeadlockError
    from simulator.placements import placement as placement
    from simulator.result import Result as Result
    from simulator.schedule_replay import replay_schedule as replay_schedule
    from simulator.simulation import simulate as simulate
    from simulator.sweeps import sweep as sweep

_HOMES = {
    "CollectiveTime": "simulator.collective_time",
    "DeadlockError": "simulator.deadlock",
    "Result": "simulator.result",
    "balance": "simulator.balancing",
    "placement": "simulator.placements",
    "replay_schedule": "simulator.schedule_replay",
    "simulate": "simulator.simulation",
    "sweep": "simulator.sweeps",
    "time_collective": "simulator.collective_time",
}

__all__ = [
    "CollectiveTime",
    "DeadlockError",
    "Result",
    "balance",
    "placement",
    "replay_schedule",
    "simulate",
    "sweep",
    "time_collective",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
