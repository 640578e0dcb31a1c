"""Data sheets: complete, sourced, and consistent with how the chips are built."""

import math
import pickle
from dataclasses import replace

import pytest

import topologies
from topologies import accelerators
from topologies.accelerator import Accelerator


@pytest.mark.parametrize("name", accelerators.names())
def test_every_data_sheet_is_complete_and_sourced(name):
    chip = accelerators.build(name)
    assert chip.source
    peaks = [chip.peak_flops[dtype] for dtype in ("fp4", "fp8", "bf16", "tf32", "fp32") if dtype in chip.peak_flops]
    assert peaks == sorted(peaks, reverse=True)
    training = {"k40": "fp32", "p100": "fp16", "v100": "fp16"}.get(name, "bf16")
    assert chip.peak(training) == max(chip.peak_flops.get(each, 0) for each in (training, "bf16", "fp16"))
    assert chip.usable_memory_bytes >= chip.memory_bytes > 0
    assert {chip: 1}[pickle.loads(pickle.dumps(chip))] == 1


def test_h100_peak_is_tensor_cores_times_clock():
    chip = accelerators.build("h100")
    cores, fused_multiply_adds = 4 * chip.sm_count, 512
    assert chip.peak("bf16") == pytest.approx(2 * cores * fused_multiply_adds * chip.clock_hertz, rel=1e-4)
    assert chip.peak("fp8") == pytest.approx(2 * chip.peak("bf16"), rel=1e-4)
    assert chip.memory_bandwidth == pytest.approx(5120 / 8 * 2 * 2.619e9, rel=1e-3)


def test_h100_peak_is_an_instruction_a_clock_on_every_tensor_core():
    """A tensor core multiplies 16x4 by 4x8 and adds 16x8 in a clock: 2 × 16 × 4 × 8 FLOP. The peak is dense."""
    chip = accelerators.build("h100")
    instruction = 2 * 16 * 4 * 8
    assert (chip.sm_count, chip.cores, chip.tensor_cores, chip.cache_bytes) == (132, 128, 4, 50e6)
    assert chip.clock_hertz == 1830e6
    reached = instruction * chip.sm_count * chip.tensor_cores * chip.clock_hertz
    assert reached == pytest.approx(989.4e12, rel=1e-4)
    assert chip.peak("bf16") == pytest.approx(reached, rel=1e-4)
    assert max(chip.peak(dtype) for dtype in ("bf16", "fp16")) < 1e15


@pytest.mark.parametrize(
    ("name", "dtype"), [("k40", "fp32"), ("p100", "fp32"), ("v100", "fp32"), ("a100_40gb", "fp32")]
)
def test_fp32_peak_is_a_fused_multiply_add_a_core_and_clock(name, dtype):
    chip = accelerators.build(name)
    assert chip.peak(dtype) == pytest.approx(2 * chip.sm_count * chip.cores * chip.clock_hertz, rel=5e-3)


def test_v100_peak_is_eight_tensor_cores_of_a_4x4x4_product_a_clock():
    chip = accelerators.build("v100")
    reached = 2 * 4 * 4 * 4 * chip.sm_count * chip.tensor_cores * chip.clock_hertz
    assert chip.peak("fp16") == pytest.approx(reached, rel=5e-3)


def test_tensor_cores_brought_three_orders_of_magnitude():
    """From FP32 on the cores of a K40 (2013, 4.29 TFLOP/s) to FP8 on the tensor cores of a B200 (2024, 4.5 PFLOP/s)."""
    old, new = accelerators.build("k40"), accelerators.build("b200")
    assert new.peak("fp8") / old.peak("fp32") == pytest.approx(1049, abs=1)


def test_the_h100_with_hbm2e_is_an_h100_with_another_memory_and_less_power():
    usual, other = accelerators.build("h100"), accelerators.build("H100-SXM5-HBM2e")
    assert (usual.power_share, other.power_share) == (1.0, 500 / 700)
    assert (other.peak_flops, other.sm_count, other.clock_hertz) == (usual.peak_flops, 132, 1830e6)
    assert other.memory_bandwidth < usual.memory_bandwidth
    assert other.memory_bytes / usual.memory_bytes == 6 / 5
    assert topologies.build("dgx_h100", accelerator="h100_hbm2e").route(0, 7)[0].bandwidth == 450e9


def test_a100_peak_is_tensor_cores_times_clock():
    chip = accelerators.build("a100_80gb")
    cores, fused_multiply_adds = 4 * chip.sm_count, 256
    assert chip.peak("bf16") == pytest.approx(2 * cores * fused_multiply_adds * chip.clock_hertz, rel=1e-3)


def test_h100_gained_more_compute_than_memory_bandwidth():
    old, new = accelerators.build("a100_80gb"), accelerators.build("h100")
    assert 3.1 < new.peak("bf16") / old.peak("bf16") < 3.2
    assert new.memory_bandwidth / old.memory_bandwidth == pytest.approx(1.64, abs=0.01)


def test_compute_grew_faster_than_memory_from_a100_40_to_h100():
    old, new = accelerators.build("a100_40gb"), accelerators.build("h100")
    assert 3.1 < new.peak("bf16") / old.peak("bf16") < 3.2
    assert 2.1 < new.memory_bandwidth / old.memory_bandwidth < 2.2


@pytest.mark.parametrize(
    ("name", "peak", "memory"), [("trainium2", 667e12, 96e9), ("tpu_v5p", 459e12, 95e9), ("tpu_v6e", 918e12, 32e9)]
)
def test_peak_and_memory_of_chips_without_sms(name, peak, memory):
    chip = accelerators.build(name)
    assert (chip.peak("bf16"), chip.memory_bytes) == (peak, memory)


@pytest.mark.parametrize(
    ("name", "kind", "bandwidth"),
    [("k40", "pcie", 15.8e9), ("a100_80gb", "pcie", 31.5e9), ("h100", "pcie", 63e9), ("gh200", "c2c", 450e9)],
)
def test_link_to_the_host(name, kind, bandwidth):
    chip = accelerators.build(name)
    assert (chip.host_kind, chip.host_bandwidth) == (kind, bandwidth)


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


def test_the_peak_of_sparse_matrices_is_refused():
    """Case A17: utilisation counts dense peaks; a faster chip that one imagines has a name of its own."""
    h100 = accelerators.build("h100")
    fast = replace(h100, peak_flops=h100.peak_flops | {"bf16": 1979e12})
    with pytest.raises(
        ValueError, match=r"bf16 peak 1.979e\+15 of H100-SXM5 is its sparse one, twice the dense 9.894e\+14"
    ):
        topologies.build("dgx_h100", accelerator=fast)
    imagined = topologies.build("dgx_h100", accelerator=replace(fast, name="H100-twice"))
    assert imagined.accelerators[0].peak("bf16") == 1979e12


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
        ({"host_bandwidth": -1.0}, "host_bandwidth=-1.0, but it must be 0 or more"),
        ({"cache_bytes": math.nan}, "cache_bytes=nan"),
        ({"power_watts": -1.0}, "power_watts=-1.0, but it must be 0 or more"),
    ],
)
def test_impossible_facts_fail_at_construction(changes, message):
    facts = {"peak_flops": {"bf16": 1.0}, "memory_bytes": 1.0, "memory_bandwidth": 1.0, "sm_count": 1, "source": "none"}
    with pytest.raises(ValueError, match=message):
        Accelerator("toy", **(facts | changes))
