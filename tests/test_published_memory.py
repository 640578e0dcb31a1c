"""What published peaks of memory count, and what speaks against some of them."""

import pandas as pd
import pytest

from simulator import simulate
from simulator.validation import published_memory, published_runs
from simulator.validation.published_cells import Cells
from workloads import TrainingStep

FRAME = published_runs.read()
SAME = dict.fromkeys(published_memory.LAYOUT, "x")


@pytest.mark.parametrize(
    ("name", "counts"),
    [("bloom-001", "device"), ("titan-001", "reserved"), ("simumax_b200-001", "allocated"), ("zb-001", "unstated")],
)
def test_what_a_source_counts(name, counts):
    row = FRAME[FRAME["id"] == name].iloc[0].to_dict()
    assert published_memory.counted(Cells(row)) == counts


def test_a_device_holds_runtime_and_margin_beside_what_is_allocated():
    result = simulate(TrainingStep("llama3_8b,layers=4", "dp=2", batch=2, sequence=2048), "dgx_h100,gpus_per_node=2")
    peak, runtime = published_memory.peak(result), result.memory_rows["runtime"]
    assert peak["unstated"] - peak["allocated"] == peak["device"] - peak["reserved"] == runtime
    assert peak["device"] == result.reserved_memory
    assert peak["reserved"] > peak["allocated"]


def rows(*published, predicted=10.0):
    """Rows of one layout, given by (microbatch, published bytes)."""
    microbatches, sizes = zip(*published, strict=True)
    return pd.DataFrame({**SAME, "microbatch": microbatches, "peak_memory_bytes": sizes, "predicted_memory": predicted})


def test_a_row_that_takes_more_than_a_larger_microbatch_says_so():
    reasons = published_memory.reasons(rows((1, 20e9), (2, 15e9), predicted=10e9))
    assert reasons.tolist() == ["published 20 GB, but 15 GB with microbatch=2", ""]


def test_repeats_that_differ_say_so_by_their_own():
    assert published_memory.reasons(rows((1, 20.0), (1, 10.0))).tolist() == ["repeats differ by 100%", ""]


def test_what_fits_or_has_no_other_row_has_no_reason():
    assert published_memory.reasons(rows((1, 11.0), (2, 20.0))).tolist() == ["", ""]
