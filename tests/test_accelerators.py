"""Data sheets: complete, sourced, and consistent with how the chips are built."""

import math
import pickle

import pytest

from topologies import accelerators
from topologies.accelerator import Accelerator


@pytest.mark.parametrize("name", accelerators.names())
def test_every_data_sheet_is_complete_and_sourced(name):
    chip = accelerators.build(name)
    assert chip.source
    peaks = [chip.peak_flops[dtype] for dtype in ("fp4", "fp8", "bf16", "tf32", "fp32") if dtype in chip.peak_flops]
    assert peaks == sorted(peaks, reverse=True)
    assert chip.peak("fp16" if name == "v100" else "bf16") == max(
        chip.peak_flops.get(each, 0) for each in ("bf16", "fp16")
    )
    assert chip.usable_memory_bytes >= chip.memory_bytes > 0
    assert {chip: 1}[pickle.loads(pickle.dumps(chip))] == 1


def test_h100_peak_is_tensor_cores_times_clock():
    chip = accelerators.build("h100")
    cores, fused_multiply_adds = 4 * chip.sm_count, 512
    assert chip.peak("bf16") == pytest.approx(2 * cores * fused_multiply_adds * chip.clock_hertz, rel=1e-4)
    assert chip.peak("fp8") == pytest.approx(2 * chip.peak("bf16"), rel=1e-4)
    assert chip.memory_bandwidth == pytest.approx(5120 / 8 * 2 * 2.619e9, rel=1e-3)


def test_a100_peak_is_tensor_cores_times_clock():
    chip = accelerators.build("a100_80gb")
    cores, fused_multiply_adds = 4 * chip.sm_count, 256
    assert chip.peak("bf16") == pytest.approx(2 * cores * fused_multiply_adds * chip.clock_hertz, rel=1e-3)


def test_h100_gained_more_compute_than_memory_bandwidth():
    old, new = accelerators.build("a100_80gb"), accelerators.build("h100")
    assert 3.1 < new.peak("bf16") / old.peak("bf16") < 3.2
    assert new.memory_bandwidth / old.memory_bandwidth == pytest.approx(1.64, abs=0.01)


def test_ideal_device_reads_flops_as_seconds():
    chip = accelerators.build("ideal")
    assert chip.peak("bf16") == chip.peak("fp16") == chip.peak("fp32") == 1
    assert chip.memory_bytes == chip.memory_bandwidth == math.inf


@pytest.mark.parametrize("alias", accelerators.DATA_SHEETS)
def test_data_sheet_names_build_too(alias):
    assert accelerators.build(alias).name == alias


def test_every_chip_has_a_data_sheet_name():
    assert sorted({*accelerators.DATA_SHEETS.values(), "ideal"}) == accelerators.names()


@pytest.mark.parametrize(
    ("new", "old", "compute", "memory"),
    [
        ("h100", "a100_40gb", 3.17, 2.156),
        ("h200", "h100", 1.0, 1.432),
        ("b200", "h100", 2.274, 2.387),
        ("mi325x", "mi300x", 1.0, 1.132),
        ("h20", "h100", 0.1496, 1.193),
        ("gb300", "b300", 1.111, 1.0),
    ],
)
def test_generations_in_compute_and_memory_bandwidth(new, old, compute, memory):
    new, old = accelerators.build(new), accelerators.build(old)
    assert new.peak("bf16") / old.peak("bf16") == pytest.approx(compute, rel=1e-3)
    assert new.memory_bandwidth / old.memory_bandwidth == pytest.approx(memory, rel=1e-3)


def test_there_is_no_default_peak():
    with pytest.raises(ValueError, match=r"unknown dtype of A100-SXM4-80GB 'fp8'.*Known: bf16, fp16, fp32, tf32"):
        accelerators.build("a100_80gb").peak("fp8")


def test_unknown_accelerator_names_the_nearest():
    with pytest.raises(ValueError, match="unknown accelerator 'h10'; did you mean h100"):
        accelerators.build("h10")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peak_flops": {}}, "has no peak"),
        ({"peak_flops": {"bf16": 0.0}}, "peak bf16=0.0"),
        ({"memory_bytes": -1.0}, "memory_bytes=-1.0"),
        ({"memory_bandwidth": math.nan}, "memory_bandwidth=nan"),
        ({"sm_count": 0}, "sm_count=0"),
    ],
)
def test_impossible_facts_fail_at_construction(changes, message):
    facts = {"peak_flops": {"bf16": 1.0}, "memory_bytes": 1.0, "memory_bandwidth": 1.0, "sm_count": 1, "source": "none"}
    with pytest.raises(ValueError, match=message):
        Accelerator("toy", **(facts | changes))
