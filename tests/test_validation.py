"""Measured collectives against predictions: the rule of what is left out, the bars, the fit, what depends on what."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from simulator import constants, time_collective
from simulator.constants import as_yaml
from simulator.fabrics import CLASSES, FAMILIES, NETWORK, SCALE_UP, SM_SHARES, Fabric, published
from simulator.validation import collectives, measured, report
from simulator.validation.fit import Model

FRAME = measured.read()


@pytest.fixture(scope="module")
def found():
    return measured.cases(FRAME)


@pytest.fixture(scope="module")
def compared(found):
    return collectives.compare(FRAME, *found)


@pytest.fixture(scope="module")
def summary():
    return collectives.validate()[1]


def row(**changes):
    """A measured row that is compared, with changes."""
    base = FRAME[(FRAME["series"] == "dstack-nebius/h100-sxm5/16x2/all-reduce") & (FRAME["size_bytes"] == 2**30)]
    return {**base.iloc[0].to_dict(), **changes}


# ------------------------------------------------------------------------------------------- the bars


def test_median_errors_and_bias(summary):
    assert summary["rows"] > 800
    assert summary["rows"] + summary["skipped"] == len(FRAME)
    assert summary["median_ape"] <= 0.15
    assert summary["size_bands"][">= 1 GiB"]["median_ape"] <= 0.06
    assert abs(summary["bias"]) <= 0.05


def test_no_group_is_far_off(summary):
    assert {
        name: block for name, block in summary["groups"].items() if block["rows"] >= 10 and block["median_ape"] > 0.3
    } == {}


def test_series_left_out_of_the_fit_are_predicted_too(summary):
    unseen = summary["leave_one_series_out"]
    assert unseen["median_ape"] <= 0.2
    assert unseen["size_bands"][">= 1 GiB"]["median_ape"] <= 0.1


def test_every_row_is_compared_or_left_out_for_a_reason(compared):
    left_out = compared["left_out"] != ""
    assert (compared["predicted"].isna() == left_out).all()
    assert (compared.loc[~left_out, "predicted"] > 0).all()
    assert (compared.loc[~left_out, "predicted_algorithm"] != "").all()


# ------------------------------------------------------------------------------------------- the rule


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"quality": "vendor_slide"}, "own figure"),
        ({"notes": "degraded case"}, "abnormal"),
        ({"notes": "default env (untuned); more"}, "untuned"),
        ({"time_seconds": np.nan}, "no time"),
        ({"size_bytes": np.nan}, "no time or no size"),
        ({"collective": "peer_copy"}, "not a collective"),
        ({"accelerator": "RTX 4090"}, r"no server of this accelerator is modelled \(RTX 4090\)"),
        ({"nics_per_node": np.nan}, "network cards is not stated"),
        ({"fabric": "carrier pigeon"}, r"no such network is modelled \(carrier pigeon\)"),
        ({"nics_per_node": 3.0}, "3 cards do not go evenly with 8"),
        ({"gpus": 13.0}, "13 accelerators do not lie evenly on 2 nodes"),
        ({"gpus": np.nan}, "not stated"),
        ({"gpus": 1}, "or is one"),
        ({"algorithm": "NVLS", "accelerator": "A100-SXM4-80GB"}, "no such algorithm there"),
    ],
)
def test_what_is_left_out(changes, reason):
    with pytest.raises(measured.LeftOutError, match=reason):
        measured.case(0, row(**changes))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "dgx_h100,nodes=2"),
        ({"nics_per_node": 16.0, "nic_bits_per_second": 200e9, "fabric": "roce"}, "nics=16"),
        ({"gpus": 2.0, "nics_per_node": 1.0}, "dgx_h100,nodes=2"),
        ({"accelerator": "H800-SXM"}, "accelerator=h800"),
        ({"accelerator": "MI300X", "fabric": "unstated"}, "full_mesh,nodes=2"),
        ({"accelerator": "GB200", "gpus": 128.0, "nodes": 32.0, "nics_per_node": 4.0}, "gb200_nvl72,racks=2"),
        ({"accelerator": "GB200", "gpus": 72.0, "nodes": 18.0, "fabric": "nvlink"}, "gb200_nvl72,racks=1"),
    ],
)
def test_what_a_row_is_rebuilt_as(changes, name):
    case = measured.case(0, row(**changes))
    assert name in case.topology.name
    assert len(case.ranks) == row(**changes)["gpus"]


def test_a_prediction_is_what_time_collective_says(found):
    for case in found[0][::97]:
        done = time_collective(
            case.collective.kind, bytes=case.collective.bytes, ranks=case.ranks, topology=case.topology
        )
        assert done.seconds <= float(case.fastest.seconds(case.topology)[0])
        if len(case.activities) > 1:
            assert done.seconds == float(case.fastest.seconds(case.topology)[0])


def test_files_of_ones_own(tmp_path):
    mine = tmp_path / "mine.csv"
    FRAME.iloc[:30].to_csv(mine, index=False)
    _, summary = collectives.validate(mine)
    assert summary["rows"] == 30
    assert "leave_one_series_out" not in summary
    FRAME.drop(columns="fabric").to_csv(mine, index=False)
    with pytest.raises(ValueError, match="has no column 'fabric'"):
        collectives.validate(mine)
    with pytest.raises(ValueError, match="cannot read"):
        collectives.validate(tmp_path / "none.csv")
    FRAME.head(0).to_csv(mine, index=False)
    with pytest.raises(ValueError, match="has no rows"):
        collectives.validate(mine)
    FRAME.head(3).assign(gpus=["8", "many", "8"]).to_csv(mine, index=False)
    with pytest.raises(ValueError, match="line 3: gpus=many is not a whole number from 1 to 1e5"):
        collectives.validate(mine)
    mine.write_text("")
    with pytest.raises(ValueError, match="cannot read"):
        collectives.validate(mine)


def test_a_block_of_nothing_has_no_errors():
    assert report.block(pd.DataFrame(), skipped=3)["skipped"] == 3
    assert report.block(pd.DataFrame())["rows"] == 0
    assert report.block(pd.DataFrame())["mape"] is None


# ------------------------------------------------------------------------------------------- the constants


def test_the_fit_prices_as_the_simulator_does(found):
    cases = found[0][::7]
    model = Model(cases, published())
    predicted = [float(case.fastest.seconds(case.topology)[0]) for case in cases]
    np.testing.assert_allclose(model.seconds(model.start), predicted, rtol=1e-12)


def test_the_constants_are_those_of_the_fit(found):
    """Refitting gives the file again, to what its digits can tell; so nothing in it is made by hand."""
    model = Model(found[0], published())
    fitted, filed = model.fit(), model.start
    errors = [np.abs(np.log(model.seconds(logs) / model.measured)) for logs in (fitted, filed)]
    assert np.median(errors[0]) == pytest.approx(np.median(errors[1]), abs=0.01)
    assert as_yaml(model.fabrics(filed, published()).values) == as_yaml(published().values)


def test_constants_depend_on_accelerators_and_kinds_of_links_only():
    """Fields of a fabric; entries are classes of links, families of accelerators, technologies, or both of these."""
    names, kinds = set(Fabric.__dataclass_fields__), {*NETWORK, "pcie"}
    entries = {
        "shared": set(CLASSES),
        "accelerators": set(FAMILIES.values()),
        "links": kinds | {f"{family} {kind}" for family in FAMILIES.values() for kind in kinds},
    }
    for section, entry, name in published().values:
        assert entry in entries[section]
        assert name in names
    assert not set(SCALE_UP) & set(NETWORK)


def test_there_are_few_constants_each_with_an_error_or_a_source():
    """With the shares of SMs, which have a source of their own, they leave most of 60 to kernels and stacks."""
    errors, sources = constants.errors("fabrics.yaml"), constants.sources("fabrics.yaml")
    assert {*errors, *sources} == set(published().values)
    assert not set(errors) & set(sources)
    assert all(0 < error < 0.3 for error in errors.values())
    assert all(len(source.split()) > 3 for source in sources.values())
    assert len(published().values) + len(set(SM_SHARES.values())) <= 26


def test_standard_errors_are_those_of_the_fit(found):
    """And tell how far a constant may be off before the fit notices: of shares less than of times."""
    model = Model(found[0], published())
    errors = dict(zip(model.keys, model.standard_errors(model.start), strict=True))
    filed = constants.errors("fabrics.yaml")
    assert filed == pytest.approx(errors, rel=0.1)
    assert filed["shared", "network", "share"] < filed["shared", "all", "launch"] < filed["shared", "all", "step"]


def test_predicting_reads_no_measurements():
    """With the file of measurements out of reach, a prediction is the same."""
    code = f"""
import builtins, io, pathlib, sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
real = io.open
def guarded(path, *rest, **more):
    assert not str(path).endswith(".csv"), path
    return real(path, *rest, **more)
builtins.open = io.open = guarded
from simulator import constants, time_collective
print(time_collective("all_reduce", bytes=2**30, ranks=range(16), topology="dgx_h100,nodes=2").seconds)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds = time_collective("all_reduce", bytes=2**30, ranks=range(16), topology="dgx_h100,nodes=2").seconds
    assert float(done.stdout) == seconds


def test_the_table_says_what_the_blocks_say(summary):
    text = collectives.text(summary)
    assert f"{summary['skipped']} rows left out" in text
    assert f"{summary['median_ape']:.1%}" in text
    assert len(pd.read_fwf(io.StringIO(report.table(summary["groups"])))) == len(summary["groups"])
