"""Sweeps: one row per point, a reason where there is no result."""

import inspect

import pandas
import pytest

import topologies
from simulator import simulate, sweep
from workloads import TrainingStep

CLUSTER = topologies.build("dgx_h100")
STEPS = [
    TrainingStep("llama3_8b,layers=4", plan, batch=16, sequence=2048) for plan in ("dp=8", "pp=2 dp=4", "fsdp=4 tp=2")
]


def test_a_row_for_every_step_on_every_cluster():
    clusters = [CLUSTER, CLUSTER.degrade(rank=0, compute=0.5)]
    frame = sweep(STEPS, clusters)
    assert isinstance(frame, pandas.DataFrame)
    assert frame["plan"].tolist() == [str(step.plan) for step in STEPS for _ in clusters]
    assert frame["topology"].tolist() == [cluster.name for _ in STEPS for cluster in clusters]
    assert frame["reason"].tolist() == [""] * 6
    assert {"model", "batch", "sequence", "microbatch", "recompute", "optimizer", "mfu", "memory_fits"} <= set(
        frame.columns
    )


def test_rows_tell_steps_apart_however_they_were_given():
    """Every field has a column, as text where it is no number or switch; what was left out is at its default."""
    given = {"model": "llama3_8b,layers=4", "plan": "dp=8", "batch": 16, "sequence": 2048}
    changes = [
        {},
        {"recompute": "full,every=2"},
        {"optimizer": "muon"},
        {"precision": "fp8"},
        {"attention": "flash2"},
        {"fusion": False},
        {"graphs": True},
        {"convention": "full"},
        {"microbatch": 2},
    ]
    points = [given | change for change in changes]
    frame = sweep([*points, *(TrainingStep(**point) for point in points)], [CLUSTER])
    columns = list(inspect.signature(TrainingStep).parameters)
    rows = frame[columns].to_dict("records")
    assert rows[: len(points)] == rows[len(points) :]
    assert len({tuple(row.values()) for row in rows}) == len(points)
    for row, point in zip(rows, points, strict=False):
        assert {name: row[name] for name in point} == point
    assert frame["recompute"].tolist().count("none") == 2 * (len(points) - 1)


@pytest.mark.parametrize("detail", ["ops", "actions"])
def test_rows_are_what_simulate_says(detail):
    frame = sweep(STEPS, [CLUSTER], detail=detail)
    for step, (_, row) in zip(STEPS, frame.iterrows(), strict=True):
        figures = simulate(step, CLUSTER, detail=detail).figures
        assert {name: row[name] for name in figures} == figures


def test_an_impossible_point_is_a_row_with_its_reason():
    given = {"model": "llama3_8b,layers=4", "batch": 16, "sequence": 2048}
    points = [{**given, "plan": plan} for plan in ("dp=8", "dp=4 tp=3", "dp=4", "dp=8,zeros=1", "nonsense", "dp=3")]
    frame = sweep([*points, {**given, "plan": "dp=8", "batches": 3}, {"plan": "dp=8"}], [CLUSTER])
    reasons = frame["reason"].tolist()
    assert reasons[0] == ""
    for reason, words in zip(
        reasons[1:],
        [
            "heads=32 are not divisible by tp=3; nearest tp: 2 or 4",
            "dp=4 = 4 ranks, but dgx_h100,nodes=1 has 8",
            "unknown option of dp 'zeros'",
            "unknown axis 'nonsense'",
            "batch=16 is not divisible by dp 3",
            "unknown field of a step 'batches'; did you mean batch?",
            "a step needs model and batch and sequence",
        ],
        strict=True,
    ):
        assert words in reason
        assert "\n" not in reason
    assert frame["step_time_seconds"].notna().tolist() == [True] + [False] * 7


def test_workers_change_nothing():
    one, two = (sweep(STEPS, [CLUSTER], workers=workers) for workers in (1, 2))
    pandas.testing.assert_frame_equal(one, two, check_exact=True)


def test_iterators_are_enough_and_nothing_gives_nothing():
    assert len(sweep(iter(STEPS), iter([CLUSTER, CLUSTER]))) == 6
    assert sweep([], [CLUSTER]).empty
    assert sweep(STEPS, []).empty


@pytest.mark.parametrize(("options", "message"), [({"workers": 0}, "workers=0"), ({"workers": -1}, "workers=-1")])
def test_bad_sweeps_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        sweep(STEPS, [CLUSTER], **options)
