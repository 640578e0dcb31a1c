"""Efficiency of whole steps: MFU and HFU, kernels and precisions, generations of hardware, memory and its verdicts."""

import json
import re

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from simulator import simulate
from simulator.cli import main
from simulator.compute import MEMORY_BOUND, Roofline
from simulator.kernels import kernels
from topologies import accelerators
from workloads import TrainingStep, models
from workloads.ops import Compute
from workloads.transformer import CONVENTIONS

LLAMA = models.build("llama3_8b,layers=8")
BARE = LLAMA.replace(vocab=0)
STATES = ("parameters", "gradients", "master_weights", "optimizer")
CHIPS = {
    "h100": ("bf16", "fp16", "fp8"),
    "b200": ("bf16", "fp16", "fp8", "mxfp8", "nvfp4"),
    "gb200": ("bf16", "fp16", "fp8", "mxfp8", "nvfp4"),
}
RECOMPUTE = (
    "none",
    "selective",
    "selective,modules=norm+activation",
    "selective,modules=attention+mlp",
    "full",
    "full,every=sqrt",
    "full,every=3,layers=2",
    "full,head=on",
)


def flat(chip, ranks=8):
    """So many accelerators on one switch."""
    return topologies.build("flat", ranks=ranks, accelerator=chip)


def run(model=LLAMA, plan="fsdp=8", batch=8, sequence=2048, cluster="dgx_h100", **options):
    return simulate(TrainingStep(model, plan, batch, sequence, **options), cluster)


def kernels_of(step, place=(0,)):
    """Every kernel that a rank replays, in program order."""
    program = step.program()
    ops = (op for replay in program.orders[place] for op in program.blocks[replay.block].ops)
    return [op for op in ops if isinstance(op, Compute)]


def compute(result):
    return result.mean_seconds["compute_seconds"]


# ------------------------------------------------------------------------------------------------ MFU and HFU


@st.composite
def steps(draw):
    """A chip, and any legal step on eight of them."""
    chip = draw(st.sampled_from(list(CHIPS)))
    tp = draw(st.sampled_from([1, 2, 4, 8]))
    pp = draw(st.sampled_from([each for each in (1, 2, 4) if 8 % (tp * each) == 0]))
    shards = draw(st.sampled_from([each for each in (1, 2, 4) if 8 // tp // pp % each == 0]))
    replicas, microbatches = 8 // tp // pp // shards, draw(st.integers(1, 2)) * pp
    schedule = draw(st.sampled_from(["gpipe", "1f1b", "interleaved"]))
    microbatch, sp = draw(st.sampled_from([1, 3])), draw(st.sampled_from(["on", "off"]))
    model = LLAMA.replace(
        layers=draw(st.integers(2 * pp, 8)),
        window=draw(st.sampled_from([0, 300, 1024])),
        vocab=draw(st.sampled_from([0, 32000])),
        tied=draw(st.booleans()),
        dropout=draw(st.booleans()),
    )
    step = TrainingStep(
        model,
        f"pp={pp},schedule={schedule} dp={replicas},zero={draw(st.integers(0, 2))} fsdp={shards} tp={tp},sp={sp}",
        replicas * shards * microbatches * microbatch,
        draw(st.sampled_from([512, 2048])),
        microbatch=microbatch,
        precision=draw(st.sampled_from(CHIPS[chip])),
        recompute=draw(st.sampled_from(RECOMPUTE)),
        optimizer=draw(st.sampled_from(["adam", "muon", "none"])),
        attention=draw(st.sampled_from(["flash", "flash2", "unfused"])),
        fusion=draw(st.booleans()),
        graphs=draw(st.booleans()),
    )
    return chip, step


@settings(max_examples=30, deadline=None)
@given(drawn=steps())
def test_utilisation_is_what_kernels_do_over_what_accelerators_could(drawn):
    """MFU = emitted model FLOPs / (peak x time) = the closed form; HFU adds what is repeated; 0 < MFU <= HFU <= 1."""
    chip, step = drawn
    result = simulate(step, flat(chip))
    possible = 8 * accelerators.build(chip).peak(step.precision) * result.step_time
    useful, again = step.program().emitted_flops()
    closed = step.model.flops(step.batch * step.sequence, sequence=step.sequence)
    assert result.mfu == pytest.approx(useful / possible, rel=1e-9)
    assert result.mfu == pytest.approx(closed / possible, rel=1e-9)
    assert result.hfu == pytest.approx((useful + again) / possible, rel=1e-9)
    assert 0 < result.mfu <= result.hfu <= min(1, 4 / 3 * result.mfu * (1 + 1e-12))
    assert sum(result.memory_rows.values()) == result.peak_memory <= result.reserved_memory
    assert result.tokens_per_second * result.step_time == pytest.approx(step.batch * step.sequence, rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(drawn=steps(), other=steps())
def test_no_plan_inflates_tokens_or_flops(drawn, other):
    """Case A21: the same model, batch and sequence, however it is cut up."""
    step = drawn[1].replace(batch=96)
    cut = other[1]
    again = step.replace(model=step.model.replace(layers=8), plan=cut.plan, microbatch=1)
    step = step.replace(model=step.model.replace(layers=8))
    assert again.program().tokens == step.program().tokens == 96 * step.sequence
    assert again.program().model_flops == step.program().model_flops
    assert again.program().emitted_flops()[0] == pytest.approx(step.program().emitted_flops()[0], rel=1e-9)


@pytest.mark.parametrize(
    ("model", "plan", "nodes"), [("llama2_7b", "fsdp=8", 1), ("llama3_70b", "fsdp=32", 4), ("llama2_70b", "fsdp=64", 8)]
)
def test_hfu_over_mfu_of_sharded_runs(model, plan, nodes):
    """Case A19: 1; strictly between; 1.30 to 1.334 without the head; 4/3 with it."""

    def ratio(recompute):
        result = run(model, plan, 8 * nodes, 4096, f"dgx_h100,nodes={nodes}", recompute=recompute)
        return result.hfu / result.mfu

    assert ratio("none") == ratio("selective,modules=norm+activation") == 1
    assert 1.30 < ratio("full") < 1.334
    assert ratio("full,head=on") == pytest.approx(4 / 3, rel=1e-9)
    assert 1 < ratio("selective") < ratio("selective,modules=attention+mlp") < ratio("full")


def test_conventions_change_the_count_and_never_the_time():
    """MFUs are as the counts; the convention comes with the figure."""
    found = {name: run(convention=name, recompute="full", attention="unfused") for name in CONVENTIONS}
    counts = {name: LLAMA.flops(8 * 2048, name, sequence=2048) for name in CONVENTIONS}
    causal = found["causal"]
    for name, result in found.items():
        assert result.step_time == causal.step_time
        assert result.mfu / causal.mfu == pytest.approx(counts[name] / counts["causal"], rel=1e-12)
        assert f"TFLOP/s, {name} attention)" in str(result)
    assert found["full"].mfu > causal.mfu


@pytest.mark.parametrize(("convention", "square"), [("palm", 12), ("palm_causal", 6)])
def test_mfu_is_measured_against_the_dense_peak(convention, square):
    """Case A17: tokens a second x (6N + 12Lhs, or the causal half) over 989.4e12 a GPU; no chip has a sparse peak."""
    result = run("llama2_7b", "fsdp=8", 32, 4096, convention=convention)
    each = 6 * 6_738_415_616 + square * 32 * 4096 * 4096
    assert result.mfu == pytest.approx(result.tokens_per_second / 8 * each / 989.4e12, rel=1e-9)
    assert result.mfu / (result.tokens_per_second / 8) * 10_000 == pytest.approx(
        {"palm": 0.4737, "palm_causal": 0.4412}[convention], rel=5e-3
    )


@pytest.mark.parametrize(("compute", "word"), [(1.0, "excellent"), (0.65, "good"), (0.4, "low")])
def test_the_summary_judges_mfu(compute, word):
    """Above 30 % good, above 40 % excellent; a slow GPU among eight makes all wait."""
    result = run("llama2_7b", "fsdp=8", 8, 4096, topologies.build("dgx_h100").degrade(rank=0, compute=compute))
    least, most = {"excellent": (0.4, 1), "good": (0.3, 0.4), "low": (0, 0.3)}[word]
    assert least < result.mfu <= most
    assert re.search(rf"MFU +{100 * result.mfu:.1f}%, {word} ", str(result))


def test_peaks_of_unequal_accelerators_add_up():
    """A slow chip that is degraded still has its whole peak in the denominator."""
    cluster = topologies.build("dgx_h100")
    old = (accelerators.build("a100_80gb"),) * 4 + cluster.accelerators[4:]
    mixed, slow = cluster.replace(accelerators=old), cluster.degrade(rank=3, compute=0.5)
    for each, peak in ((mixed, 4 * 312e12 + 4 * 989.4e12), (slow, 8 * 989.4e12)):
        result = run(cluster=each)
        assert result.mfu == pytest.approx(LLAMA.flops(8 * 2048, sequence=2048) / peak / result.step_time, rel=1e-9)


def test_big_square_products_reach_about_80_percent_of_the_peak():
    """By themselves on H100; less in a step, at the clock of a sustained load."""
    chip = accelerators.build("h100")
    reached = []
    for n in (1024, 4096, 16384, 32768):
        op = Compute(
            name="x", kind="gemm", flops=2.0 * n**3, shape=(n, n, n), read_bytes=4 * n**2, write_bytes=2 * n**2
        )
        reached.append(op.flops / Roofline().seconds(op, chip) / chip.peak("bf16"))
        assert Roofline(sustained=True).seconds(op, chip) > Roofline().seconds(op, chip)
    assert reached == sorted(reached)
    assert reached[0] < 0.4
    assert reached[-1] == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("precision", "chip", "message"),
    [
        ("fp8", "a100_80gb", "unknown dtype of A100-SXM4-80GB 'fp8'; Known: bf16, fp16, fp32, tf32"),
        ("mxfp8", "a100_80gb", "unknown dtype of A100-SXM4-80GB 'mxfp8'; Known: bf16, fp16, fp32, tf32"),
        ("nvfp4", "h100", "unknown dtype of H100-SXM5 'nvfp4'; Known: bf16, fp16, fp32, fp8, tf32"),
        ("bf16", "v100", "unknown dtype of V100"),
        ("bf16", "rtx4090", "unknown accelerator 'rtx4090'; Known: a100_40gb, a100_80gb"),
    ],
)
def test_no_accelerator_borrows_another_ones_peak(precision, chip, message):
    """Case A20: an unknown chip, or one without the format, is refused in one line that names it."""
    with pytest.raises(ValueError, match=re.escape(message)) as failure:
        simulate(TrainingStep(BARE, "dp=8", 8, 512, precision=precision), f"flat,ranks=8,accelerator={chip}")
    assert "\n" not in str(failure.value)


# ------------------------------------------------------------------------------------------------ recomputation


def test_a_forward_more_costs_a_third_of_the_time_and_frees_most_of_the_activations():
    """The usual 30 to 40 % of compute at most, for ten times less memory; cheaper modes lie between."""
    modes = ["none", "selective,modules=norm+activation", "selective,modules=mlp", "full"]
    found = [run("llama2_7b", "fsdp=8", 8, 4096, recompute=mode) for mode in modes]
    times = [compute(each) for each in found]
    kept = [each.memory_rows["activations"] + each.memory_rows.get("recomputed", 0.0) for each in found]
    assert times == sorted(times)
    assert kept == sorted(kept, reverse=True)
    assert 1.25 < times[-1] / times[0] < 1.4
    assert kept[0] / kept[-1] > 8


# ------------------------------------------------------------------------------------------------ generations


def generations(*arguments, **options):
    """The same step on eight A100 and on eight H100."""
    return [run(*arguments, cluster=cluster, **options) for cluster in ("dgx_a100", "dgx_h100")]


def memory_bound_share(result):
    """What part of compute went into kernels without products, on rank 0."""
    spans = result.to_frame("spans")
    spans = spans[(spans["rank"] == 0) & (spans["stream"] == "compute")]
    seconds = spans["end_seconds"] - spans["start_seconds"]
    return seconds[spans["kind"].isin(MEMORY_BOUND)].sum() / seconds.sum()


def test_memory_bound_work_gets_faster_on_h100_and_loses_mfu():
    """Bandwidth grew 1.64 times, the peak 3.17 times: a small old model gains about as much as its memory traffic."""
    old, new = generations("gpt2_xl", "dp=8", 8, 1024, attention="unfused", fusion=False)
    assert memory_bound_share(new) > 0.5
    assert 3352 / 2039 < old.step_time / new.step_time < 2.5
    assert new.mfu < 0.75 * old.mfu


def test_big_products_keep_most_of_their_mfu():
    """What is lost is the share of the peak that Hopper's GEMMs reach, 0.8 for 0.88, and little more."""
    old, new = generations("llama3_405b,layers=4,vocab=0", "fsdp=8", 16, 8192)
    assert memory_bound_share(new) < 0.2
    assert old.step_time / new.step_time > 2.5
    assert 0.8 * old.mfu < new.mfu < old.mfu


def test_wider_models_gain_more_from_the_new_generation():
    """Between what memory and what arithmetic gained; more for wider layers until kernels are full, then no less."""
    layers = [
        BARE.replace(layers=2, hidden=hidden, ffn=4 * hidden, heads=hidden // 128, kv_heads=hidden // 128)
        for hidden in (256, 512, 1024, 2048, 4096, 16384)
    ]
    pairs = [generations(model, "dp=8", 16, 2048) for model in layers]
    gains = [compute(old) / compute(new) for old, new in pairs]
    assert gains[:4] == sorted(gains[:4])
    assert 3352 / 2039 < gains[0] < gains[1] < min(gains[2:])
    assert max(gains) < 989.4 / 312
    assert all(new.mfu < old.mfu for old, new in pairs)


# ------------------------------------------------------------------------------------------------ microbatches


@pytest.mark.parametrize(
    ("model", "plan", "nodes", "batch", "sequence"),
    [("gpt2_xl,dropout=off,vocab=0", "pp=8", 1, 64, 1024), ("llama3_8b,vocab=0", "pp=8 tp=8", 8, 64, 1024)],
)
def test_the_best_microbatch_is_neither_the_smallest_nor_the_largest(model, plan, nodes, batch, sequence):
    """Larger ones fill kernels and save launches, until the bubble (p - 1) / (m + p - 1) outgrows that."""
    sizes = (1, 2, 4, 8)
    found = [run(model, plan, batch, sequence, f"dgx_h100,nodes={nodes}", microbatch=size) for size in sizes]
    times = [each.step_time for each in found]
    assert 0 < times.index(min(times)) < len(sizes) - 1
    assert min(times) < 0.97 * min(times[0], times[-1])
    busy = [compute(each) for each in found]
    bubbles = [each.bubble_fraction for each in found]
    assert busy == sorted(busy, reverse=True)
    assert bubbles == sorted(bubbles)
    assert bubbles[-1] == pytest.approx(7 / (batch // 8 + 7), rel=0.1)


def test_with_ideal_kernels_the_smallest_microbatch_is_the_best():
    """Nothing but the bubble: (m + p - 1) / m of the work."""
    times = [
        simulate(TrainingStep(BARE, "pp=8", 64, 1024, microbatch=size), "flat,ranks=8,accelerator=ideal").step_time
        for size in (1, 2, 4, 8)
    ]
    assert times == sorted(times)
    work = [time / (64 / size + 7) * (64 / size) for time, size in zip(times, (1, 2, 4, 8), strict=True)]
    assert work == pytest.approx([work[0]] * 4, rel=1e-3)


# ------------------------------------------------------------------------------------------------ kernels


@settings(max_examples=10, deadline=None)
@given(drawn=steps())
def test_graphs_and_fusion_save_time(drawn):
    """On one accelerator always; where transfers share links and SMs, faster kernels may meet them worse, by 2 %."""
    chip, step = drawn
    for ranks, slack in ((1, 1 - 1e-9), (8, 1.02)):
        plan = step.plan if ranks == 8 else "dp=1"
        plain, graphs, split = (
            simulate(step.replace(plan=plan, **options), flat(chip, ranks))
            for options in (
                {"fusion": True, "graphs": False},
                {"fusion": True, "graphs": True},
                {"fusion": False, "graphs": False},
            )
        )
        assert graphs.step_time < slack * plain.step_time
        assert plain.step_time < slack * split.step_time
        begins = kernels(accelerators.build(chip).name).training.step_seconds if step.optimizer.steps else 0.0
        assert graphs.mean_seconds["launch_seconds"] == pytest.approx(begins, rel=1e-9)
        assert graphs.peak_memory == plain.peak_memory
        assert graphs.mfu * graphs.step_time == pytest.approx(plain.mfu * plain.step_time, rel=1e-9)


def test_a_tiny_model_waits_for_launches():
    """Every kernel of it is shorter than a launch: eager, it takes as many launches; from graphs, little more than
    the starts of kernels, which is less than half. Before either the host has work of its own."""
    tiny = BARE.replace(hidden=64, heads=1, kv_heads=1, head_dim=64, ffn=128)
    step = TrainingStep(tiny, "dp=1", 1, 128, fusion=False)
    eager, graphs = (simulate(step.replace(graphs=each), flat("h100", 1)) for each in (False, True))
    own, count = kernels("H100-SXM5"), len(kernels_of(step))
    launched, queued = (result.step_time - own.training.step_seconds for result in (eager, graphs))
    assert launched == pytest.approx(count * own.training.launch_interval, rel=0.02)
    assert 1 < queued / (count * own.graph_seconds) < 1.3
    assert launched > 2.5 * queued


def test_a_large_model_hardly_notices_graphs_and_fusion():
    large = "llama3_405b,layers=2,vocab=0"
    plain = run(large, "tp=8", 2, 8192)
    assert plain.step_time > run(large, "tp=8", 2, 8192, graphs=True).step_time > 0.98 * plain.step_time
    assert plain.step_time < run(large, "tp=8", 2, 8192, fusion=False).step_time < 1.15 * plain.step_time


def scores(sequence, **options):
    """What unfused attention keeps beyond a fused one: bytes of the activations."""
    fused, unfused = (
        run(BARE, "tp=8", 1, sequence, attention=each, **options).memory_rows["activations"]
        for each in ("flash", "unfused")
    )
    return unfused - fused


def test_unfused_attention_keeps_every_score():
    """2 bytes a score, of four heads a rank and eight layers: four times as much for twice the sequence."""
    assert [scores(sequence) for sequence in (2048, 4096)] == [8 * 4 * 2 * 2048**2, 8 * 4 * 2 * 4096**2]
    assert scores(2048, recompute="selective") == 0


def traffic(sequence, attention):
    """Bytes that attention moves through memory in a step."""
    ops = kernels_of(TrainingStep(BARE, "tp=8", 1, sequence, attention=attention))
    return sum(op.read_bytes + op.write_bytes for op in ops if ".attention" in op.name)


@pytest.mark.parametrize(("attention", "growth"), [("flash", 2), ("flash2", 2), ("unfused", 4)])
def test_traffic_of_attention_is_linear_if_fused_and_quadratic_if_not(attention, growth):
    assert traffic(16384, attention) / traffic(8192, attention) == pytest.approx(growth, rel=0.02)


@pytest.mark.parametrize("sequence", [4096, 8192, 16384])
def test_attention_is_fastest_in_the_newest_kernel(sequence):
    """On Hopper FlashAttention-3, -2, unfused; on Ampere there is no difference between the first two."""

    def time(attention, cluster="dgx_h100"):
        return run(BARE, "tp=8", 1, sequence, cluster, attention=attention).step_time

    assert time("flash") < time("flash2") < time("unfused")
    assert time("flash", "dgx_a100") == time("flash2", "dgx_a100") < time("unfused", "dgx_a100")


def test_without_fused_attention_dropout_costs_another_pass_over_the_scores():
    dropped, plain = (
        run("gpt_22b,layers=4,vocab=0", "tp=8", 4, 2048, attention="unfused", precision="fp16", **options)
        for options in ({"recompute": "selective"}, {})
    )
    assert dropped.memory_rows["activations"] < plain.memory_rows["activations"] / 3
    assert plain.step_time < dropped.step_time < 1.2 * plain.step_time


def test_a_sliding_window_makes_long_sequences_linear():
    """FLOPs and time per token fall towards a constant for s >> w; without a window both grow with s."""
    windowed, whole = BARE.replace(layers=2, window=256), BARE.replace(layers=2)
    lengths = (16384, 32768, 65536)
    short, middle, long = (run(windowed, "tp=8", 1, length) for length in lengths)
    assert long.step_time - middle.step_time == pytest.approx(2 * (middle.step_time - short.step_time), rel=0.02)
    assert long.program.model_flops / middle.program.model_flops == pytest.approx(2, rel=1e-3)
    a, b, c = (run(whole, "tp=8", 1, length).step_time for length in lengths)
    assert c - b > 2.5 * (b - a)
    assert c > 1.5 * long.step_time


def test_an_unfused_window_saves_nothing():
    """The whole square of scores is computed and masked, so MFU falls with the useful part."""
    whole, windowed = (run(BARE.replace(window=window), "tp=8", 1, 8192, attention="unfused") for window in (0, 512))
    assert windowed.step_time == whole.step_time
    assert windowed.peak_memory == whole.peak_memory
    assert windowed.mfu < whole.mfu


@pytest.mark.parametrize(("chip", "precision"), [("h100", "fp8"), ("b200", "fp8"), ("b200", "mxfp8"), ("gb200", "fp8")])
def test_narrow_products_are_faster_but_not_twice(chip, precision):
    """Large GEMMs gain what their share of a doubled peak does; casts, attention and the rest do not.

    MFU is the speed over the new peak, so it falls unless BF16 makes less of its own.
    """
    step = TrainingStep("llama3_405b,layers=2,vocab=0", "fsdp=8", 16, 8192)
    wide, narrow = (simulate(step.replace(precision=each), flat(chip)) for each in ("bf16", precision))
    accelerator = accelerators.build(chip)
    shares = [kernels(accelerator.name).gemm_share(each) for each in ("bf16", precision)]
    assert 1.2 < compute(wide) / compute(narrow) < 2 * shares[1] / shares[0]
    assert narrow.mfu / wide.mfu == pytest.approx(wide.step_time / narrow.step_time / 2, rel=1e-3)
    kinds = [{op.kind for op in kernels_of(step.replace(precision=each))} for each in ("bf16", precision)]
    assert kinds[1] - kinds[0] == {"cast"}


def test_only_products_of_layers_are_narrow():
    """The head's logits, attention and all that is between products stay as wide as they were."""
    ops = kernels_of(TrainingStep(LLAMA, "dp=1", 1, 2048, precision="fp8"))
    narrow = [op for op in ops if op.dtype == "fp8"]
    assert {op.kind for op in narrow} == {"gemm"}
    assert len(narrow) == LLAMA.layers * 4 * 3
    assert {op.dtype for op in ops if op.kind in ("gemm", "attention", "attention_backward")} == {"fp8", "bf16"}


def test_casts_read_wide_and_write_narrow():
    """Each input of a product once forward, each output gradient once backward: two narrow copies of it."""
    layer = BARE.replace(layers=1)
    kernels = kernels_of(TrainingStep(layer, "dp=1", 1, 2048, precision="fp8"))
    weights, *casts = [op for op in kernels if op.kind == "cast"]
    width = layer.heads * layer.head_dim
    inputs = [layer.hidden, width, layer.hidden, layer.ffn]
    outputs = [layer.hidden, 2 * layer.ffn, layer.hidden, layer.qkv_width]
    assert [op.read_bytes for op in casts] == [2 * 2048 * size for size in inputs + outputs]
    assert [op.write_bytes for op in casts] == [2 * 2048 * size for size in inputs + outputs]
    size = layer.hidden * (layer.qkv_width + width + 3 * layer.ffn)
    assert (weights.read_bytes, weights.write_bytes) == (2 * size, 2 * size)


def test_small_products_gain_nothing_from_narrow_formats():
    """Launches and casts eat the gain."""
    small = BARE.replace(hidden=256, heads=4, kv_heads=4, head_dim=64, ffn=1024)
    assert run(small, "dp=8", 8, 512, precision="fp8").step_time > run(small, "dp=8", 8, 512).step_time


# ------------------------------------------------------------------------------------------------ memory


@settings(max_examples=25, deadline=None)
@given(
    pp=st.sampled_from([1, 2, 4]),
    tp=st.sampled_from([1, 2, 4, 8]),
    dp=st.sampled_from([1, 2, 4]),
    zero=st.sampled_from([0, 1, 2, 3]),
)
def test_states_are_sharded_over_the_replicas_alone(pp, tp, dp, zero):
    """Case A07: the group of ZeRO has gpus / (tp pp) members, and no GPU has less than its part of the whole."""
    gpus, model = pp * tp * dp, BARE.replace(hidden=2048, ffn=4096)
    data = f"fsdp={dp}" if zero == 3 else f"dp={dp},zero={zero}"
    memory = run(model, f"pp={pp} {data} tp={tp}", 16, 512, flat("h100", gpus)).to_frame("memory", expand=True)
    norms = 2 * model.hidden * model.layers  # replicated over tp
    own = (model.parameters() - norms) / (pp * tp) + norms / pp
    assert len(memory) == gpus
    for name, size, sharded_from in zip(STATES, (2, 2, 4, 8), (3, 2, 1, 1), strict=True):
        each = size * own / (dp if zero >= sharded_from else 1)
        assert memory[f"{name}_bytes"].tolist() == pytest.approx([each] * gpus, rel=1e-12)
    total = memory[[f"{name}_bytes" for name in STATES]].sum(axis=1)
    assert (total >= 16 * model.parameters() / gpus * (1 - 1e-12)).all()


def memory_line(result):
    return next(line for line in str(result).splitlines() if line.startswith("  memory"))


def test_a_7b_model_does_not_fit_at_12_bytes_a_parameter():
    """Case A14 a: 84 GB of states on one GPU of 80 GB; more than half of them are the moments."""
    model = models.build("llama2_7b,ffn=11673")
    assert model.parameters() == pytest.approx(7e9, rel=1e-4)
    result = run(model, "dp=1", 1, 2048, flat("a100_80gb", 1), optimizer="adam,master=0", recompute="full")
    assert sum(result.memory_rows[name] for name in STATES if name in result.memory_rows) / 1e9 == pytest.approx(
        84, 1e-3
    )
    assert not result.memory_fits
    assert "does not fit; the largest row is optimizer, 56.0 GB" in memory_line(result)


def test_a_90b_model_does_not_fit_on_eight_gpus():
    """Case A14 b: 177 GB of states a GPU, before anything else; only what is kept at the host helps."""
    model = models.build("llama3_70b,layers=101")
    result = run(model, "fsdp=8", 8, 2048, "dgx_a100")
    states = sum(result.memory_rows[name] for name in STATES)
    assert states == pytest.approx(16 * model.parameters() / 8, rel=1e-12)
    assert states / 1e9 == pytest.approx(177, rel=2e-3)
    assert not result.memory_fits
    line = memory_line(result)
    assert f"does not fit; the largest row is optimizer, {model.parameters() / 1e9:.1f} GB; recompute=" in line
    assert "with offload=optimizer fits with" in line
    assert all(f"{gigabytes:.1f} GB" in line for gigabytes in (result.peak_memory / 1e9, result.reserved_memory / 1e9))


def test_a_70b_model_fits_with_its_optimizer_elsewhere():
    """Case A14 c: 35 GB of parameters and gradients a GPU; about 51 GB measured."""
    result = run(
        "llama3_70b", "fsdp=8", 8, 2048, "dgx_a100", optimizer="adam_8bit", offload="optimizer", recompute="full"
    )
    assert sum(result.memory_rows.get(name, 0.0) for name in STATES) / 1e9 == pytest.approx(35.3, rel=2e-3)
    assert result.memory_fits
    assert memory_line(result).endswith("fits")
    assert result.reserved_memory / 1e9 == pytest.approx(51, rel=0.15)


def test_gradients_without_synchronisation_are_whole_and_travel_once():
    """Case A12: 2N / n with a reduction in each of m microbatches, 2N with one reduction in all."""
    found = {sync: run(BARE, f"fsdp=8,sync={sync}", 64, 1024) for sync in ("on", "off")}
    reductions = {}
    for sync, result in found.items():
        spans = result.to_frame("spans")
        reductions[sync] = ((spans["rank"] == 0) & (spans["kind"] == "reduce_scatter")).sum()
    assert found["on"].memory_rows["gradients"] == 2 * BARE.parameters() / 8
    assert found["off"].memory_rows["gradients"] == 2 * BARE.parameters()
    assert reductions["on"] == 8 * reductions["off"]


# ------------------------------------------------------------------------------------------------ the command


def stepsim(*words, model="llama3_8b,layers=4", topology="dgx_h100", plan="dp=8"):
    return CliRunner().invoke(main, ["run", model, topology, plan, "--batch", "8", "--sequence", "2048", *words])


def report(*words, **options):
    result = stepsim(*words, "--json", **options)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--recompute", "full,every=sqrt"], {"recompute": "full,every=sqrt"}),
        (["--recompute", "selective,modules=norm+mlp"], {"recompute": "selective,modules=norm+mlp"}),
        (["--optimizer", "adam,gradients=4"], {"optimizer": "adam,gradients=4"}),
        (["--precision", "fp8"], {"precision": "fp8"}),
        (["--attention", "unfused"], {"attention": "unfused"}),
        (["--no-fusion"], {"fusion": False}),
        (["--graphs"], {"graphs": True}),
        (
            ["--recompute", "full", "--optimizer", "muon", "--attention", "flash2", "--graphs", "--no-fusion"],
            {"recompute": "full", "optimizer": "muon", "attention": "flash2", "graphs": True, "fusion": False},
        ),
    ],
)
def test_options_of_the_command_are_those_of_the_step(words, options):
    """The same figures as in Python, none as without the option, and the option in the title."""
    found, plain = report(*words), report()
    result = run("llama3_8b,layers=4", "dp=8", **options)
    assert found["step_time_seconds"] == pytest.approx(result.step_time, rel=1e-12)
    assert (found["mfu"], found["hfu"]) == pytest.approx((result.mfu, result.hfu), rel=1e-12)
    assert found["reserved_memory_bytes"] == result.reserved_memory >= found["peak_memory_bytes"]
    assert found["memory_rows_bytes"] == dict(result.memory_rows)
    assert sum(found["memory_rows_bytes"].values()) == found["peak_memory_bytes"] == result.peak_memory
    assert found["step_time_seconds"] != plain["step_time_seconds"]
    title = stepsim(*words).stdout.splitlines()[0]
    assert all(str(value) in title for value in options.values() if not isinstance(value, bool))
    assert ("graphs on" in title) == ("graphs" in options)
    assert ("fusion off" in title) == ("fusion" in options)


def test_the_command_draws_memory_over_time(tmp_path):
    picture = tmp_path / "memory.png"
    plain, drawn = report(), report("--memory", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert drawn["peak_memory_bytes"] == plain["peak_memory_bytes"]
    assert list(tmp_path.iterdir()) == [picture]


KNOWN = {
    "recompute": "full, none, selective",
    "optimizer": "adam, adam_8bit, adam_bf16, adam_deepspeed, adam_fp32_gradients, lion, muon, none, sgd, simple",
    "precision": "bf16, fp16, fp32, fp8, mxfp8, nvfp4, tf32",
    "attention": "flash, flash2, triton, unfused",
}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        *((["--" + name, "xyz"], f"unknown {name} 'xyz'; Known: {known}") for name, known in KNOWN.items()),
        *((["--" + name, ""], f"unknown {name} ''; Known: {known}") for name, known in KNOWN.items()),
        (["--recompute", "fulll"], "unknown recompute 'fulll'; did you mean full? Known: full, none, selective"),
        (["--recompute", "selective,modules=core"], "unknown module to recompute 'core'; Known: activation, attention"),
        (["--recompute", "full,evry=2"], "did you mean every? Known: every, head, layers"),
        (["--recompute", "none,every=2"], "recompute=none has no options, and so no every"),
        (["--recompute", "full,every=root"], "every=root: layers a checkpoint, a whole number from 1 or sqrt"),
        (["--optimizer", "adam,moment=4"], "did you mean moments? Known: copy, gradients, master, moments, reduce"),
        (["--optimizer", "adam,moments=nan"], "moments=nan of optimizer adam: bytes per parameter, from 0 to 64"),
        (["--precision", "fp4"], "unknown precision 'fp4'; did you mean nvfp4?"),
        (["--precision", "nvfp4"], "unknown dtype of H100-SXM5 'nvfp4'; Known: bf16, fp16, fp32, fp8"),
        (["--attention", "flash3"], "unknown attention 'flash3'; did you mean flash"),
        (["--graphs=on"], "'--graphs' does not take a value"),
        (["--no-fuson"], "No such option '--no-fuson'"),
        (["--memory", "/nowhere/at/all.png"], "cannot write /nowhere/at/all.png: /nowhere/at is no folder"),
        (["--memory", "memory.foo"], "a picture ends in one of avif, eps"),
    ],
)
def test_bad_options_of_the_command(words, message):
    """One line that names what there is, and exit code 2."""
    result = stepsim(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("stepsim: ")
    assert message in line


def test_the_command_refuses_fp8_on_a100():
    result = stepsim("--precision", "fp8", topology="dgx_a100")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "stepsim: unknown dtype of A100-SXM4-80GB 'fp8'; Known: bf16, fp16, fp32, tf32\n"
