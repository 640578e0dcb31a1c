"""Laws that hold for every legal step: conservation, symmetry, monotony."""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import topologies
from simulator import Result, simulate
from topologies import Topology
from workloads import TrainingStep
from workloads.ops import P2P, Collective, Compute, Op

SHORT = 65
PASSES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
BASE = TrainingStep("llama3_8b,layers=4", "pp=2,schedule=interleaved dp=2,zero=1 tp=2", batch=8, sequence=2048)


@st.composite
def steps(draw: st.DrawFn, ranks: int = 0) -> TrainingStep:
    """Any legal small step on 8, 16 or 32 ranks, or on just so many."""
    ranks = ranks or draw(st.sampled_from([8, 16, 32]))
    tp = draw(st.sampled_from([1, 2, 4, 8]))
    pp = draw(st.sampled_from([each for each in (1, 2, 4) if ranks % (tp * each) == 0]))
    fsdp = draw(st.sampled_from([each for each in (1, 2, 4) if ranks // tp // pp % each == 0]))
    dp = ranks // tp // pp // fsdp
    schedule = draw(st.sampled_from(["gpipe", "1f1b", "interleaved"]))
    microbatches = draw(st.integers(1, 2)) * pp if schedule == "interleaved" else draw(st.integers(1, 6))
    return TrainingStep(
        f"llama3_8b,layers={draw(st.integers(2 * pp, 8))}",
        f"pp={pp},schedule={schedule} dp={dp},zero={draw(st.integers(0, 1))} fsdp={fsdp} "
        f"tp={tp},sp={draw(st.sampled_from(['on', 'off']))}",
        batch=dp * fsdp * microbatches,
        sequence=draw(st.sampled_from([1024, 4096])),
        recompute=draw(st.sampled_from(["none", "full"])),
        optimizer=draw(st.sampled_from(["adam", "none"])),
    )


def servers(step: TrainingStep) -> Topology:
    """As many DGX H100 as the step needs."""
    return topologies.build("dgx_h100", nodes=step.plan.world_size // 8)


def simulated(step: TrainingStep, **options: object) -> Result:
    return simulate(step, servers(step), **options)


def ops_of(result: Result, rank: int) -> Iterator[Op]:
    """Every op instance of a rank, straight from the program."""
    program = result.program
    place = program.mesh.coordinates(rank)
    for replay in program.orders[tuple(place.get(axis, 0) for axis in program.varies)]:
        yield from program.blocks[replay.block].ops


def sent_bytes(step: TrainingStep, op: Op) -> float:
    """What one member of a ring sends: passes x (n - 1) / n of the buffer; a message sends all of its own."""
    if isinstance(op, P2P):
        return op.bytes if op.kind == "send" else 0.0
    assert isinstance(op, Collective)
    members = math.prod(step.plan.degree(axis) for axis in op.axes)
    return PASSES[op.kind] * (members - 1) / members * op.bytes


@settings(max_examples=25, deadline=None)
@given(step=steps())
def test_every_second_of_every_rank_is_accounted_for(step):
    """Compute + bubble + exposed + launch + idle = step time; no part is negative."""
    result = simulated(step)
    for detail in (result, simulated(step, detail="actions")):
        parts = detail.to_frame("ranks").filter(regex="_seconds$")
        assert (parts.to_numpy() >= -1e-12 * detail.step_time).all()
        np.testing.assert_allclose(parts.sum(axis=1), detail.step_time, rtol=1e-9)
    assert result.to_frame("ranks")["ranks_in_class"].sum() == step.plan.world_size


ALONE_ON_FOUR_SERVERS = TrainingStep(
    "llama3_8b,layers=4", "pp=2,schedule=gpipe dp=2 tp=8,sp=off", batch=2, sequence=1024
)
"""One microbatch, gradients in flight while the other stage computes; short cuts once differed here when folded."""


@settings(max_examples=12, deadline=None)
@given(step=steps())
@example(step=ALONE_ON_FOUR_SERVERS)
@example(step=BASE.replace(plan="fsdp=4 tp=2", optimizer="none"))
def test_folded_equals_unfolded(step):
    """Step time, and where each rank's time went."""
    for detail in ("ops", "actions"):
        folded, unfolded = (simulated(step, detail=detail, fold=fold) for fold in (True, False))
        assert unfolded.rank_classes == step.plan.world_size
        assert folded.step_time == pytest.approx(unfolded.step_time, rel=1e-9)
        ours, theirs = (each.to_frame("ranks", expand=True) for each in (folded, unfolded))
        columns = [name for name in theirs if name.endswith("_seconds")]
        np.testing.assert_allclose(ours[columns], theirs[columns], rtol=1e-9, atol=1e-9 * folded.step_time)


@settings(max_examples=25, deadline=None)
@given(step=steps())
def test_flops_over_ranks_are_the_models(step):
    """All kernels of all ranks together do the model's FLOPs, and the forwards that are recomputed."""
    program = step.program()
    replicas = step.plan.world_size // step.plan.degree("pp")
    kernels = [
        op.flops
        for order in program.orders.values()
        for replay in order
        for op in program.blocks[replay.block].ops
        if isinstance(op, Compute)
    ]
    assert replicas * sum(kernels) == pytest.approx(program.model_flops + program.recompute_flops, rel=1e-12)
    assert program.model_flops == step.model.flops(step.tokens, sequence=step.sequence)
    assert program.tokens == step.batch * step.sequence


@settings(max_examples=25, deadline=None)
@given(step=steps())
def test_parameters_over_ranks_are_the_models_times_its_replicas(step):
    """Stages and fsdp split everything, tp all but the norms, dp nothing."""
    memory = simulated(step).to_frame("memory", expand=True)
    model, tp = step.model, step.plan.degree("tp")
    norms = model.layers * 2 * model.norm_parameters() + model.final_norm_parameters()
    held = (model.parameters() + (tp - 1) * norms) * step.plan.degree("dp")
    assert memory["parameters_bytes"].sum() == pytest.approx(2 * held, rel=1e-12)


@settings(max_examples=12, deadline=None)
@given(step=steps())
def test_utilisation_is_between_0_and_1(step):
    """0 < MFU <= HFU <= 1. Full recomputation repeats the layers' forwards: a third of what they cost."""
    result = simulated(step)
    assert 0 < result.mfu <= result.hfu <= 1
    layers = step.model.replace(vocab=0).flops(1, sequence=step.sequence)
    extra = layers / 3 / step.model.flops(1, sequence=step.sequence) if step.recompute.full else 0.0
    assert result.hfu / result.mfu == pytest.approx(1 + extra, rel=1e-9)
    assert extra < 1 / 3


@settings(max_examples=12, deadline=None)
@given(step=steps(), data=st.data())
def test_an_axis_of_degree_1_is_the_identity(step, data):
    short = " ".join(str(strategy) for strategy in step.plan.strategies if strategy.degree > 1)
    words = short.split()
    free = [axis for axis in ("pp", "dp", "fsdp", "tp") if step.plan.degree(axis) == 1]
    for axis in data.draw(st.permutations(free)):
        words.insert(data.draw(st.integers(0, len(words))), f"{axis}=1")
    plain, padded = simulated(step.replace(plan=short)), simulated(step.replace(plan=" ".join(words)))
    assert plain.figures == padded.figures


@settings(max_examples=12, deadline=None)
@given(step=steps(), family=st.sampled_from(["flat,ranks={}", "dgx_h100,nodes={}"]))
def test_bytes_on_links_are_the_collectives_definition(step, family):
    """Among equals on one switch every rank's way up carries what its rings and messages send, no more, no less.

    Collectives of a few numbers load no link.
    """
    if step.plan.world_size > 8:
        family = "flat,ranks={}"
    cluster = topologies.build(family.format(step.plan.world_size if "flat" in family else 1))
    rings = dict.fromkeys(PASSES, "ring")
    result = simulate(step, cluster, fold=False, algorithms=rings)
    links = result.to_frame("links").set_index("source")["carried_bytes"]
    for rank, device in enumerate(cluster.devices):
        sent = sum(sent_bytes(step, op) for op in ops_of(result, rank) if not isinstance(op, Compute))
        trifles = sum(sent_bytes(step, op) for op in ops_of(result, rank) if getattr(op, "bytes", SHORT) < SHORT)
        assert links[str(device)].sum() == pytest.approx(sent, rel=1e-9, abs=trifles)
    whole = simulate(step, cluster, algorithms=rings).to_frame("links")
    assert (whole["carried_bytes"] * whole["links_in_class"]).sum() == pytest.approx(links.sum(), rel=1e-9)


@settings(max_examples=12, deadline=None)
@given(step=steps())
def test_no_link_carries_more_than_it_can(step):
    for network in ("shared", "unshared"):
        shares = simulated(step, network=network).to_frame("links")["busy_share"]
        assert (shares >= 0).all()
        if network == "shared":
            assert (shares <= 1 + 1e-9).all()


@settings(max_examples=12, deadline=None)
@given(step=steps(), data=st.data())
def test_a_link_nobody_crosses_changes_nothing(step, data):
    cluster = servers(step)
    result = simulate(step, cluster)
    links = simulate(step, cluster, fold=False).to_frame("links")
    idle = links[links["carried_bytes"] == 0]
    if idle.empty:
        return
    link = cluster.links.ends[data.draw(st.sampled_from(idle["link"].tolist()))]
    assert simulate(step, cluster.degrade(link=link, bandwidth=0.01)).step_time == result.step_time


@settings(max_examples=12, deadline=None)
@given(step=steps(), data=st.data())
def test_relabelling_ranks_of_a_symmetric_cluster_changes_nothing(step, data):
    """Any order of GPUs within every server, and of the servers, is a symmetry of DGX servers on one switch."""
    cluster = servers(step)
    nodes = data.draw(st.permutations(range(cluster.size // 8)))
    places = [data.draw(st.permutations(range(8))) for _ in nodes]
    order = [8 * node + place for node, inside in zip(nodes, places, strict=True) for place in inside]
    moved = cluster.replace(devices=tuple(cluster.devices[rank] for rank in order))
    assert simulate(step, moved).step_time == pytest.approx(simulate(step, cluster).step_time, rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(step=steps())
def test_a_network_without_contention_is_never_slower(step):
    assert simulated(step, network="unshared").step_time <= simulated(step).step_time * (1 + 1e-9)


def faster_chips(cluster: Topology, factor: float) -> Topology:
    """Peaks and memory bandwidth times a factor."""
    chip = cluster.accelerators[0]
    peaks = {dtype: peak * factor for dtype, peak in chip.peak_flops.items()}
    faster = dataclasses.replace(chip, peak_flops=peaks, memory_bandwidth=chip.memory_bandwidth * factor)
    return cluster.replace(accelerators=(faster,) * cluster.size)


def slower_links(cluster: Topology, factor: float) -> Topology:
    """Every link at a share of its bandwidth."""
    return cluster.replace(link_factors=dict.fromkeys(cluster.links.ends, factor))


@settings(max_examples=15, deadline=None)
@given(step=steps(), factor=st.sampled_from([1.1, 2.0, 10.0]))
def test_faster_hardware_is_never_slower(step, factor):
    """Exact without contention; with it, slower kernels may meet transfers at a luckier moment: 2 %."""
    cluster = servers(step)
    for network, allowed in (("unshared", 1e-9), ("shared", 0.02)):
        base, chips, links = (
            simulate(step, each, network=network).step_time
            for each in (cluster, faster_chips(cluster, factor), slower_links(cluster, 1 / factor))
        )
        assert chips <= base * (1 + allowed)
        assert base <= links * (1 + allowed)


def test_a_step_is_deterministic():
    """Equal input, equal figures, whatever was cached before."""
    first, second = (simulated(BASE.replace(batch=8)) for _ in range(2))
    assert first.figures == second.figures
    assert first.to_frame("spans").equals(second.to_frame("spans"))
