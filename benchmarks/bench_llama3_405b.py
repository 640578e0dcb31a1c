"""Llama 3 405B on 16,384 GPUs: a cold process, a warm call, and how long the command takes to say what it does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL
from threading import Timer
from time import perf_counter

import pytest

import topologies
from simulator import simulate
from workloads import TrainingStep

STEPSIM = str(Path(sys.executable).with_name("stepsim"))
PLAN = "pp=16,schedule=interleaved,virtual=8 dp=128,zero=1 tp=8"
COMMAND = [STEPSIM, "run", "llama3_405b", "llama3_cluster,gpus=16384", PLAN, "--batch", "2048", "--sequence", "8192"]


@pytest.fixture(scope="module")
def run():
    step = TrainingStep("llama3_405b", plan=PLAN, batch=2048, sequence=8192)
    return step, topologies.build("llama3_cluster", gpus=16384)


def cold(command, limit=300):
    """Output, wall seconds and peak resident bytes of a process of its own; no output after so many seconds."""
    start = perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        alarm = Timer(limit, process.kill)
        alarm.start()
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        alarm.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, -SIGKILL)
    return output, perf_counter() - start, usage.ru_maxrss * 1024


def test_a_cold_process(report):
    cold(COMMAND)  # once for the file system's caches and the compiled modules
    output, wall, memory = cold([*COMMAND, "--json"])
    replay = json.loads(output)["timings_seconds"]["replay"]
    report("405B on 16,384 GPUs, ops, cold process", f"{wall:.2f} s", "3 s")
    report("  its replay alone", f"{replay:.2f} s", "1 s")
    report("  its peak resident memory", f"{memory / 1e6:.0f} MB", "350 MB")


def test_actions_warm(run, seconds, report):
    wall = seconds(lambda: simulate(*run, detail="actions"))
    report("405B on 16,384 GPUs, actions, warm", f"{wall * 1e3:.0f} ms", "50 ms, then 10")


def test_details_agree(run, report):
    ops, actions = (simulate(*run, detail=detail).step_time for detail in ("ops", "actions"))
    report("  step time, actions against ops", f"{actions / ops - 1:+.2%}", "within 2 %")


@pytest.mark.slow
def test_every_rank(report):
    output, wall, memory = cold([*COMMAND, "--detail", "actions", "--no-fold", "--json"])
    figure = f"{json.loads(output)['wall_seconds']:.0f} s" if output else f"stopped after {wall:.0f} s"
    report("405B on 16,384 GPUs, unfolded, actions", figure, "60 s")
    report("  its peak resident memory", f"{memory / 1e9:.1f} GB", "4 GB")


def test_help(report):
    cold([STEPSIM, "--help"])
    _, wall, _ = cold([STEPSIM, "--help"])
    report("stepsim --help", f"{wall:.2f} s", "0.4 s")
