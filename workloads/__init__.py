"""What a training step asks of every rank: models, strategies and schedules become programs.

Ranks, groups, FLOPs and bytes; never seconds or links. The front loads what is used, when it is used.

>>> import workloads
>>> step = workloads.TrainingStep("llama3_8b", plan="dp=8", batch=16, sequence=8192)
>>> step.microbatches, step.program().mesh.size
(2, 8)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workloads import models, schedules, strategies
    from workloads.mesh import DeviceMesh
    from workloads.plan import ParallelPlan
    from workloads.program import Program
    from workloads.step import TrainingStep
    from workloads.transformer import Transformer

_FRONT = {
    "DeviceMesh": "workloads.mesh",
    "ParallelPlan": "workloads.plan",
    "Program": "workloads.program",
    "TrainingStep": "workloads.step",
    "Transformer": "workloads.transformer",
}
_PACKAGES = ("models", "schedules", "strategies")

__all__ = ["DeviceMesh", "ParallelPlan", "Program", "TrainingStep", "Transformer", "models", "schedules", "strategies"]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"workloads.{name}")
    if name in _FRONT:
        return getattr(importlib.import_module(_FRONT[name]), name)
    raise AttributeError(f"module 'workloads' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
