"""Points a second of a sweep on one core, on at most 1,024 GPUs."""

from time import perf_counter

import pytest

import topologies
from simulator import sweep
from workloads import TrainingStep

PLANS = (
    "fsdp=1024",
    "dp=16 fsdp=64",
    "fsdp=128 tp=8",
    "dp=128,zero=1 tp=8",
    "pp=4 fsdp=32 tp=8",
    "pp=8 dp=16,zero=1 tp=8",
)


@pytest.fixture
def points():
    steps = [TrainingStep("llama3_70b", plan=plan, batch=1024, sequence=8192) for plan in PLANS]
    return steps, [topologies.build("llama3_cluster", gpus=1024)]


def test_points_per_second(points, seconds, report):
    start = perf_counter()
    frame = sweep(*points)
    cold = perf_counter() - start
    assert set(frame["reason"]) == {""}
    warm = seconds(lambda: sweep(*points))
    report("sweep on 1,024 GPUs, actions, one core, warm", f"{len(frame) / warm:.0f} points/s", "50, then 200")
    report("  the same, each point for the first time", f"{len(frame) / cold:.1f} points/s", "")
