"""Constants from measured steps: what is recovered, what is refused, a site's factor, files of constants, ablation."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner

import topologies
from simulator import simulate
from simulator.cli import main
from simulator.constants import flat
from simulator.kernel_files import load
from simulator.kernels import Constants, published
from simulator.validation import ablation, calibration, calibration_priors, calibration_report, published_runs, site
from simulator.validation.run_times import Rerun, run_times, unchanged
from workloads import TrainingStep

VALUES = dict(published().values)
TRAINING = ("training", "other")
FRAME = published_runs.read()
SMALL = {"model": "llama3_8b,layers=2", "sequence": 2048}
STEPS = [
    (SMALL | {"plan": plan, "batch": batch, "microbatch": microbatch, "stack": stack}, f"dgx_h100,gpus_per_node={size}")
    for plan, size in (("dp=1", 1), ("tp=2", 2), ("dp=4,zero=1", 4))
    for batch, microbatch in ((4, 1), (16, 4))
    for stack in ("megatron_2024", "internlm_2023")
]


class Times:
    """Times of a few small steps in this process, as `RunTimes` gives those of published runs."""

    def __init__(self):
        self.runs = [Rerun(TrainingStep(**step).program(), topologies.build(cluster)) for step, cluster in STEPS]

    def __call__(self, values, change=unchanged, kernel=unchanged):
        constants = Constants(values)
        runs = [run if change is unchanged else Rerun(run.program, run.topology, change) for run in self.runs]
        return np.array([run.seconds(constants, kernel) for run in runs])


@pytest.fixture(scope="module")
def times():
    return Times()


def rows(measured, split="calib"):
    """Rows of as many recipes, measured so."""
    names = [f"recipe{number}" for number in range(len(measured))]
    return pd.DataFrame({"row": range(len(names)), "series": names, "measured": measured, "split": split})


def noisy(seconds, size=0.01):
    """Times with an error, the same at every call."""
    return seconds * np.exp(size * np.random.default_rng(1).standard_normal(len(seconds)))


# ------------------------------------------------------------------------------------------- fits

TRUTH = {(*TRAINING, "clock"): 0.84, ("training", "internlm_2023", "kernel_share"): 0.95}


@pytest.fixture(scope="module")
def found(times):
    """A fit to steps as they would be with other constants than the published ones."""
    return calibration.fit(times, rows(noisy(times({**VALUES, **TRUTH}))), VALUES)


@pytest.mark.parametrize("key", TRUTH)
def test_constants_behind_measurements_are_found_within_their_standard_errors(found, key):
    mine = next(each for each in found.fitted if each.key == key)
    assert not mine.refused
    assert abs(np.log(mine.after / TRUTH[key])) < 2 * mine.error < 0.2
    assert mine.rows >= len(STEPS) / 2
    assert found.values[key] == mine.after


def test_a_fit_leads_to_smaller_errors(found):
    before, after = (found.errors(column)["wmape"] for column in ("before", "after"))
    assert after < 0.03 < before


def test_what_no_row_tells_keeps_its_prior(found):
    """No step is in FP8, on Hopper, or of DeepSpeed's kernels."""
    untold = {("families", "Hopper", "gemm_fp8"), ("training", "deepspeed_2022", "kernel_share")}
    refused = {each.key: each for each in found.fitted if each.refused}
    assert untold <= set(refused)
    for key in untold:
        assert refused[key].rows == 0
        assert refused[key].error is None
        assert found.values[key] == calibration_priors.prior(key).value


def test_constants_without_a_prior_stay(found):
    asked = {each.key for each in found.fitted}
    assert {key for key in VALUES if found.values[key] != VALUES[key]} <= asked
    assert ("shared", "gemm", "tile_loss") not in asked
    assert not asked & set(calibration_priors.FIXED)


def test_of_two_constants_that_only_their_product_is_told_of_one_is_refused():
    """Two equal slopes: together they are told as well as one alone."""
    keys = [("training", "a", "kernel_share"), ("training", "b", "kernel_share")]
    values = dict.fromkeys(keys, 1.0)
    measured = rows(np.full(40, 2.0))

    def product(given):
        return np.full(40, 1.0 / (given[keys[0]] * given[keys[1]]))

    priors = {key: calibration_priors.prior(key) for key in keys}
    model = calibration.Model(product, measured, values, priors)
    assert model.untold(model.start) == []
    stiff = {keys[0]: priors[keys[0]], keys[1]: priors[keys[1]]._replace(spread=0.01)}
    model = calibration.Model(product, measured, values, stiff)
    assert model.untold(model.start) == [keys[1]]


def test_a_recipe_weighs_one_however_many_rows_it_has():
    measured = rows(np.ones(4)).assign(series=list("aaab"))
    model = calibration.Model(lambda _: np.ones(4), measured, {}, {})
    assert [sum(model.weights()[measured["series"] == name] ** 2) for name in "ab"] == pytest.approx([1.0, 1.0])


def test_the_file_is_that_of_the_package_with_other_values(found, tmp_path):
    mine = tmp_path / "constants.yaml"
    mine.write_text(calibration_report.as_file(found))
    assert mine.read_text().startswith("# How kernels use")
    assert load(mine).values == pytest.approx(found.values, rel=0.006)


def test_every_constant_of_training_has_an_error_or_a_source(found):
    sections = yaml.safe_load(calibration_report.as_file(found))
    errors = set(flat(sections["errors"]))
    sources = {(section, entry, name) for section, entries in sections["sources"].items()
               for entry, names in entries.items() for name in names}  # fmt: skip
    assert not errors & sources
    assert {key for key in VALUES if key[0] == "training"} <= errors | sources


def test_the_report_says_what_was_refused(found):
    summary, text = calibration_report.summary(found), calibration_report.text(found)
    assert summary["rows"] == summary["recipes"] == len(STEPS)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert text.count("refused") == sum(each["refused"] for each in summary["constants"]) > 0


def test_the_package_has_rows_to_fit():
    frame, cases = calibration.calibration_rows([None])
    assert len(frame) == len(cases) > 200
    assert set(frame["split"]) == {"calib"}


# ------------------------------------------------------------------------------------------- runs, again and again


def test_a_rerun_is_what_the_front_says(times):
    for (step, cluster), seconds in zip(STEPS, times(VALUES), strict=True):
        assert simulate(TrainingStep(**step), cluster, detail="actions").step_time == pytest.approx(seconds, rel=1e-12)


def test_only_runs_that_a_constant_moves_are_replayed(times):
    for run in times.runs:
        run._known.clear()
    times(VALUES)
    times({**VALUES, ("families", "A100", "gemm"): 0.5})
    later = times({**VALUES, (*TRAINING, "step_seconds"): 0.5 + VALUES[*TRAINING, "step_seconds"]})
    assert later - times(VALUES) == pytest.approx(0.5)
    assert all(len(run._known) == 1 for run in times.runs)
    times({**VALUES, ("training", "internlm_2023", "kernel_share"): 0.5})
    assert [len(run._known) for run in times.runs] == [
        2 if step["stack"] == "internlm_2023" else 1 for step, _ in STEPS
    ]


def test_processes_say_the_same():
    mine = FRAME[FRAME["id"].isin(["maxtext-025", "titan-001"])].reset_index(drop=True)
    cases, _ = published_runs.cases(mine)
    with run_times(cases, workers=2) as many:
        for case, seconds in zip(cases, many(VALUES), strict=True):
            assert simulate(case.step(), case.topology, detail="actions").step_time == pytest.approx(seconds, rel=1e-12)


# ------------------------------------------------------------------------------------------- a site


def test_the_factor_of_a_site_is_found(times):
    measured = noisy(times(site.scaled(VALUES, 0.9)))
    found = site.fit(times, rows(measured), VALUES)
    assert abs(np.log(found.factor / 0.9)) < 2 * found.error < 0.1
    assert found.values[*TRAINING, "kernel_share"] == found.factor
    assert found.values["training", "internlm_2023", "kernel_share"] == pytest.approx(
        found.factor * VALUES["training", "internlm_2023", "kernel_share"]
    )
    summary = found.summary()
    assert summary["after"]["mape"] < summary["before"]["mape"]
    assert f"{found.factor:.3f}" in found.text()


def test_a_single_row_tells_a_factor_but_for_the_noise_of_runs(times):
    measured = times(site.scaled(VALUES, 1.1))
    alone = Times()
    alone.runs = times.runs[:1]
    found = site.fit(alone, rows(measured[:1]), VALUES)
    assert found.factor == pytest.approx(1.1, rel=0.03)
    assert found.error > 0.9 * calibration.NOISE


@pytest.fixture
def measured(tmp_path):
    """A file with a run that took a tenth longer than predicted, and one that cannot be used."""
    mine = FRAME[FRAME["id"].isin(["titan-001", "titan-010"])].assign(split="mine")
    case = next(each for each in published_runs.cases(mine.reset_index(drop=True))[0])
    seconds = simulate(case.step(), case.topology, detail="actions").step_time
    path = tmp_path / "mine.csv"
    mine.assign(step_time_seconds=1.1 * seconds).to_csv(path, index=False)
    return path


def test_a_site_from_the_command_line(measured, tmp_path):
    out = tmp_path / "site.yaml"
    result = CliRunner().invoke(main, ["calibrate", "--data", str(measured), "--out", str(out), "--json"])
    report = json.loads(result.stdout)
    assert (report["rows"], report["skipped"]) == (1, 1)
    assert report["factor"] < 0.95
    compared = CliRunner().invoke(
        main, ["validate", "runs", "--data", str(measured), "--constants", str(out), "--json"]
    )
    assert abs(json.loads(compared.stdout)["bias"]) == pytest.approx(report["after"]["mape"], abs=1e-4)


# ------------------------------------------------------------------------------------------- files of constants

SLOW = "training: {other: {kernel_share: 0.5}}"


def run(*words):
    step = ["run", "llama3_8b,layers=2", "dgx_h100", "dp=8", "--batch", "8", "--sequence", "2048", "--json"]
    return CliRunner().invoke(main, [*step, *words])


def test_constants_of_a_file_replace_published_ones(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(SLOW)
    step, cluster = TrainingStep(**SMALL, plan="dp=8", batch=8), topologies.build("dgx_h100")
    slow, fast = simulate(step, cluster, constants=mine).step_time, simulate(step, cluster).step_time
    assert 1.5 < slow / fast < 2.0
    assert simulate(step, cluster, constants=load(mine)).step_time == slow
    assert simulate(step, cluster, constants=published()).step_time == fast
    report = json.loads(run("--constants", str(mine)).stdout)
    assert report["step_time_seconds"] == pytest.approx(slow)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no constants"),
        ("a: [", "cannot read"),
        ("trainin: {other: {clock: 0.9}}", "training"),
        ("training: {other: {clok: 0.9}}", "clock"),
        ("training: {other: 0.9}", "no mapping"),
        ("training: {other: {clock: 0}}", "above 0"),
        ("training: {other: {jitter: -1}}", "0 or more"),
        ("training: {other: {clock: fast}}", "finite number"),
        ("training: {other: {clock: true}}", "finite number"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path, text, words):
    mine = tmp_path / "mine.yaml"
    mine.write_text(text)
    result = run("--constants", str(mine))
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr


def test_other_constants_are_an_error():
    with pytest.raises(ValueError, match="constants=3 are neither"):
        simulate(TrainingStep(**SMALL, plan="dp=8", batch=8), "dgx_h100", constants=3)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--data", "nowhere.csv"], "cannot read"),
        (["--evaluations", "0"], "at least 1"),
        (["--constants", "nowhere.yaml"], "cannot read"),
        (["--ablate", "--every", "0"], "every=0"),
        (["--ablate", "--data", "mine.csv"], "changes nothing"),
        (["--data", "a.csv", "--data", "b.csv"], "a site has one file"),
        (["--out", "no/such/folder.yaml"], "is no folder"),
    ],
)
def test_a_wrong_command_is_one_line(words, expected):
    result = CliRunner().invoke(main, ["calibrate", *words])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert expected in result.stderr


def test_a_file_without_rows_to_fit_says_so(tmp_path):
    mine = tmp_path / "mine.csv"
    FRAME[FRAME["id"] == "korth22-001"].to_csv(mine, index=False)
    result = CliRunner().invoke(main, ["calibrate", "--data", str(mine)])
    assert "every row is of a split that is not fitted" in result.stderr
    result = CliRunner().invoke(main, ["calibrate", "--no-site", "--data", str(mine)])
    assert "has no calib row" in result.stderr


# ------------------------------------------------------------------------------------------- ablation


IDLE = ("messages of pipelines", "recompute", "launch", "speed of stacks")
"""Effects that the small steps do not have."""


@pytest.fixture(scope="module")
def ablated(times):
    """Steps that are measured just as predicted with constants at their priors, half of them unseen."""
    values = {key: prior.value if (prior := calibration_priors.prior(key)) else VALUES[key] for key in VALUES}
    measured = rows(times(values)).assign(split=np.where(np.arange(len(STEPS)) % 4 < 2, "calib", "public_validation"))
    effects = [name for name in ablation.EFFECTS if name not in IDLE]
    return ablation.table(times, measured, values, effects)


def test_without_an_effect_steps_are_predicted_worse_and_a_fit_helps(ablated):
    whole, *others = ablated.to_dict("records")
    assert whole["without"] == "nothing"
    assert whole["calib_as_is"] == whole["calib_refitted"] == pytest.approx(0.0, abs=1e-9)
    for each in others:
        assert each["calib_as_is"] > 0
        assert each["calib_refitted"] < max(each["calib_as_is"], 0.02), "squares fall, though sizes may rise a little"


def test_the_sign_of_effects(ablated):
    """Work that is left out makes steps too short, overlap that is left out too long."""
    bias = dict(zip(ablated["without"], ablated["calib_as_is_bias"], strict=True))
    longer = {name for name, value in bias.items() if value > 0}
    assert longer == {"data parallel overlap", "tensor parallel overlap"}


def test_the_table_in_words(ablated):
    assert ablation.text(ablated).splitlines()[1].startswith("nothing")


def test_only_effects_that_there_are():
    with pytest.raises(ValueError, match="jitter"):
        ablation.ablate(effects=["jiter"])
