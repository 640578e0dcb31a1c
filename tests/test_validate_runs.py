"""Published runs against predictions: how rows become steps, tiers, what is left out, sums, the command."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import topologies
from simulator import simulate
from simulator.cli import main
from simulator.validation import (
    published_clusters,
    published_memory,
    published_plans,
    published_runs,
    published_stacks,
    runs,
    runs_baseline,
    runs_ranking,
    runs_scatter,
)
from simulator.validation.published_cells import Cells
from simulator.validation.published_runs import case, kind, tier
from simulator.validation.tables import LeftOutError
from workloads import TrainingStep, models, stacks

FRAME = published_runs.read()
FEW = ["korth22-001", "korth22-002", "simumax_b200-001", "simumax_b200-002", "simumax_b200-009", "maxtext-025"]
BLOCK = {"rows", "skipped", "mape", "wmape", "median_ape", "p90_ape", "bias", "worst"}


def row(name="korth22-003", **changes):
    """A published run, with changes."""
    return {**FRAME[FRAME["id"] == name].iloc[0].to_dict(), **changes}


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A file of a few rows, of which one is left out."""
    mine = tmp_path_factory.mktemp("runs") / "mine.csv"
    FRAME[FRAME["id"].isin([*FEW, "titan-010"])].to_csv(mine, index=False)
    return mine


@pytest.fixture(scope="module")
def compared(few):
    return runs.validate(few)


@pytest.fixture(scope="module")
def rebuilt():
    return published_runs.cases(FRAME)


# ------------------------------------------------------------------------------------------- rows become steps


def test_a_fully_printed_row_assumes_nothing():
    """GPT-3 of arXiv:2205.05198: 8 stages of 3 virtual ones on 8 servers, no sequence parallelism, all recomputed."""
    found = case(0, row("korth22-003"))
    assert found.assumed == ()
    assert found.plan == "pp=8,schedule=interleaved,virtual=3 tp=8,sp=off"
    assert found.topology == "dgx_a100,nodes=8,nics=8,nic_gbit=200"
    step = found.step()
    assert (step.batch, step.microbatches, str(step.recompute), step.precision) == (64, 64, "full", "fp16")
    assert step.model.parameters() == pytest.approx(175e9, rel=0.01)
    assert found.measured == row("korth22-003")["step_time_seconds"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"microbatch": np.nan}, "microbatch=1"),
        ({"recompute": np.nan, "recompute_note": np.nan}, "recompute=none"),
        ({"vpp": np.nan}, "vpp=12"),
        ({"vocabulary": np.nan}, "vocabulary=51200"),
        ({"ffn_hidden": np.nan}, "ffn_hidden=49152"),
        ({"batch": np.nan}, "batch=64"),
        ({"precision": np.nan}, "precision=bf16"),
        ({"sequence_parallel": np.nan}, "sequence_parallel=no"),
        ({"network_bytes_per_second_per_gpu": np.nan}, "the network cards are those of the server's data sheet"),
    ],
)
def test_what_a_row_leaves_open_is_assumed_and_said(changes, words):
    assert case(0, row(**changes)).assumed == (words,)


def test_degrees_may_be_told_in_notes():
    found = case(0, row("mcore_h100-010"))
    assert {"tp=8", "pp=6"} <= set(found.assumed)
    assert found.plan.startswith("pp=6,schedule=interleaved,virtual=16 dp=2,zero=1")


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("zb-001", "pp=8,schedule=zb_auto,memory=2,account_for_embedding=on,account_for_loss=on"),
        ("zb-004", "pp=8,schedule=zb_auto,account_for_embedding=on,account_for_loss=on"),
        ("zb-010", "pp=8,schedule=interleaved,virtual=3,account_for_embedding=on,account_for_loss=on"),
        ("maxtext-028", "dp=2 fsdp=16 tp=4,sp=on"),
        ("sc21-001", "dp=32,zero=0"),
        ("mbridge-074", "fsdp=64"),
        ("bloom-060", "pp=12,schedule=1f1b,layers=7x11-1 dp=8,zero=1 tp=4,sp=off"),
    ],
)
def test_plans(name, plan):
    assert case(0, row(name)).plan == plan


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "dgx_a100,nodes=8,nics=8,nic_gbit=200"),
        ({"gpus": 4}, "dgx_a100,nodes=1,gpus_per_node=4"),
        ({"network_bytes_per_second_per_gpu": 6.25e9}, "dgx_a100,nodes=8,nics=4,nic_gbit=100"),
        ({"notes": "16 x 50Gb RoCE", "network_bytes_per_second_per_gpu": 12.5e9}, "nics=16,nic_gbit=50,transport=roce"),
        ({"accelerator": "GB200", "gpus": 128}, "gb200_nvl72,racks=2,gpus_per_rack=64"),
        ({"accelerator": "TPU v5e", "gpus": 256}, "torus,shape=16x16,accelerator=tpu_v5e"),
        (
            {"accelerator": "TPU v5p", "gpus": 256, "source": "2x v5p-256"},
            "torus,shape=4x4x8,accelerator=tpu_v5p,slices=2",
        ),
    ],
)
def test_clusters(changes, words):
    text = published_clusters.topology(Cells(row(**changes)))
    assert text.endswith(words)
    assert topologies.build(text).size == changes.get("gpus", 64)


def test_parts_of_one_name_may_differ():
    assert ",accelerator=h100_hbm2e" in case(0, row("titan-001")).topology


def test_every_row_is_rebuilt_or_has_a_reason(rebuilt):
    found, left_out = rebuilt
    assert {each.row for each in found} | set(left_out) == set(range(len(FRAME)))
    assert not {each.row for each in found} & set(left_out)
    for text in {each.topology for each in found}:
        topologies.build(text)


def test_the_steps_of_rows_are_legal(rebuilt):
    """Of each plan one, but for schedules by search, which take seconds each."""
    for each in {found.plan: found for found in rebuilt[0] if "zb_auto" not in found.plan}.values():
        assert isinstance(each.step(), TrainingStep)


def test_few_dense_rows_are_left_out_but_those_with_context_parallelism(rebuilt):
    _, left_out = rebuilt
    dense = {number for number, record in enumerate(FRAME.to_dict("records")) if kind(record).startswith("dense")}
    others = [left_out[each] for each in dense & set(left_out) if "context parallelism" not in left_out[each]]
    assert len(others) <= 0.05 * len(dense)


# ------------------------------------------------------------------------------------------- stacks


@pytest.mark.parametrize(
    ("name", "stack"),
    [
        ("sc21-001", "megatron_2021_v2"),
        ("korth22-001", "megatron_2021"),
        ("bloom-001", "deepspeed_2022"),
        ("zb-001", "megatron_2021"),
        ("mcore_h100-001", "megatron_2024"),
        ("dgxc-053", "nemo_2024"),
        ("mbridge-074", "megatron_bridge_2025"),
        ("mpt-013", "mpt_fsdp_2023"),
        ("internevo-001", "internlm_2023"),
        ("maxtext-001", "maxtext_2024"),
        ("titan-001", "torchtitan_2024_eager"),
        ("titan-002", "torchtitan_2024"),
    ],
)
def test_the_stack_follows_from_source_and_date(name, stack):
    assert published_stacks.stack(Cells(row(name))) == stack


def test_the_rule_of_stacks_sees_no_result():
    """Rows without any result or dimension have the same stack."""
    told = ("source", "reference", "notes")
    for record in FRAME.to_dict("records"):
        assert published_stacks.stack(Cells({name: record[name] for name in told})) == published_stacks.stack(
            Cells(record)
        )


def test_all_stacks_exist():
    named = set(published_stacks.FRAMEWORKS.values()) - {"megatron"} | set(published_stacks.MEGATRON.values())
    assert named | set(published_stacks.EAGER.values()) <= set(stacks.names())


# ------------------------------------------------------------------------------------------- tiers


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 1),
        ({"microbatch": np.nan}, 2),
        ({"batch": np.nan}, 2),
        ({"tp": np.nan}, 2),
        ({"vpp": np.nan}, 2),
        ({"vpp": np.nan, "pp": 1.0}, 1),
        ({"recompute": np.nan, "vocabulary": np.nan}, 1),
        ({"step_time_seconds": np.nan}, 1),
        ({"step_time_seconds": np.nan, "tokens_per_second_per_gpu": np.nan, "samples_per_second": np.nan}, 2),
    ],
)
def test_tiers(changes, expected):
    known = {"tokens_per_second_per_gpu": 100.0, "samples_per_second": 10.0}
    assert tier(row(**{**known, **changes})) == expected


def test_a_row_that_does_not_say_that_it_is_dense_is_not():
    assert kind(row()) == "dense_tier1"
    assert kind(row(moe="yes")) == kind(row(moe=np.nan)) == "moe_tier1"


# ------------------------------------------------------------------------------------------- measured times

UNTIMED = dict.fromkeys(("step_time_seconds", "tokens_per_second_per_gpu", "samples_per_second"), np.nan)


def timed(**changes):
    """Seconds of a row of which no time is published, with an FLOP rate of 100e12 on 64 accelerators."""
    given = {**UNTIMED, "tflops_reported": 100.0, "recompute": "full", **changes}
    return case(0, row("korth22-003", **given)).measured


def test_a_throughput_is_as_good_as_a_time():
    tokens = 64 * 2048
    assert timed(tokens_per_second_per_gpu=200.0) == tokens / 200 / 64
    assert timed(samples_per_second=2.0) == 32.0


def test_each_source_counts_flops_its_own_way():
    """A step counts 72 B s L h² (1 + s/6h + V/12hL), its attention half under the mask, 4/3 as much recomputed."""
    b, s, layers, h, v = 64, 2048, 96, 12288, 51200
    full = 72 * b * s * layers * h**2 * (1 + s / (6 * h) + v / (12 * h * layers))
    seconds = 100e12 * 64
    assert timed(flops_convention="model_full") * seconds == pytest.approx(full, rel=1e-6)
    assert timed(flops_convention="hardware_full") * seconds == pytest.approx(full * 4 / 3, rel=1e-6)
    assert timed(flops_convention="hardware_full", recompute="none", recompute_note=np.nan) == timed(
        flops_convention="model_full"
    )
    causal = full - 72 * b * s * layers * h**2 * s / (12 * h)
    assert timed(flops_convention="model_causal") * seconds == pytest.approx(causal, rel=1e-6)
    grouped = {"kv_heads": 8.0, "flops_convention": "model_full_ignoring_gqa"}
    assert timed(**grouped) * seconds == pytest.approx(full, rel=1e-6)
    assert (
        "flops_convention=model_full"
        in case(0, row(**{**UNTIMED, "tflops_reported": 1.0, "flops_convention": np.nan})).assumed
    )


def test_mfu_is_of_the_peak_that_the_source_used():
    assert timed(tflops_reported=np.nan, mfu=0.5, peak_tflops_used=200.0) == timed()
    without = timed(tflops_reported=np.nan, mfu=0.5, peak_tflops_used=np.nan)
    assert without == pytest.approx(timed() * 100 / 156, rel=1e-9)


# ------------------------------------------------------------------------------------------- what is left out


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"moe": "yes"}, "no MoE layers yet"),
        ({"cp": 2.0}, "context parallelism"),
        ({"model": "nemotron-h-56b (hybrid Mamba)"}, "hybrid"),
        ({"hidden": np.nan}, "dimensions are not published"),
        ({"gpus": 72, "dp": np.nan}, "no multiple of tp=8 × pp=8"),
        ({"dp": "8"}, "are not the 64 accelerators"),
        ({"accelerator": "abacus"}, "no server of this accelerator"),
        ({"precision": "int3"}, "no such precision"),
        ({"sharding": "zero9", "gpus": 128, "dp": "2"}, "no such sharding"),
        ({**UNTIMED, "tflops_reported": np.nan, "mfu": np.nan, "hfu": np.nan}, "neither a time nor a speed"),
    ],
)
def test_what_is_left_out(changes, reason):
    with pytest.raises(LeftOutError, match=reason):
        case(0, row(**changes))


def test_what_cannot_be_simulated_is_left_out_with_the_reason(tmp_path):
    mine = tmp_path / "mine.csv"
    pd.DataFrame(
        [row("korth22-002"), row("korth22-001", batch=5.0, microbatches=np.nan), row("korth22-001", heads=6.0)]
    ).to_csv(mine, index=False)
    rows, summary = runs.validate(mine)
    assert (summary["rows"], summary["skipped"]) == (1, 2)
    assert rows["left_out"].iloc[1].startswith("cannot be simulated: batch=5 is not divisible")
    assert rows["left_out"].iloc[2].startswith("no such model: heads=6 is not divisible")


# ------------------------------------------------------------------------------------------- sums


def test_predictions_are_what_the_front_says(compared):
    rows, _ = compared
    for each in published_runs.cases(FRAME[FRAME["id"].isin(FEW[:2])].reset_index(drop=True))[0]:
        result = simulate(each.step(), topologies.build(each.topology), detail="actions")
        mine = rows[rows["id"] == FEW[each.row]].iloc[0]
        assert mine["predicted"] == result.step_time
        assert mine["predicted_memory"] == published_memory.peak(result)[each.memory]


def test_every_row_counts_once(compared):
    rows, summary = compared
    whole = rows[rows["split"] != "context"]
    assert summary["rows"] + summary["skipped"] == len(whole) == len(FEW) + 1
    assert sum(block["rows"] for block in summary["groups"].values()) == summary["rows"]
    assert sum(split["rows"] for split in summary["splits"].values()) == summary["rows"]
    for split in summary["splits"].values():
        assert sum(block["rows"] for block in split["classes"].values()) == split["rows"]
        assert sum(block["skipped"] for block in split["groups"].values()) == split["skipped"]
    assert summary["dense_left_out"] == {"rows": 7, "context_parallel": 1, "others": 0, "share": 0.0}


def test_blocks_have_the_keys_of_all_validations(compared):
    _, summary = compared
    assert summary.keys() >= BLOCK | {"groups", "splits"}
    for split in summary["splits"].values():
        assert split.keys() == BLOCK | {"classes", "groups"}
        assert set(split["classes"]) == {"dense_tier1", "dense_tier2", "moe_tier1", "moe_tier2"}
        assert all(block.keys() == BLOCK for block in (*split["classes"].values(), *split["groups"].values()))


def test_recipes_weigh_the_same():
    rows = pd.DataFrame({"row": range(3), "series": list("aab"), "measured": 1.0, "predicted": [1.1, 1.1, 1.4]})
    assert runs.report.block(rows)["wmape"] == pytest.approx(0.25)


def test_context_counts_in_no_sum(tmp_path):
    mine = tmp_path / "mine.csv"
    pd.DataFrame([row(), row("korth22-001", split="context")]).to_csv(mine, index=False)
    _, summary = runs.validate(mine)
    assert summary["rows"] == 1
    assert summary["splits"]["context"]["rows"] == 1


def test_memory_errors():
    rows = pd.DataFrame({"group": "a", "peak_memory_bytes": [10.0, 10.0, np.nan], "predicted_memory": [8.0, 11.0, 5.0]})
    found = runs.memory(rows.assign(memory_note=""))
    assert (found["rows"], found["under"], found["unexplained"]) == (2, 1, 1)
    assert runs.memory(rows.assign(memory_note=["a reason", "", ""]))["unexplained"] == 0
    assert found["median_ape"] == pytest.approx(0.15)


# ------------------------------------------------------------------------------------------- baseline, ranking, scaling


def test_the_baseline_guesses_the_mfu_of_the_same_accelerator_and_precision():
    known = pd.DataFrame({
        "accelerator": ["a", "a", "a", "b"], "precision": ["x", "x", "y", "x"], "series": list("ppqr"),
        "flops": 1.0, "measured": [2.0, 2.0, 4.0, 5.0],
    })  # fmt: skip
    asked = pd.DataFrame({"accelerator": ["a", "a", "b", "c"], "precision": ["x", "y", "z", "x"], "flops": 10.0})
    guessed = runs_baseline.predictions(asked, known)
    assert guessed.tolist()[:3] == pytest.approx([20.0, 40.0, 50.0])
    assert np.isfinite(guessed.iloc[3])


def test_pairs_are_of_one_group_and_of_equal_size_where_that_is_asked():
    times = {"measured": [1.0, 2.0, 3.0, 4.0], "predicted": [1.0, 2.0, 4.0, 3.0]}
    rows = pd.DataFrame(
        {"group": "zb", "split": "calib", "gpus": [8, 8, 16, 16], "batch": 4, "series": list("abcd"), **times}
    )
    assert runs_ranking.ranking(rows)["zb"]["pairs"] == 6
    assert runs_ranking.ranking(rows.assign(series=list("aabc")))["zb"]["pairs"] == 5
    alike = runs_ranking.ranking(rows.assign(group="bloom"))["bloom"]
    assert (alike["pairs"], alike["right"], alike["share"]) == (2, 1, 0.5)


def test_curves_of_scaling_are_weak_or_strong():
    base = {"group": "a", "id": ["r1", "r2", "r3"], "gpus": [8, 16, 32]}
    weak = pd.DataFrame({**base, "batch": [8, 16, 32], "measured": [1.0, 1.1, 1.2], "predicted": [2.0, 2.0, 2.4]})
    found = runs_ranking.scaling(weak)
    assert (found["curves"], found["each"][0]["mode"]) == (1, "weak")
    assert found["median_largest_deviation"] == pytest.approx(1 - 1 / 1.1)
    strong = runs_ranking.scaling(weak.assign(batch=8))
    assert (strong["curves"], strong["each"][0]["mode"]) == (1, "strong")


# ------------------------------------------------------------------------------------------- the command


def test_the_command_prints_one_object_and_writes_rows_and_picture(few, compared, tmp_path):
    out, plot = tmp_path / "rows.csv", tmp_path / "runs.png"
    command = ["validate", "runs", "--json", "--data", str(few), "--out", str(out), "--plot", str(plot)]
    done = CliRunner().invoke(main, command)
    assert json.loads(done.stdout) == json.loads(json.dumps(compared[1]))
    written = pd.read_csv(out)
    assert {"id", "plan", "topology", "stack", "predicted_seconds", "measured_seconds", "error"} <= set(written)
    assert {"predicted_peak_memory_bytes", "assumed", "left_out", "recipe", "tier"} <= set(written)
    assumed = written.loc[written["id"] == "simumax_b200-001", "assumed"].item()
    assert assumed == "assumed: recompute=none"
    assert plot.stat().st_size > 10_000


def test_rows_of_some_splits_and_groups(few):
    done = CliRunner().invoke(main, ["validate", "runs", "--json", "--data", str(few), "--group", "korth22"])
    assert json.loads(done.stdout)["rows"] == 2
    done = CliRunner().invoke(main, ["validate", "runs", "--data", str(few), "--group", "korth"])
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "did you mean korth22" in done.output


def test_the_text_says_what_the_blocks_say(compared):
    _, summary = compared
    text = runs.text(summary)
    assert "1 row left out:" in text
    assert f"{summary['median_ape']:.1%}" in text
    assert "dense rows left out: 1 that need context parallelism, 0 others" in text


def test_the_picture_has_a_point_for_every_compared_row(compared):
    rows, _ = compared
    ax = runs_scatter.draw(rows)
    points = {line.get_gid(): len(line.get_xdata()) for line in ax.lines if line.get_gid()}
    assert points["korth22"] == 2
    assert sum(points.values()) == len(FEW)


def test_no_prediction_needs_the_data(few, compared, tmp_path, monkeypatch):
    """What is simulated comes from the row and the package's constants; the published results change nothing."""
    hidden = tmp_path / "hidden.csv"
    shutil.copy(few, hidden)
    frame = pd.read_csv(hidden)
    results = ["step_time_seconds", "tokens_per_second_per_gpu", "samples_per_second", "tflops_reported", "mfu"]
    frame.assign(**{name: frame[name] * 0.9 for name in results}).to_csv(hidden, index=False)
    monkeypatch.setattr(published_runs, "SOURCE", tmp_path / "nothing.csv")
    rows, _ = runs.validate(hidden)
    np.testing.assert_array_equal(rows["predicted"], compared[0]["predicted"])


def test_recomputation_in_words_of_sources():
    model = models.build("gpt3_175b")
    names = ("maxtext-025", "titan-001", "korth22-003")
    texts = {name: published_plans.recompute(Cells(row(name)), model) for name in names}
    assert texts["korth22-003"] == "full"
    assert texts["maxtext-025"] == "selective,modules=attention+norm+activation"
    assert texts["titan-001"] == "selective,modules=op"
    assert published_plans.recompute(Cells(row(recompute_note="selective layer")), model) == "full,layers=48"


def test_flops_implied_by_rate_and_time_tell_of_recomputation():
    """README of Megatron-LM: 138 TFLOP/s and 32 s are 4/3 of the model's FLOPs, those of one more forward."""
    found = case(0, row("sc21-011"))
    assert dict(found.arguments)["recompute"] == "full"
    assert "recompute=full for the FLOPs that rate and time imply" in found.assumed
    silent = row("sc21-011", flops_per_token_implied=1.438e12 * 3 / 4)
    assert dict(case(0, silent).arguments)["recompute"] == "none"


def test_microbatches_decide_what_a_microbatch_by_device_comes_to():
    """MaxText's per_device_batch_size=6 with tp=4 is one microbatch of 24 sequences on each pipeline."""
    found = case(0, row("maxtext-025"))
    assert (found.step().microbatch, found.step().microbatches) == (24, 1)
    assert "microbatch=24 for microbatches=1" in found.assumed
    assert case(0, row("maxtext-025", microbatches=np.nan)).step().microbatch == 6


def test_without_a_pipeline_an_open_microbatch_is_the_largest_that_fits():
    """The four sequences that a replica of a 32B model has fit at once; of 32 only 8 do."""
    assert case(0, row("mcore_h100-004")).step().microbatch == 4
    more = case(0, row("mcore_h100-004", batch=48.0 * 32))
    assert more.step().microbatch == 8
    assert "microbatch=8, the largest that fits" in more.assumed
    assert case(0, row("mcore_h100-005")).step().microbatch == 1
