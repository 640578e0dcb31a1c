"""Steps that go on for hours: the slowest rank, the host between two steps, power, a stack's kernels."""

import dataclasses
import math

import pytest

import topologies
from simulator import simulate
from simulator.compute import Roofline
from simulator.kernels import Constants, kernels, published
from topologies import accelerators
from workloads import TrainingStep
from workloads.ops import Compute

H100 = accelerators.build("h100")
N = 8192
PRODUCT = Compute(
    name="product", kind="gemm", flops=2.0 * N**3, shape=(N, N, N), read_bytes=4.0 * N**2, write_bytes=2.0 * N**2
)
STREAM = Compute(name="stream", kind="elementwise", read_bytes=1e9, write_bytes=1e9)
STEP = TrainingStep("llama3_8b,layers=2", "dp=2,zero=1 tp=2", batch=4, sequence=2048)


def constants(**changes):
    """The published ones with other constants of training for all accelerators."""
    return Constants({**published().values, **{("training", "other", name): value for name, value in changes.items()}})


def time(op, stack="megatron_2024", accelerator=H100, ranks=1, values=None):
    return Roofline(sustained=True, stack=stack, ranks=ranks, constants=values or published()).seconds(op, accelerator)


@pytest.mark.parametrize("ranks", [1, 8, 1024, 16384])
@pytest.mark.parametrize("op", [PRODUCT, STREAM])
def test_all_wait_for_the_slowest_of_normal_ranks(op, ranks):
    """1 + j sqrt(2 ln n) of the mean: that of the largest of n normal numbers."""
    jitter = kernels(H100.name).training.jitter
    assert jitter > 0
    assert time(op, ranks=ranks) / time(op) == pytest.approx(1 + jitter * math.sqrt(2 * math.log(ranks)), rel=1e-12)


def test_a_kernel_by_itself_and_a_program_of_no_stack_know_no_other_ranks():
    assert time(PRODUCT, stack="", ranks=1024) == time(PRODUCT, stack="")
    assert Roofline(ranks=1024).seconds(PRODUCT, H100) == Roofline().seconds(PRODUCT, H100)


def test_products_keep_the_clock_of_a_sustained_load_and_streams_what_is_left_of_the_memory():
    own = kernels(H100.name)
    alone = {op.name: Roofline().seconds(op, H100) - own.kernel_seconds for op in (PRODUCT, STREAM)}
    running = {op.name: time(op, stack="") - own.kernel_seconds for op in (PRODUCT, STREAM)}
    assert alone["product"] / running["product"] == pytest.approx(own.training.clock, rel=1e-9)
    assert alone["stream"] / running["stream"] == pytest.approx(own.training.memory, rel=1e-9)


def test_less_power_lowers_the_clock_in_proportion_and_the_memory_not():
    """At five sevenths of its power a product takes seven fifths of its time; at most, a limit changes nothing."""
    start = kernels(H100.name).kernel_seconds
    limited, loose = (dataclasses.replace(H100, power_limit_watts=watts) for watts in (500.0, 900.0))
    assert H100.power_watts == 700
    assert (time(PRODUCT, "", limited) - start) / (time(PRODUCT, "") - start) == pytest.approx(7 / 5, rel=1e-9)
    assert time(STREAM, "", limited) == time(STREAM, "")
    assert time(PRODUCT, "", loose) == time(PRODUCT, "")
    assert Roofline().seconds(PRODUCT, limited) == Roofline().seconds(PRODUCT, H100)


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_kernels_of_a_stack_are_as_fast_as_its_share(share):
    """Also with facts of its own, and never those of another stack."""
    mine = Constants({**published().values, ("training", "megatron_2024", "kernel_share"): share})
    usual = Constants({**published().values, ("training", "megatron_2024", "kernel_share"): 1.0})
    for stack in ("megatron_2024", "megatron_2024,graphs=on"):
        assert time(PRODUCT, stack, values=mine) == pytest.approx(time(PRODUCT, stack, values=usual) / share, rel=1e-12)
    assert time(PRODUCT, "nemo_2024", values=mine) == time(PRODUCT, "nemo_2024")


@pytest.mark.parametrize("detail", ["ops", "actions"])
@pytest.mark.parametrize(
    ("options", "late"),
    [
        ({}, True),
        ({"optimizer": "none"}, False),
        ({"optimizer": "none", "plan": "dp=2,overlap=off tp=2"}, False),
        ({"offload": "optimizer", "plan": "fsdp=2 tp=2"}, True),
    ],
)
def test_a_host_works_between_two_steps_only(options, late, detail):
    """A step that ends in an update begins `step_seconds` later as a whole; one that ends with gradients does not."""
    one, cluster = STEP.replace(**options), topologies.build("dgx_h100,gpus_per_node=4")
    early, usual = (
        simulate(one, cluster, detail=detail, constants=constants(step_seconds=seconds)).step_time
        for seconds in (0.0, 0.25)
    )
    assert usual - early == pytest.approx(0.25 if late else 0.0, abs=1e-9)


def test_graphs_spare_launches_and_nothing_else_of_the_host():
    """A launch interval far above all kernels counts once for each op without graphs, and never with them."""
    slow = constants(launch_interval=0.01)
    with_graphs = [
        simulate(STEP.replace(graphs=True), "dgx_h100,gpus_per_node=4", constants=each).step_time
        for each in (None, slow)
    ]
    assert with_graphs[0] == with_graphs[1]
    without = simulate(STEP, "dgx_h100,gpus_per_node=4", constants=slow)
    program = STEP.program()
    count = sum(len(program.blocks[replay.block].ops) for replay in program.orders[0,])
    begins = kernels(H100.name).training.step_seconds
    assert without.step_time == pytest.approx(begins + 0.01 * (count - 1), rel=0.01)
