"""Kernels by themselves: closed forms, trends, laws for every accelerator, what the constants depend on."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from simulator import simulate
from simulator.compute import GEMMS, KINDS, MEMORY_BOUND, Roofline
from simulator.kernels import IDEAL, ITEM_BYTES, Attention, Constants, Kernels, kernels, published
from topologies import Accelerator, accelerators
from workloads.mesh import DeviceMesh
from workloads.ops import Compute
from workloads.program import Program

NAMES = [name for name in accelerators.names() if name != "ideal"]
PLAIN = Accelerator("PLAIN", {"bf16": 1e15, "fp8": 2e15, "fp4": 4e15}, 80e9, 3e12, sm_count=100, source="none")


class OneChip:
    """Constants of a test's own, for any accelerator."""

    def __init__(self, **values):
        self.values = Kernels(**values)

    def kernels(self, accelerator, stack=""):
        return self.values


def seconds(op, chip=PLAIN, **values):
    """Time of a kernel, on an accelerator without a data sheet unless said; `values` are constants of its own."""
    return Roofline(constants=OneChip(**values)).seconds(op, chip) if values else Roofline().seconds(op, chip)


def gemm(*shape, kind="gemm", dtype="bf16", flops=None, **fields):
    """A GEMM whose traffic is free."""
    flops = 2.0 * math.prod(shape) if flops is None else flops
    return Compute(name=kind, kind=kind, flops=flops, shape=shape, dtype=dtype, **fields)


def attention(tokens=8192, span=8192, heads=8, head_dim=128, fill=0.5, backward=False, **fields):
    """Fused attention whose traffic is free; causal unless `fill` says otherwise."""
    kind = "attention_backward" if backward else "attention"
    flops = 4.0 * tokens * span * heads * head_dim * fill * (2 if backward else 1)
    return Compute(name=kind, kind=kind, flops=flops, shape=(tokens, span, heads, head_dim), **fields)


def rate(op, chip="h100"):
    """Model FLOPs a second."""
    return op.flops / seconds(op, accelerators.build(chip))


# ------------------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("kind", GEMMS)
def test_an_ideal_gemm_is_its_shape_at_the_peak(kind):
    """2mnk a group, whatever the model counts: under a causal mask only half of a batched GEMM is useful."""
    shape = (512, 1024, 256) if kind == "gemm" else (3, 512, 1024, 256)
    for counted in (1.0, 0.5, 0.0):
        assert seconds(gemm(*shape, kind=kind, flops=counted * math.prod(shape))) == 2 * math.prod(shape) / 1e15


def test_ideal_attention_is_its_flops_and_its_backward_five_products_for_four():
    assert seconds(attention()) == attention().flops / 1e15
    assert seconds(attention(backward=True)) == pytest.approx(2.5 * attention().flops / 1e15)


def test_a_kernel_takes_the_longer_of_arithmetic_and_traffic_after_its_start():
    constants = {"memory_share": 0.5, "kernel_seconds": 1e-6}
    for flops, moved in ((1e12, 1e6), (1e9, 1e9)):
        op = Compute(name="x", kind="gemm", flops=flops, read_bytes=moved / 2, write_bytes=moved / 2)
        assert seconds(op, **constants) == pytest.approx(1e-6 + max(flops / 1e15, moved / (0.5 * 3e12)))


@pytest.mark.parametrize("kind", MEMORY_BOUND)
def test_memory_bound_kernels_take_the_memory_s_time(kind):
    chip, own = accelerators.build("h100"), kernels("H100-SXM5")
    op = Compute(name=kind, kind=kind, read_bytes=2e9, write_bytes=1e9)
    assert seconds(op, chip) == own.kernel_seconds + 3e9 / (own.memory_share * chip.memory_bandwidth)


def test_waves():
    """100 tiles of 256 × 128 fill 100 SMs; one row of tiles more is a second wave, of which half is waited for."""
    full = gemm(256 * 10, 128 * 10, 4096)
    more = gemm(256 * 11, 128 * 10, 4096)
    large = {"gemm": {"bf16": 1.0}, "tile_loss": 1e9}  # so that only the tiles with the most reuse are taken
    assert seconds(full, **large) == pytest.approx(full.flops / 1e15)
    assert seconds(more, **large, quantisation=1.0) == pytest.approx(2 * full.flops / 1e15)
    assert seconds(more, **large, quantisation=0.5) == pytest.approx((1.1 + 0.9 / 2) * full.flops / 1e15)


def test_depth_beside_the_useful_one():
    """Extra depth is in bytes: as much time as k elements of that size."""
    for dtype, extra in (("bf16", 200), ("fp8", 400)):
        op, free = gemm(2560, 1280, 1000, dtype=dtype), {"gemm": {dtype: 1.0}}
        assert seconds(op, **free, extra_depth_bytes=400) == pytest.approx(seconds(op, **free) * (1 + extra / 1000))


def test_groups_run_one_after_another_and_batches_together():
    """A further group starts as a kernel does that is queued already."""
    own = {"gemm": {"bf16": 0.8}, "quantisation": 1.0, "graph_seconds": 2e-6}
    one = seconds(gemm(128, 256, 512), **own)
    assert seconds(gemm(7, 128, 256, 512, kind="grouped_gemm"), **own) == pytest.approx(7 * one + 6 * 2e-6)
    assert seconds(gemm(7, 128, 256, 512, kind="batched_gemm"), **own) == pytest.approx(one)


def test_attention_in_closed_form():
    """Keys beside those useful, blocks that are waited for, elements that the exponential costs."""
    own = Attention(share=0.5, overhead_keys=100, score_depth=64, block_rows=128, block_keys=128)
    op = attention(tokens=4096, span=4096, heads=4, head_dim=64)
    expected = 0.5 * (2048 / (2048 + 100 + 64)) * (128 / (128 + 2 * 100)) * (64 / 128) / (128 / 192)
    assert op.flops / seconds(op, attention={"": own}, tail=2.0) / 1e15 == pytest.approx(expected)


# ------------------------------------------------------------------------------------------- trends


def test_what_makes_attention_slow():
    assert rate(attention(span=1024)) < rate(attention(span=8192)) < rate(attention(span=8192, fill=1.0))
    assert rate(attention(head_dim=64)) < rate(attention(head_dim=256))
    assert rate(attention(head_dim=256)) == pytest.approx(rate(attention(head_dim=128)), rel=0.02)
    assert rate(attention(heads=1)) < rate(attention(heads=64))
    assert rate(attention(backward=True)) < rate(attention())


def test_flash_attention_2_is_slow_on_hopper_and_all_there_is_on_ampere():
    old = attention(variant="flash2")
    assert rate(old) < 0.7 * rate(attention())
    assert rate(old, "a100_80gb") == rate(attention(), "a100_80gb")
    with pytest.raises(ValueError, match="unknown variant of attention 'flash3'; did you mean flash2"):
        rate(attention(variant="flash3"))


def test_what_makes_gemms_slow():
    large = gemm(8192, 8192, 8192)
    for slow in (gemm(8192, 8192, 128), gemm(64, 8192, 8192), gemm(8192, 65, 8192), gemm(1024, 1024, 1024)):
        assert rate(slow) < 0.8 * rate(large)
    assert rate(gemm(16, 128, 4096, 4096, kind="grouped_gemm")) < rate(gemm(16 * 128, 4096, 4096))


def test_data_types():
    """FP8 doubles the peak, FP4 twice; block-scaled types run at the peak of their width."""
    times = [seconds(gemm(8192, 8192, 8192, dtype=dtype), accelerators.build("b200")) for dtype in ITEM_BYTES]
    fp32, tf32, bf16, fp16, fp8, mxfp8, nvfp4, fp4 = times
    assert fp4 == nvfp4 < fp8 <= mxfp8 < bf16 == fp16 < tf32 < fp32


@pytest.mark.parametrize("chip", accelerators.names())
def test_every_peak_of_a_data_sheet_has_kernels(chip):
    for dtype in accelerators.build(chip).peak_flops:
        assert 0 < rate(gemm(4096, 4096, 4096, dtype=dtype), chip) <= accelerators.build(chip).peak(dtype)


@pytest.mark.parametrize(("chip", "dtype"), [("a100_80gb", "fp8"), ("h100", "mxfp8"), ("mi355x", "nvfp4")])
def test_a_format_that_a_chip_does_not_have_is_refused(chip, dtype):
    with pytest.raises(ValueError, match=rf"unknown dtype of \S+ '{dtype}'"):
        rate(gemm(512, 512, 512, dtype=dtype), chip)


def test_unknown_kinds_name_the_nearest():
    with pytest.raises(ValueError, match="unknown kind of kernel 'grouped_gem'; did you mean grouped_gemm"):
        seconds(Compute(name="x", kind="grouped_gem"))


# ------------------------------------------------------------------------------------------- laws

SHAPES = some.tuples(*[some.integers(1, 20_000)] * 3)


@pytest.mark.parametrize("name", NAMES)
@given(
    shape=SHAPES, groups=some.integers(1, 300), kind=some.sampled_from(GEMMS), graphs=some.booleans(), data=some.data()
)
def test_no_gemm_beats_its_peaks(name, shape, groups, kind, graphs, data):
    chip = accelerators.build(name)
    dtype = data.draw(some.sampled_from([each for each in ITEM_BYTES if each in chip.peak_flops]))
    shape = shape if kind == "gemm" else (groups, *shape)
    moved = 2.0 * data.draw(some.integers(0, 10**10))
    op = gemm(*shape, kind=kind, dtype=dtype, read_bytes=moved)
    time = Roofline(graphs).seconds(op, chip)
    assert 2 * math.prod(shape) / time <= chip.peak(dtype)
    assert moved / time <= chip.memory_bandwidth


@pytest.mark.parametrize("name", NAMES)
@given(
    tokens=some.integers(1, 10**6),
    span=some.integers(1, 10**6),
    heads=some.integers(1, 128),
    head_dim=some.integers(8, 576),
    fill=some.floats(0.01, 1.0),
    backward=some.booleans(),
    variant=some.sampled_from(["", "flash2"]),
)
def test_no_attention_beats_its_peak(name, variant, **shape):
    chip = accelerators.build(name)
    dtype = next(each for each in ("bf16", "fp16", "fp32") if each in chip.peak_flops)
    op = attention(**shape, variant=variant, dtype=dtype)
    executed = op.flops * (2.5 / 2 if shape["backward"] else 1.0)
    assert executed / seconds(op, chip) <= chip.peak(dtype)


@given(shape=SHAPES, more=some.integers(0, 5000), axis=some.integers(0, 2), name=some.sampled_from(NAMES))
def test_a_larger_gemm_takes_no_less(shape, more, axis, name):
    larger = tuple(size + (more if place == axis else 0) for place, size in enumerate(shape))
    chip = accelerators.build(name)
    dtype = next(each for each in ("bf16", "fp16", "fp32") if each in chip.peak_flops)
    assert seconds(gemm(*shape, dtype=dtype), chip) <= seconds(gemm(*larger, dtype=dtype), chip) * (1 + 1e-12)


@given(kind=some.sampled_from(MEMORY_BOUND), moved=some.floats(0, 1e12), name=some.sampled_from(NAMES))
def test_graphs_start_kernels_sooner(kind, moved, name):
    op, chip = Compute(name=kind, kind=kind, read_bytes=moved), accelerators.build(name)
    sooner = kernels(chip.name).kernel_seconds - kernels(chip.name).graph_seconds
    assert sooner > 0
    assert seconds(op, chip) - Roofline(graphs=True).seconds(op, chip) == pytest.approx(sooner, rel=1e-4)


# ------------------------------------------------------------------------------------------- graphs


def test_a_step_from_graphs_has_no_launches():
    """Kernels follow each other at once, each after the start that a graph's kernels have; by hand, without a step's
    work of the host."""
    tiny = [Compute(name=f"{k}", kind="elementwise", read_bytes=1.0) for k in range(100)]
    program = Program.of(DeviceMesh({"dp": 1}), {(): tiny}, varies=())
    eager, replayed = (
        simulate(each, "flat,ranks=1,accelerator=h100") for each in (program, replace(program, graphs=True))
    )
    own = kernels("H100-SXM5")
    assert replayed.step_time == pytest.approx(100 * own.graph_seconds, rel=1e-3)
    assert eager.step_time == pytest.approx(99 * own.training.launch_interval + own.kernel_seconds, rel=1e-3)


# ------------------------------------------------------------------------------------------- the constants


@pytest.mark.parametrize("name", NAMES)
def test_no_real_accelerator_is_ideal(name):
    own = kernels(accelerators.build(name).name)
    assert set(own.gemm) == set(ITEM_BYTES)
    assert max(own.gemm.values()) < 1
    assert own.memory_share < 1
    assert 0 < own.graph_seconds < own.kernel_seconds
    assert set(own.attention) == {"", "flash2", "triton"}


def test_accelerators_of_ones_own_are_ideal():
    assert kernels("ideal") is kernels("my own") is IDEAL
    assert seconds(gemm(1, 1, 1), accelerators.build("ideal")) == 2.0


def test_the_narrowest_place_counts():
    """An accelerator before its family before the rest; in one place, a data type before all of them."""
    places = {("families", "B200-SXM", "gemm_bf16"): 0.5, ("families", "Blackwell", "gemm_fp8"): 0.6}
    own = Constants({**published().values, **places})
    published_share, ratio = (
        published().values[key] for key in (("families", "Blackwell", "gemm"), ("shared", "gemm", "nvfp4_ratio"))
    )
    b200, gb200 = (own.kernels(name).gemm for name in ("B200-SXM", "GB200"))
    assert (b200["bf16"], b200["fp8"], b200["nvfp4"]) == (0.5, 0.6, 0.5 * ratio)
    assert (gb200["bf16"], gb200["fp8"], gb200["tf32"]) == (published_share, 0.6, published_share)
    assert own.kernels("Gaudi2") == own.kernels("MI250X") == published().kernels("Gaudi3")


def test_data_types_reach_the_share_of_bf16_unless_known():
    own = kernels("A100-SXM4-80GB").gemm
    assert own["bf16"] == own["fp16"] == own["tf32"] == own["fp8"]
    hopper = kernels("H100-SXM5").gemm
    assert hopper["fp8"] == hopper["mxfp8"] < hopper["bf16"]
    assert kernels("GB200").gemm["nvfp4"] == kernels("GB200").gemm["fp4"] < kernels("GB200").gemm["fp8"]


def test_kernels_for_ampere_halve_their_share_with_each_generation():
    """They issue its instructions, while the tensor cores double: as many FLOPs a clock, half of the peak."""
    a100, hopper, blackwell, ultra = (
        kernels(name).attention["flash2"] for name in ("A100-SXM4-80GB", "H100-SXM5", "GB200", "GB300")
    )
    assert a100.share == pytest.approx(2 * hopper.share) == pytest.approx(4 * blackwell.share)
    assert blackwell == ultra
    other = kernels("TPU v5p").attention
    assert other[""] == other["flash2"] == other["triton"]


def test_one_figure_of_flash_attention_2_on_blackwell_is_met():
    """374 of 2500 TFLOP/s (Azure AI-benchmarking-guide, ND GB200 v6), fitted by nothing; mask and pass are not told."""
    fastest = attention(tokens=8 * 8192, heads=16, fill=1.0, variant="flash2")
    slowest = attention(tokens=8 * 8192, heads=16, backward=True, variant="flash2")
    assert rate(slowest, "gb200") < 374e12 < rate(fastest, "gb200") < 1.25 * 374e12


def test_predicting_reads_no_measurements():
    """With the file of measurements out of reach, a kernel takes as long."""
    code = f"""
import builtins, io, sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
real = io.open
def guarded(path, *rest, **more):
    assert not str(path).endswith(".csv"), path
    return real(path, *rest, **more)
builtins.open = io.open = guarded
from simulator.compute import Roofline
from topologies import accelerators
from workloads.ops import Compute
op = Compute(name="x", kind="gemm", flops=2 * 4096.0**3, shape=(4096, 4096, 4096))
print(Roofline().seconds(op, accelerators.build("h100")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == seconds(gemm(4096, 4096, 4096), accelerators.build("h100"))


def test_every_kind_is_timed():
    for kind in KINDS:
        assert seconds(Compute(name=kind, kind=kind, flops=1e9, read_bytes=1e6), accelerators.build("h100")) > 0
