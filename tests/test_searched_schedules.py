"""Searched schedules: never worse than the published tables at the same memory, and what the search rests on."""

import csv
import gzip
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simulator
from simulator import replay_schedule
from workloads import schedules
from workloads.schedule import peak_in_flight
from workloads.schedule_text import from_orders
from workloads.schedules._blocks import PERIOD, blocks
from workloads.schedules._compact import compacted
from workloads.schedules._orders import looped, v_shaped
from workloads.schedules._timing import Limits, Pipeline

PACKAGE_DATA = Path(simulator.__file__).parent / "data"
PUBLISHED = json.loads(gzip.decompress((PACKAGE_DATA / "schedules.json.gz").read_bytes()).decode())
SEARCHED: dict[str, tuple[str, dict[str, float]]] = {
    "ZB1P": ("zb_auto", {"memory": 1}),
    "ZB2P": ("zb_auto", {"memory": 2}),
    "ZBV_greedy_auto": ("zb_v_auto", {}),
    "VHalf": ("v_half", {}),
    "VMin": ("v_min", {}),
    "V1F1B": ("v_1f1b", {}),
}
NAMES = ("zb_auto", "zb_v_auto", "v_half", "v_min", "v_1f1b")
EQUAL = {"tF": 10, "tI": 10, "tW": 10, "tcomm": 0}
TABLES = [row for row in PUBLISHED["tables"] if row["schedule"] in SEARCHED]
durations = st.integers(1, 9)
quick = settings(max_examples=40, deadline=None)


def costs(row: dict[str, Any]) -> dict[str, float]:
    """Times of a rank's stages together; `scheduler_cost` is of one stage, and published bubbles come out so only."""
    cost, virtual = row.get("scheduler_cost", EQUAL), row["V"]
    return {
        "forward": cost["tF"] * virtual,
        "backward_input": cost["tI"] * virtual,
        "backward_weight": cost["tW"] * virtual,
        "hop": cost["tcomm"],
    }


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=row["id"], marks=() if row["M"] == 8 else pytest.mark.slow) for row in TABLES],
)
def test_no_published_table_is_better(row: dict[str, Any]) -> None:
    """By makespan and by span, both replayed at the table's own cost, holding no more until W on any rank."""
    name, options = SEARCHED[row["schedule"]]
    built = schedules.build(name, row["P"], row["M"], **options, **costs(row))
    table = from_orders(row["id"], [rank.split() for rank in row["ranks"]])
    ours, theirs = replay_schedule(built, **costs(row)), replay_schedule(table, **costs(row))
    assert built.placement == table.placement
    assert ours.makespan <= theirs.makespan
    assert ours.span <= theirs.span
    assert max(built.peak_in_flight) <= max(table.peak_in_flight)
    if row["schedule"] != "ZB2P":
        at_input = [
            max(peak_in_flight(order, [1] * each.stages, "I") for order in each.orders.values())
            for each in (built, table)
        ]
        assert at_input[0] <= at_input[1]


@pytest.mark.parametrize(
    ("name", "stages", "bubble", "held"),
    [
        ("v_half", 4, 25, 6),
        ("v_half", 8, 85, 10),
        ("v_min", 4, 55, 4),
        ("v_min", 8, 135, 8),
        ("v_1f1b", 4, 75, 6),
        ("v_1f1b", 8, 165, 12),
    ],
)
def test_published_bubbles_of_controllable_memory(name: str, stages: int, bubble: float, held: int) -> None:
    """F = I = W = 10, m = 3p."""
    schedule = schedules.build(name, stages, 3 * stages)
    result = replay_schedule(schedule, 10, 10, 10)
    assert result.makespan - 3 * stages * 30 <= bubble
    assert max(schedule.peak_in_flight) <= held


def profiles() -> list[tuple[dict[str, float], str, int, int, float]]:
    """Profiled times of table 9 beside each searched schedule's bubble rate in table 5."""
    times: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    rates = []
    with (PACKAGE_DATA / "schedule_bubbles_published.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            key = row["model"], row["pp"], row["microbatches"]
            if row["table"] == "9":
                times[key][row["quantity"].removesuffix("_time")] = float(row["value"])
            elif row["table"] == "5" and row["schedule"] in ("ZB-1p", "ZB-2p"):
                rates.append((key, row["schedule"], float(row["value"])))
    return [(times[key], schedule, int(key[1]), int(key[2]), rate) for key, schedule, rate in rates]


@pytest.mark.parametrize(
    ("times", "schedule", "stages", "microbatches", "published"),
    [pytest.param(*row, marks=() if row[3] == 24 else pytest.mark.slow) for row in profiles()],
)
def test_bubble_rates_of_the_zero_bubble_paper(
    times: dict[str, float], schedule: str, stages: int, microbatches: int, published: float
) -> None:
    """Of the longest span of a rank, to the four digits printed."""
    built = schedules.build("zb_auto", stages, microbatches, memory=1 if schedule == "ZB-1p" else 2, **times)
    span = replay_schedule(built, **times).span
    busy = microbatches * (times["forward"] + times["backward_input"] + times["backward_weight"])
    assert round(1 - busy / span, 4) <= published


@settings(max_examples=12, deadline=None)
@given(p=st.integers(1, 4), rounds=st.integers(2, 3), times=st.tuples(durations, durations, durations))
def test_no_worse_than_schedules_of_fixed_order(p: int, rounds: int, times: tuple[int, int, int]) -> None:
    """Once the memory as good as ZB-H1, (p - 1)(F + I - W) for W <= F; twice as ZB-H2; a V as ZB-V."""
    named = dict(zip(("forward", "backward_input", "backward_weight"), times, strict=True))
    for name, memory, fixed in (("zb_auto", 1, "zb_h1"), ("zb_auto", 2, "zb_h2"), ("zb_v_auto", 1, "zb_v")):
        ours = replay_schedule(schedules.build(name, p, p * rounds, memory=memory, **named), *times)
        theirs = replay_schedule(schedules.build(fixed, p, p * rounds), *times)
        if name == "zb_auto":
            assert ours.span <= theirs.span
        else:
            assert ours.makespan + 4 * ours.span <= theirs.makespan + 4 * theirs.span


@pytest.mark.parametrize("stages", [2, 3, 4, 6])
def test_no_bubble_by_span_with_room_enough(stages: int) -> None:
    """At F = I = W: ZB-2p as ZB-H2, holding 2p until W, and ZB-V as its fixed order."""
    looped_one = schedules.build("zb_auto", stages, 2 * stages, memory=2)
    assert replay_schedule(looped_one).span == 2 * stages * 3
    assert max(looped_one.peak_in_flight) <= 2 * stages
    v_shaped_one = schedules.build("zb_v_auto", stages, 2 * stages)
    assert replay_schedule(v_shaped_one).span == 2 * stages * 3
    assert max(v_shaped_one.peak_in_flight) <= 2 * stages


@pytest.mark.parametrize("memory", [0.5, 0.625, 0.75, 1, 2])
def test_memory_is_a_limit(memory: float) -> None:
    times = {"forward": 10.0, "backward_input": 13.0, "backward_weight": 7.0, "hop": 1.0}
    schedule = schedules.build("zb_v_auto", 4, 8, memory=memory, **times)
    assert max(schedule.peak_in_flight) <= memory * 8


@quick
@given(
    name=st.sampled_from(["1f1b", "gpipe", "zb_h1", "zb_h2", "zb_v"]),
    p=st.integers(1, 5),
    rounds=st.integers(1, 3),
    times=st.tuples(durations, durations, durations),
    hop=st.integers(0, 4),
)
def test_orders_are_timed_as_the_engine_times_them(
    name: str, p: int, rounds: int, times: tuple[int, int, int], hop: int
) -> None:
    schedule = schedules.build(name, p, p * rounds)
    per_stage = dict(zip("FIW", (time * p / schedule.stages for time in times), strict=True))
    if name in ("1f1b", "gpipe"):
        per_stage = {"F": per_stage["F"], "B": per_stage["I"] + per_stage["W"]}
    pipeline = Pipeline(schedule.placement, p * rounds, per_stage, hop)
    orders = [[pipeline.number(*action[:3]) for action in schedule.orders[rank]] for rank in range(p)]
    assert pipeline.actions(orders) == list(schedule.orders.values())
    figures, result = pipeline.figures(orders), replay_schedule(schedule, *times, hop)
    assert (figures.makespan, figures.span) == pytest.approx((result.makespan, result.span), rel=1e-12)
    assert figures.until_weight == max(schedule.peak_in_flight)
    least = pipeline.least
    assert least.makespan <= figures.makespan + 1e-9
    assert least.span <= figures.span + 1e-9


@quick
@given(
    name=st.sampled_from(["zb_h1", "zb_h2", "zb_v"]),
    p=st.integers(1, 4),
    m=st.integers(1, 9),
    times=st.tuples(durations, durations, durations, st.integers(0, 4)),
    more=st.integers(0, 3),
    ways=st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.booleans(), st.booleans()), min_size=1, max_size=5),
)
def test_compaction_keeps_orders_legal_and_limits(
    name: str, p: int, m: int, times: tuple[int, int, int, int], more: int, ways: list[tuple[float, bool, bool]]
) -> None:
    """The schedule's own checker accepts what it makes, and patient ways forward never make a step longer."""
    schedule = schedules.build(name, p, m * p)
    pipeline = Pipeline(schedule.placement, m * p, dict(zip("FIW", times[:3], strict=True)), times[3])
    orders = [[pipeline.number(*action[:3]) for action in schedule.orders[rank]] for rank in range(p)]
    before = pipeline.figures(orders)
    limits = Limits(before.until_input + more, before.until_weight + more)
    for patience, mirrored, staggered in ways:
        orders = compacted(pipeline, orders, limits, [patience] * p, mirrored=mirrored, staggered=staggered)
        figures = pipeline.figures(orders)
        assert limits.allow(figures.until_input, figures.until_weight)
    shape = v_shaped if name == "zb_v" else looped
    assert shape("compacted", pipeline.actions(orders)).microbatches == m * p


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8])
def test_building_blocks_repeat(ranks: int) -> None:
    """No rank does two things at a step, and each action comes after what it needs."""
    for block in blocks(ranks)[:500]:
        for down, up, input_up, input_down, weight_up, weight_down in block:
            offsets = down, up, input_up, input_down, weight_up, weight_down
            assert len({offset % PERIOD for offset in offsets}) == PERIOD
            assert down < up < input_up < input_down < weight_down
            assert input_up < weight_up


@pytest.mark.parametrize("name", NAMES)
def test_equal_input_gives_equal_schedules(name: str) -> None:
    times = {"forward": 0.0185, "backward_input": 0.0181, "backward_weight": 0.0093, "hop": 0.0006}
    assert schedules.build(name, 3, 7, **times) == schedules.build(name, 3, 7, **times)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zb_auto,memory=0.5", "memory=0.5 times 4 ranks; the first of them needs room for 4 microbatches: memory=1"),
        ("zb_auto,memory=lots", "memory='lots' is not a number"),
        ("zb_auto,hop=-1", "hop=-1: a time must be 0 or more"),
        ("zb_v_auto,memory=0.1", "memory=0.1 times 8 chunks; the leanest block on 4 ranks holds 4: memory=0.5"),
        ("v_half,forward=on", "forward=True is not a number"),
        ("v_min,forward=0,backward_input=0,backward_weight=0", "forward=0, backward_input=0, backward_weight=0; one"),
        ("v_1f1b,memory=1", "unknown option of v_1f1b 'memory'"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as caught:
        schedules.build(text, 4, 8)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [1, 2])
def test_a_search_takes_seconds(memory: float) -> None:
    """At p = 16, m = 64 at most 5 s, with the times of table 9."""
    begun = time.perf_counter()
    times = {"forward": 18.522, "backward_input": 18.086, "backward_weight": 9.337, "hop": 0.601}
    schedules.build("zb_auto", 16, 64, memory=memory, **times)
    assert time.perf_counter() - begun <= 5
