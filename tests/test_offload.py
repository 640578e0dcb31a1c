"""Model states at the host: what leaves the accelerator's memory, what travels, what it costs."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import topologies
from simulator import simulate
from simulator.fabrics import published
from topologies.hosts import CPU_MEMORY, NVME_READ, NVME_WRITE
from workloads import TrainingStep, models
from workloads.ops import HostCopy

MODEL = models.build("llama3_8b,layers=4,vocab=0")
COUNT = MODEL.parameters()
PCIE5 = 63e9 * published().fabric("pcie", "H100-SXM5").share
GIB = 2**30


def step(offload, plan="fsdp=8", batch=16, model=MODEL, **options):
    return TrainingStep(model, plan, batch, 2048, offload=offload, **options)


def rows(step):
    program = step.program()
    return program.memory[0,].rows(program.orders[0,])


def copies(step):
    """Bytes that a rank copies in a step, by kind."""
    program, found = step.program(), {}
    for replay in program.orders[0,]:
        for op in program.blocks[replay.block].ops:
            if isinstance(op, HostCopy):
                found[op.kind] = found.get(op.kind, 0.0) + op.bytes
    return found


@pytest.mark.parametrize(
    ("offload", "expected"),
    [("none", 29.01), ("optimizer+gradients", 3.66), ("optimizer+gradients+parameters", 0.49)],
)
def test_states_of_zero_3_with_offload(offload, expected):
    """Case A05: 6805e6 parameters on 4 GPUs, 18 bytes each, the largest layer of 131e6 gathered with its gradient.

    4 x largest + 18 N / 4, + 2 N / 4, and alone; what passes through on its way to the host is no state.
    """
    model = models.build("llama2_7b")
    step = TrainingStep(
        model, "fsdp=4,prefetch=0", 4, 2048, offload=offload, optimizer="adam,gradients=4,reduce=2", precision="fp16"
    )
    found, shares = rows(step), {"none": 18, "optimizer+gradients": 2}.get(offload, 0)
    states = sum(found.get(row, 0) for row in ("parameters", "gradients", "master_weights", "optimizer", "gathered"))
    largest = max(layer.parameters for layer in step.stages[0].layers)
    assert states == pytest.approx(4 * largest + shares * model.parameters() / 4, rel=1e-12)
    published = (4 * 131e6 + shares * 6805e6 / 4) / GIB
    assert published == pytest.approx(expected, rel=5e-3)


def test_8_bit_adam_at_the_host_leaves_parameters_and_gradients():
    """Case A14: 70.6e9 parameters over 8 GPUs take 35 GB; with activations they fit in 80 GB."""
    found = rows(step("optimizer", optimizer="adam_8bit"))
    assert found["parameters"] + found["gradients"] == 4 * COUNT / 8
    assert "optimizer" not in found
    assert round(4 * 70.6 / 8) == 35


def test_what_travels_in_a_step():
    """Gradients once or in both microbatches, parameters back or for every pass; 30 bytes moved by an update."""
    each = COUNT / 8
    assert copies(step("none")) == {}
    assert copies(step("optimizer")) == {"to_host": 2 * each, "from_host": 2 * each, "update": 30 * each}
    assert copies(step("optimizer+gradients"))["to_host"] == 2 * 2 * each
    assert copies(step("optimizer+gradients+parameters"))["from_host"] == pytest.approx(2 * 2 * 2 * each, rel=1e-12)
    drives = copies(step("optimizer,to=nvme"))
    assert (drives["load"], drives["store"]) == (12 * each, 12 * each)
    assert copies(step("optimizer+gradients+parameters,to=nvme"))["store"] == pytest.approx(14 * each, rel=1e-12)


@pytest.mark.parametrize("plan", ["dp=8,zero=1", "dp=8,zero=2", "dp=8", "dp=2 fsdp=4", "pp=2 dp=2,zero=1 tp=2"])
def test_gradients_leave_once_they_are_reduced(plan):
    """What leaves is what a rank updates: its share, or all of its parameters where nothing is sharded."""
    sent = copies(step("optimizer", plan))
    assert sent["update"] == pytest.approx(30 / 2 * sent["to_host"], rel=1e-12)
    assert sent["from_host"] == pytest.approx(sent["to_host"], rel=1e-12)


@pytest.mark.parametrize(
    ("offload", "seconds"),
    [
        ("optimizer", 30 * COUNT / CPU_MEMORY),
        ("optimizer,to=nvme", 12 * COUNT / NVME_WRITE),
        (
            "optimizer,to=nvme,overlap=off",
            12 * COUNT / NVME_READ + 30 * COUNT / CPU_MEMORY + 12 * COUNT / NVME_WRITE + 2 * 2 * COUNT / 8 / PCIE5,
        ),
    ],
)
def test_the_slowest_way_sets_the_time_of_an_update(offload, seconds):
    """Eight ranks share CPUs and drives; in a pipeline of eight parts others add a little, one after the other all."""
    cluster = topologies.build("dgx_h100")
    without = simulate(step("none", optimizer="none"), cluster)
    result = simulate(step(offload), cluster)
    added = result.step_time - without.step_time
    assert seconds < added < 1.25 * seconds
    assert result.exposed["host"] == pytest.approx(added, rel=0.1)


def test_faster_hosts_help():
    one = step("optimizer,to=nvme")
    drives = ",nvme_write=100e9,nvme_read=100e9"
    times = [
        simulate(one, f"dgx_h100{options}").step_time
        for options in ("", drives, f"{drives},host_memory_bandwidth=400e9")
    ]
    assert times[0] > 1.5 * times[1] > 1.5 * times[2]


@settings(max_examples=15, deadline=None)
@given(
    offload=st.sampled_from(
        ["optimizer", "optimizer+gradients+parameters", "optimizer,to=nvme", "optimizer,overlap=off"]
    ),
    plan=st.sampled_from(["fsdp=8", "fsdp=4 tp=2", "pp=2 fsdp=4", "pp=2,schedule=gpipe tp=4", "dp=2,zero=2 tp=4"]),
    recompute=st.sampled_from(["none", "full,every=2"]),
    slow=st.booleans(),
)
def test_folded_is_unfolded(offload, plan, recompute, slow):
    assume(not ("parameters" in offload and "zero" in plan))
    one, cluster = step(offload, plan, recompute=recompute), topologies.build("dgx_h100")
    cluster = cluster.degrade(rank=3, compute=0.8) if slow else cluster
    folded, unfolded = (simulate(one, cluster, fold=fold, shortcuts=False).step_time for fold in (True, False))
    assert folded == unfolded
    assert simulate(one, cluster).step_time == pytest.approx(folded, rel=1e-9)


@pytest.mark.parametrize(
    ("offload", "plan", "message"),
    [
        ("optimiser", "fsdp=8", "unknown state to offload 'optimiser'; did you mean optimizer"),
        ("optimizer,to=disk", "fsdp=8", "unknown place to offload to 'disk'; Known: cpu, nvme"),
        ("optimizer,way=nvme", "fsdp=8", "unknown option of offload 'way'; Known: overlap, to"),
        ("parameters", "fsdp=8", "offload=parameters: without the optimizer nothing else is offloaded"),
        ("optimizer,overlap=1", "fsdp=8", "overlap=1 is neither on nor off"),
        ("optimizer+gradients", "dp=8", "sends gradients in every microbatch, but dp=8 reduces them at the end"),
        ("optimizer+gradients", "fsdp=8,sync=off", "fsdp=8,sync=off reduces them at the end of the step; use zero=2"),
        ("optimizer+parameters", "dp=8,zero=1", "dp=8,zero=1 has neither; use dp with zero=0 or fsdp with reshard=on"),
        ("optimizer+parameters", "fsdp=8,reshard=off", "fetches parameters for every pass, whole or in shares"),
        ("none,to=nvme", "fsdp=8", "offload=none has no options, and so no to"),
        ("none,overlap=off", "fsdp=8", "offload=none has no options, and so no overlap"),
        ("optimizer", "dp=8,overlap=off", "as they become complete, but dp=8,overlap=off reduces them at the end"),
    ],
)
def test_bad_input_in_one_line(offload, plan, message):
    with pytest.raises(ValueError, match=message) as failure:
        step(offload, plan)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("states", "plan", "cluster", "each", "ranks"),
    [
        ("optimizer", "fsdp=8", "dgx_h100", 12 / 8, 8),
        ("optimizer+gradients+parameters", "fsdp=8", "dgx_h100", 16 / 8, 8),
        ("optimizer", "dp=2 fsdp=8", "dgx_h100,nodes=2", 12 / 8, 8),
        ("optimizer", "fsdp=8", "dgx_h100,host_devices=2", 12 / 8, 2),
    ],
)
def test_what_is_offloaded_is_on_a_host(states, plan, cluster, each, ranks):
    """Bytes a parameter of master weights and moments, and of the rest, of the ranks that share a host."""
    result = simulate(step(states, plan, batch=16), cluster)
    assert result.offloaded_memory == pytest.approx(ranks * each * step("none", plan, batch=16).model.parameters())
    assert "offloaded" in str(result)
    assert simulate(step("none", plan, batch=16), cluster).offloaded_memory == 0
