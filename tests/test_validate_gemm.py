"""Measured kernels against predictions: the bars, the rule of what is left out, clocks, the fit, the command."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from simulator import constants
from simulator.cli import main
from simulator.compute import Roofline
from simulator.constants import as_yaml
from simulator.kernels import published
from simulator.validation import calibration_priors, gemm, measured_kernels
from simulator.validation.fit_kernels import Model, usable
from simulator.validation.tables import LeftOutError

FRAME = measured_kernels.read()


@pytest.fixture(scope="module")
def found():
    return measured_kernels.cases(FRAME)


@pytest.fixture(scope="module")
def compared():
    return gemm.validate()


@pytest.fixture(scope="module")
def summary(compared):
    return compared[1]


def row(base="gemm", **changes):
    """A measured row of a kind that is compared, with changes."""
    base = FRAME[(FRAME["kind"] == base) & (FRAME["accelerator"] == "H100-SXM5")].iloc[-1]
    return {**base.to_dict(), **changes}


# ------------------------------------------------------------------------------------------- the bars


def test_median_errors_and_bias(summary):
    assert summary["kinds"]["gemm"]["median_ape"] <= 0.08
    assert summary["kinds"]["attention"]["median_ape"] <= 0.07
    assert summary["kinds"]["hbm_stream"]["median_ape"] <= 0.06
    assert {name: block["bias"] for name, block in summary["accelerators"].items() if abs(block["bias"]) > 0.08} == {}


def test_series_left_out_of_the_fit_are_predicted_too(summary):
    unseen = summary["leave_one_series_out"]
    assert unseen["rows"] == summary["rows"]
    assert unseen["kinds"]["gemm"]["median_ape"] <= 0.12
    assert unseen["kinds"]["attention"]["median_ape"] <= 0.15


def test_every_row_is_counted_once(compared):
    """Grouped GEMMs are GEMMs; best shapes and baselines are apart."""
    rows, summary = compared
    kinds = summary["kinds"]
    assert sum(kinds[name]["rows"] for name in ("gemm", "attention", "hbm_stream")) == summary["rows"]
    assert kinds["gemm"]["rows"] >= kinds["grouped_gemm"]["rows"] > 0
    assert sum(block["rows"] for block in summary["groups"].values()) == summary["rows"]
    apart = summary["best_shape"]["rows"] + summary["acceptance"]["rows"]
    assert summary["rows"] + apart + summary["skipped"] == len(FRAME)
    assert summary["skipped"] == sum(summary["skipped_because"].values())
    assert (rows["predicted"].isna() == (rows["left_out"] != "")).all()


# ------------------------------------------------------------------------------------------- the rule


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"quality": "vendor_slide"}, "own figure"),
        ({"notes": "degraded host"}, "abnormal"),
        ({"kind": "convolution"}, "no such kernel is modelled"),
        ({"accelerator": "RTX 4090"}, r"no data sheet .* \(RTX 4090\)"),
        ({"data_type": "fp4"}, "no peak of this data type is known"),
        ({"data_type": "fp8", "accelerator": "A100-SXM4-80GB"}, "no peak of this data type is known"),
        ({"n": np.nan}, "shape of a GEMM is not stated"),
        ({"time_seconds": np.nan, "flops_per_second": np.nan}, "no time and no speed"),
        ({"kind": "attention", "implementation": "PyTorch unfused"}, "no such implementation"),
    ],
)
def test_what_is_left_out(changes, reason):
    with pytest.raises(LeftOutError, match=reason):
        measured_kernels.case(0, row(**changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"causal": np.nan}, "the mask of attention is not stated"),
        ({"query_heads": np.nan}, "is not stated"),
        ({"pass": np.nan}, "the pass of attention"),
        ({"implementation": "FlashAttention-1"}, "no such implementation"),
    ],
)
def test_which_attention_is_left_out(changes, reason):
    with pytest.raises(LeftOutError, match=reason):
        measured_kernels.case(0, row("attention", **changes))


def test_attention_is_counted_as_its_sources_do():
    """4 × tokens × sequence × heads × width, half of it under a mask; a backward counts and executes 2.5 times that."""
    square = 4.0 * 16384 * 16384 * 16 * 128
    for passes, masked, forwards in (
        ("forward", "yes", 0.5),
        ("backward", "no", 2.5),
        ("forward_and_backward", "yes", 1.75),
    ):
        case = measured_kernels.case(0, row("attention", causal=masked, **{"pass": passes}))
        assert case.flops == forwards * square
        assert case.measured == case.flops / row("attention")["flops_per_second"]
    backward = measured_kernels.case(0, row("attention", causal="no", **{"pass": "backward"}))
    assert backward.ops[0].flops == 2.0 * square


def test_passes_of_grouped_gemms():
    """A row states tokens, outputs and inputs; gradients sum over outputs, or over tokens."""
    shapes = {"forward": (4, 2, 3, 5), "backward_input": (4, 2, 5, 3), "backward_weight": (4, 3, 5, 2)}
    for name, shape in shapes.items():
        changes = {"kind": "grouped_gemm", "m": 2.0, "n": 3.0, "k": 5.0, "groups": 4.0, "pass": name}
        (op,) = measured_kernels.case(0, row(**changes)).ops
        assert (op.shape, op.flops) == (shape, 2 * 4 * 2 * 3 * 5)


def test_what_adds_to_its_output_reads_it():
    (plain,), (adding,) = (
        measured_kernels.case(0, row(output_type="fp32", accumulate=adds)).ops for adds in (False, True)
    )
    m, n, _ = plain.shape
    assert plain.write_bytes == 4 * m * n
    assert adding.read_bytes - plain.read_bytes == 4 * m * n


# ------------------------------------------------------------------------------------------- clocks


def predicted(clock, rows=30):
    """A file whose rows the model predicts exactly, with GEMMs at some clock."""
    found, _ = measured_kernels.cases(FRAME[FRAME["kind"].isin(["gemm", "attention"])])
    frame = FRAME[FRAME["kind"].isin(["gemm", "attention"])].reset_index(drop=True)
    times = {case.row: case.seconds(Roofline(), clock) for case in found if case.accelerator.name == "A100-SXM4-80GB"}
    return frame.loc[list(times)].assign(time_seconds=list(times.values())).iloc[:rows]


def test_a_file_tells_the_clock_of_its_gemms(tmp_path):
    """Attention and memory streams keep the nominal clock."""
    mine = tmp_path / "mine.csv"
    predicted(0.7, rows=100).to_csv(mine, index=False)
    rows, summary = gemm.validate(mine)
    assert summary["clock_factors"] == {"A100-SXM4-80GB": pytest.approx(0.7, abs=0.01)}
    assert summary["kinds"]["gemm"]["median_ape"] < 0.005
    assert summary["kinds"]["attention"]["mape"] < 1e-9
    assert summary["at_nominal_clock"]["kinds"]["gemm"]["bias"] < -0.2
    assert (rows["predicted_at_nominal_clock"] <= rows["predicted"]).all()


def test_few_gemms_tell_no_clock(tmp_path):
    mine = tmp_path / "mine.csv"
    predicted(0.7, rows=gemm.ENOUGH - 1).to_csv(mine, index=False)
    _, summary = gemm.validate(mine)
    assert summary["clock_factors"] == {}
    assert "at_nominal_clock" not in summary
    assert "leave_one_series_out" not in summary


# ------------------------------------------------------------------------------------------- the fit


def test_the_constants_are_those_of_the_fit(found):
    """Refitting gives the file again, to what its digits can tell; so no fitted constant is made by hand.

    What steps tell is as `stepsim calibrate` found it, and here free; the bars above hold with what the file says.
    """
    model = Model(usable(found[0]), published())
    fitted = model.fit()
    filed = np.where(model.told, fitted, model.start)
    errors = [np.abs(np.log(model.seconds(logs) / model.measured)) for logs in (fitted, filed)]
    assert np.median(errors[0]) == pytest.approx(np.median(errors[1]), abs=0.003)
    np.testing.assert_allclose(np.exp(fitted), np.exp(filed), rtol=0.02)
    assert as_yaml(model.fitted(model.start).values) == as_yaml(published().values)


def test_what_steps_tell_is_not_taken_from_kernels_by_themselves(found):
    """Each of these has a prior of its own there, from which kernels by themselves are one prior's spread away."""
    model = Model(usable(found[0]), published())
    told = {key for key, each in zip(model.keys, model.told, strict=True) if each}
    assert told == {("families", "Hopper", "gemm_fp8"), ("families", "Blackwell", "gemm")}
    for key in told:
        assert abs(np.log(published().values[key] / calibration_priors.prior(key).value)) < 0.15


def test_standard_errors_are_those_of_the_fit(found):
    """Shares are known within some percent, what small kernels tell less well."""
    model = Model(usable(found[0]), published())
    logs = np.where(model.told, model.fit(), model.start)
    errors = dict(zip(model.keys, model.standard_errors(logs), strict=True))
    filed = constants.errors("kernels.yaml")
    own = [key for key, told in zip(model.keys, model.told, strict=True) if not told]
    assert {key: filed[key] for key in own} == pytest.approx({key: errors[key] for key in own}, rel=0.1)
    assert filed["families", "A100", "gemm"] < 0.03 < filed["shared", "gemm", "tile_loss"]


def test_fitted_are_ordinary_measurements(found):
    """Neither what was selected for being fast nor what states no shape."""
    kinds = {case.kind for case in usable(found[0])}
    assert not kinds & {"gemm_best_shape", "gemm_acceptance_baseline"}
    assert kinds >= {"gemm", "grouped_gemm", "attention", "hbm_stream_copy"}


def test_the_fit_prices_as_the_simulator_does(found):
    cases = usable(found[0])
    model = Model(cases, published())
    np.testing.assert_allclose(model.seconds(model.start), [case.seconds(Roofline()) for case in cases], rtol=1e-12)


# ------------------------------------------------------------------------------------------- the command


def test_the_command_prints_one_object_and_writes_rows(tmp_path, summary):
    out = tmp_path / "rows.csv"
    done = CliRunner().invoke(main, ["validate", "gemm", "--json", "--out", str(out)])
    assert json.loads(done.output) == json.loads(json.dumps(summary))
    written = pd.read_csv(out)
    assert len(written) == len(FRAME)
    assert {"measured_seconds", "predicted_seconds", "error", "assumed", "left_out", "clock_factor"} <= set(written)


def test_the_table_says_what_the_blocks_say(summary):
    text = gemm.text(summary)
    assert f"{summary['skipped']} rows left out" in text
    assert f"{summary['kinds']['attention']['median_ape']:.1%}" in text


def test_the_table_adds_up(summary):
    """What counts among the kind above it says so, and is indented."""
    lines = gemm.text(summary).split("\n\n")[0].splitlines()[2:]
    counts = {line.split("  ")[0]: int(line.split()[-5]) for line in lines if not line.startswith(" ")}
    assert sum(counts.values()) == summary["rows"]
    (part,) = (line for line in lines if line.startswith(" "))
    assert part.startswith("  of which grouped_gemm ")
    assert lines[list(counts).index("gemm") + 1] == part


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="kind"), "has no column 'kind'"),
        (lambda frame: frame.head(0), "has no rows"),
        (lambda frame: frame.head(2).assign(m=["8", "many"]), "line 3: m=many is not a whole number from 1 to 1e9"),
    ],
)
def test_bad_files_are_one_line(tmp_path, change, message):
    mine = tmp_path / "mine.csv"
    change(FRAME).to_csv(mine, index=False)
    done = CliRunner().invoke(main, ["validate", "gemm", "--data", str(mine)])
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1


def test_a_file_without_a_comparable_row_has_no_errors(tmp_path):
    mine = tmp_path / "mine.csv"
    FRAME.head(3).assign(accelerator="abacus").to_csv(mine, index=False)
    _, summary = gemm.validate(mine)
    assert (summary["rows"], summary["skipped"], summary["mape"]) == (0, 3, None)
    assert gemm.text(summary)
