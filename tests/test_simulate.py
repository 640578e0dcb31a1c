"""The main job and the closed forms, through the public front."""

import re
import subprocess
import sys
from dataclasses import replace

import networkx
import pytest

import topologies
from simulator import DeadlockError, Result, simulate, time_collective
from topologies import accelerators
from workloads import DeviceMesh, Program, TrainingStep, models
from workloads.ops import P2P, Compute

INTERLEAVED = "pp=16,schedule=interleaved,virtual=8 dp=128,zero=1 tp=8"


def llama(plan: str = INTERLEAVED, *, replicas: int = 128, detail: str = "ops") -> Result:
    """Llama 3 405B with 16 sequences per replica, on as much of its cluster as the plan needs."""
    step = TrainingStep("llama3_405b", plan, batch=16 * replicas, sequence=8192, microbatch=1)
    return simulate(step, topologies.build("llama3_cluster", gpus=step.plan.world_size), detail=detail)


@pytest.fixture(scope="module")
def main_job() -> Result:
    return llama()


def test_the_front_gives_functions_whatever_was_imported_before():
    """A submodule must not hide a function of the same name."""
    code = "import simulator.cli, simulator; from simulator import sweep, simulate, replay_schedule; \
        print(all(type(each).__name__ == 'function' for each in (sweep, simulate, replay_schedule)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_main_job_is_sane(main_job):
    """Published for this plan: about 400 TFLOP/s per GPU, MFU about 41 %; kernels are as fast as by themselves."""
    assert main_job.topology.size == 16_384
    assert main_job.rank_classes <= 64
    assert 0.8 * 400e12 <= main_job.flops_per_accelerator <= 1.2 * 400e12
    assert main_job.tokens_per_second * main_job.step_time == pytest.approx(2048 * 8192)
    assert 0 < main_job.mfu == main_job.hfu <= 1
    assert main_job.memory_fits


def test_main_job_has_the_bubble_of_interleaving(main_job):
    """(p - 1) / (vm + p - 1) = 15/143 for equal stages. End stages without a layer and slower hops add to it."""
    assert 15 / 143 < main_job.bubble_fraction < 2 * 15 / 143
    assert "126 layers are split unevenly over 128 stages: 0-1x126-0" in main_job.warnings


def test_end_stages_hold_no_layer(main_job):
    """Stage 0 embeds, stage 127 has the head, and every stage between them has one layer."""
    step = main_job.step
    assert step.layer_counts == (0, *[1] * 126, 0)
    blocks = main_job.program.blocks
    kinds = {key.stage: {op.kind for op in block.ops} for key, block in blocks.items() if key.kind == "F"}
    assert [stage for stage in kinds if "attention" not in kinds[stage]] == [0, 127]
    assert "embedding" in kinds[0]
    assert "loss" in kinds[127]


def test_plain_1f1b_pays_its_bubble(main_job):
    """15/31 of the phase is bubble, so MFU is (16/31) / (128/143) = 0.58 of the interleaved one, all else equal."""
    plain = llama("pp=16 dp=128,zero=1 tp=8")
    assert plain.bubble_fraction == pytest.approx(15 / 31, rel=0.05)
    assert plain.mfu / main_job.mfu == pytest.approx((16 / 31) / (128 / 143), rel=0.1)


def test_without_zero_it_does_not_fit_and_the_summary_says_why(main_job):
    """The row that broke the budget, and the nearest change that fits."""
    result = llama(INTERLEAVED.replace(",zero=1", ""))
    assert not result.memory_fits
    line = next(line for line in str(result).splitlines() if "memory" in line)
    worst = max(result.memory, key=lambda rows: sum(rows.values()))
    row = max(worst, key=worst.get)
    assert f"does not fit; the largest row is {row}, {worst[row] / 1e9:.1f} GB" in line
    assert re.search(r"; (dp=128,zero=1|recompute=\S+) fits with \d+\.\d GB", line)
    frames = [each.to_frame("memory", expand=True) for each in (result, main_job)]
    ours, theirs = (frame["optimizer_bytes"] + frame["master_weights_bytes"] for frame in frames)
    assert result.peak_memory - main_job.peak_memory == pytest.approx((ours - theirs).max(), rel=0.1)


def test_actions_agree_with_ops(main_job):
    assert llama(detail="actions").step_time == pytest.approx(main_job.step_time, rel=0.02)


def test_classes_do_not_grow_with_replicas(main_job):
    few = llama(INTERLEAVED.replace("dp=128", "dp=8"), replicas=8)
    assert few.rank_classes == main_job.rank_classes
    assert few.timeline.ops_replayed == pytest.approx(main_job.timeline.ops_replayed, rel=0.01)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("detail", ["ops", "actions"])
@pytest.mark.parametrize(
    ("p", "m", "bubble"),
    [(4, 8, 3 / 11), (4, 32, 3 / 35), (4, 4, 1 - 16 / 28), (4, 1, 1 - 1 / 4), (2, 5, 1 / 6), (8, 8, 7 / 15)],
)
def test_ideal_bubble_through_the_whole_stack(schedule, detail, p, m, bubble):
    """(p - 1) / (m + p - 1) with equal stages, free links and nothing but layers."""
    step = TrainingStep(
        f"llama3_8b,vocab=0,layers={2 * p}", f"pp={p},schedule={schedule}", batch=m, sequence=4096, optimizer="none"
    )
    result = simulate(step, topologies.build("flat", ranks=p, bandwidth=float("inf"), latency=0.0), detail=detail)
    assert bubble == pytest.approx((p - 1) / (m + p - 1), abs=1e-15)
    assert result.bubble_fraction == pytest.approx(bubble, abs=1e-9)
    assert result.mean_seconds["compute_seconds"] / result.step_time == pytest.approx(1 - bubble, abs=1e-9)
    assert sum(result.exposed.values()) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("v", [2, 4])
def test_ideal_bubble_of_interleaving(v):
    """(p - 1) / (vm + p - 1)."""
    p, m = 4, 8
    plan = f"pp={p},schedule=interleaved,virtual={v}"
    step = TrainingStep(f"llama3_8b,vocab=0,layers={p * v}", plan, batch=m, sequence=4096, optimizer="none")
    result = simulate(step, topologies.build("flat", ranks=p, bandwidth=float("inf"), latency=0.0))
    assert result.bubble_fraction == pytest.approx((p - 1) / (v * m + p - 1), abs=1e-9)


def test_ddp_reduces_the_gradients_of_a_7b_model():
    """6.738 B parameters x 2 bytes = 13.48 GB a step and rank; the switch reduces: 1 + 1/8 of them each way."""
    gradients = 2 * models.build("llama2_7b").parameters()
    assert gradients == pytest.approx(13.48e9, rel=1e-3)
    step = TrainingStep("llama2_7b", "dp=8", batch=8, sequence=4096, precision="fp16", optimizer="none")
    result = simulate(step, topologies.build("dgx_h100"))
    collectives = result.to_frame("collectives")
    assert set(collectives["kind"]) == {"all_reduce"}
    assert (collectives["ops"] * collectives["bytes"]).sum() == gradients
    links = result.to_frame("links").set_index("kind")
    assert set(collectives["algorithm"]) == {"in_switch"}
    assert links.loc["nvlink", "carried_bytes"] == pytest.approx((1 + 1 / 8) * gradients, rel=1e-12)
    assert links.loc["infiniband", "carried_bytes"] == 0


def test_hierarchical_all_reduce_across_servers():
    """N = 2 hosts of g = 8: NVLink carries 2(g - 1)/g of the buffer, each card 2(N - 1)/N of an eighth of it."""
    gradients = 2 * models.build("llama2_7b").parameters()
    step = TrainingStep("llama2_7b", "dp=16", batch=16, sequence=4096, precision="fp16", optimizer="none")
    result = simulate(step, topologies.build("dgx_h100", nodes=2), algorithms={"all_reduce": "hierarchical"})
    assert set(result.to_frame("collectives")["algorithm"]) == {"hierarchical"}
    links = result.to_frame("links").set_index("kind")["carried_bytes"]
    assert links["nvlink"] == pytest.approx(2 * 7 / 8 * gradients, rel=1e-12)
    assert links["infiniband"] == pytest.approx(2 * 1 / 2 * gradients / 8, rel=1e-12)


def test_a_graph_of_the_users_own_is_the_cluster_it_describes():
    """A star of 8 devices with the flat switch's links gives the flat switch's time."""
    flat = topologies.build("flat", ranks=8, bandwidth=50e9, latency=1e-6)
    star = networkx.star_graph(8)
    networkx.set_node_attributes(star, {rank + 1: True for rank in range(8)}, "device")
    for _, _, edge in star.edges(data=True):
        edge.update(bandwidth=50e9, latency=1e-6, kind="port")
    step = TrainingStep("llama3_8b,layers=4", "pp=2 dp=2 tp=2", batch=8, sequence=2048)
    assert simulate(step, topologies.from_graph(star)).step_time == simulate(step, flat).step_time


def test_a_straggler_slows_the_step_and_splits_classes():
    cluster = topologies.build("dgx_h100", nodes=2)
    step = TrainingStep("llama3_8b,layers=4", "pp=2 dp=4 tp=2", batch=16, sequence=4096)
    whole, slow = simulate(step, cluster), simulate(step, cluster.degrade(rank=13, compute=0.5))
    assert 1.05 < slow.step_time / whole.step_time <= 2
    assert slow.rank_classes > whole.rank_classes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"detail": "kernels"}, r"unknown detail 'kernels'; .*actions, ops"),
        ({"network": "share"}, r"unknown network 'share'; did you mean shared\?"),
    ],
)
def test_unknown_ways_to_simulate_are_refused(options, message):
    step = TrainingStep("llama3_8b,layers=4", "dp=8", batch=8, sequence=2048)
    with pytest.raises(ValueError, match=message):
        simulate(step, topologies.build("dgx_h100"), **options)


def test_a_plan_that_does_not_fill_the_cluster_is_refused():
    step = TrainingStep("llama3_8b", "pp=4 fsdp=8 tp=8", batch=8, sequence=8192)
    with pytest.raises(ValueError, match=r"pp=4 × fsdp=8 × tp=8 = 256 ranks, but dgx_h100,nodes=16 has 128"):
        simulate(step, topologies.build("dgx_h100", nodes=16))


def test_a_deadlock_names_ranks_and_ops():
    """Two ranks that both receive first wait for ever."""
    message = {"axis": "pp", "offset": 1, "bytes": 1.0}
    ops = [P2P(name="take", kind="recv", **message), P2P(name="give", kind="send", **message)]
    program = Program.of(DeviceMesh({"pp": 2}), {(0,): ops, (1,): ops})
    with pytest.raises(DeadlockError) as caught:
        simulate(program, topologies.build("flat,ranks=2"), fold=False)
    for rank in (0, 1):
        assert f"rank {rank} waits in 'take'" in str(caught.value)


def test_a_hand_made_program_simulates():
    """One second per peak's worth of FLOPs on an ideal device."""
    kernel = Compute(name="kernel", kind="gemm", flops=3.0)
    program = Program.of(DeviceMesh({"pp": 1}), {(0,): [kernel]})
    result = simulate(program, topologies.build("flat", ranks=1, accelerator="ideal"))
    assert result.step_time == 3.0
    assert result.mean_seconds["compute_seconds"] == 3.0


def test_without_overlap_all_parameters_are_gathered_before_anything_is_computed():
    """ZeRO-1's gathers run beside the first forwards, unless dp is told not to overlap."""
    plan = "pp=2,schedule=interleaved,virtual=2 dp=2,zero=1{} tp=4"
    for option, ahead in (("", True), (",overlap=off", False)):
        step = TrainingStep("llama3_8b,layers=8", plan.format(option), batch=4, sequence=2048)
        spans = simulate(step, "dgx_h100,nodes=2").to_frame("spans")
        first = spans[spans["rank"] == 0]
        gathered = first.loc[first["action"] == "open", "end_seconds"].max()
        computes = first.loc[(first["work"] == "compute") & (first["action"] == "F"), "start_seconds"].min()
        assert (computes < gathered) == ahead


def test_delays_that_vanish_in_rounding():
    """Where a FLOP takes a second, a microsecond on the way changes no time, and nothing enters its links twice."""
    step = TrainingStep("llama3_8b,layers=4", "pp=2 tp=4", 8, 1024)
    result = simulate(step, "flat,ranks=8,accelerator=ideal")
    assert result.step_time > 1e12
    assert result.to_frame("links")["carried_bytes"].max() > 0


LITTLE = "llama3_8b,layers=2,hidden=64,heads=2,kv_heads=2,head_dim=32,ffn=64,vocab=64"
PARAMETER_BYTES = 2 * models.build(LITTLE).parameters()


def optimizer_groups(shard, options="", model="llama3_8b,layers=2"):
    """A step of 64 ranks on slow links between nodes, its optimizer sharded in groups of so many."""
    step = TrainingStep(model, f"dp=64,zero=1,shard={shard},overlap=off{options}", batch=64, sequence=1024)
    return simulate(step, topologies.build("dgx_h100", nodes=8, nic_gbit=100))


def test_groups_of_a_node_send_no_more_than_their_shares_of_gradients_through_the_network():
    """With 8 cards of one GPU each, a ring of the 8 that have one share does 2 × 7/8 of it: 1/8 of P bytes × 2."""
    step, result = TrainingStep("llama3_8b,layers=2", "dp=1", 1, 1024), optimizer_groups(8)
    bytes_a_rank = 2 * 7 / 8 * (2 * step.model.parameters() / 8)
    links = result.to_frame("links")
    (cards,) = links[links["kind"] == "infiniband"].itertuples()
    assert cards.links_in_class == 2 * 64
    assert cards.carried_bytes == pytest.approx(bytes_a_rank, rel=1e-3)


def test_broadcasts_of_shares_take_their_start_as_often_as_there_are_ranks():
    """Where next to nothing is sent: n starts instead of one, each of a chain of n - 1 steps."""
    for n in (2, 4, 8):
        spans = optimizer_groups(n, ",gather=broadcast", LITTLE).to_frame("spans")
        first = spans[spans["name"].str.startswith("parameters") & (spans["rank"] == 0)]
        (each,) = {round(length, 9) for length in first["end_seconds"] - first["start_seconds"]}
        one = time_collective(
            "broadcast", bytes=PARAMETER_BYTES / n, ranks=range(n), topology="dgx_h100,nodes=8,nic_gbit=100"
        )
        assert len(first) == n
        assert each == pytest.approx(one.seconds, abs=1e-9)


LAYER = models.build("llama3_8b,layers=1,vocab=0")
FLOPS = 1e12


def forward_time(overlap, bandwidth, tp=4):
    """Seconds of one layer's forward where kernels reach their peak, memory is free and links have no latency."""
    chip = replace(accelerators.build("ideal"), name="fast", peak_flops={"bf16": FLOPS})
    step = TrainingStep(LAYER, f"tp={tp},overlap={overlap}", batch=1, sequence=1024, optimizer="none")
    cluster = topologies.build("flat", ranks=tp, bandwidth=bandwidth, latency=0, accelerator=chip)
    spans = simulate(step, cluster).to_frame("spans")
    return spans[(spans["action"] == "F") & (spans["stream"] == "compute")]["end_seconds"].max()


@pytest.mark.parametrize("ratio", [1e-9, 0.1, 1, 10])
def test_overlapped_tensor_parallelism_leaves_one_piece_and_what_products_do_not_cover(ratio):
    """Of a collective of c seconds, 1/n is exposed, and of the rest what is longer than its product of g seconds."""
    tp, tokens, h = 4, 1024, LAYER.hidden
    widths = (LAYER.qkv_width, h, LAYER.up_width, LAYER.ffn)
    products = [2 * tokens * h * width / tp / FLOPS for width in widths]
    collective = ratio * products[1]
    bandwidth = (tp - 1) / tp * 2 * tokens * h / collective
    on, off = (forward_time(overlap, bandwidth) for overlap in ("on", "off"))
    exposed = [collective / tp + max(0, collective * (tp - 1) / tp - product) for product in products]
    assert off - on == pytest.approx(4 * collective - sum(exposed), rel=1e-9, abs=1e-9 * off)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("schedule", ["one_f_one_b", "zb_h1"])
@pytest.mark.parametrize("bandwidth", [2e11, 1e16])
def test_overlap_of_tensor_parallelism_is_never_slower_but_for_its_further_starts(bandwidth, schedule, recompute):
    times = {}
    for overlap in ("on", "off"):
        plan = f"pp=2,schedule={schedule} tp=4,overlap={overlap}"
        step = TrainingStep("llama3_8b,layers=4", plan, batch=4, sequence=4096, recompute=recompute)
        times[overlap] = simulate(step, topologies.build("dgx_h100", nvlink_bandwidth=bandwidth)).step_time
    start = time_collective("all_gather", bytes=64, ranks=range(4), topology="dgx_h100").seconds
    microbatches, layers, cut = 4, 2, 6 + 4 * (recompute == "full")
    assert times["on"] < times["off"] + microbatches * layers * cut * start
    assert bandwidth > 1e15 or times["on"] < 0.98 * times["off"]
