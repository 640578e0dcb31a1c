"""Pipeline schedules: published action tables, closed forms of memory, and the checker."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from workloads import schedules
from workloads.schedule import Action, Schedule, peak_in_flight

DATA = json.loads((Path(__file__).parent / "data" / "schedule_tables.json").read_text())


def table(*ranks: str) -> dict[int, tuple[Action, ...]]:
    """Orders from text: `table("0F0 0B0")`."""
    pattern = re.compile(r"(\d+)([A-Z])(-?\d+)")
    found = [[pattern.fullmatch(word) for word in row.split()] for row in ranks]
    return {
        rank: tuple(Action(int(each[1]), each[2], int(each[3])) for each in row if each)
        for rank, row in enumerate(found)
    }


def written(schedule: Schedule) -> list[str]:
    return [" ".join(map(str, schedule.orders[rank])) for rank in range(schedule.ranks)]


@pytest.mark.parametrize("row", DATA["tables"], ids=lambda row: row["id"])
def test_published_tables_token_for_token(row: dict[str, Any]) -> None:
    schedule = schedules.build(row["schedule"], row["stages"], row["microbatches"], **row["options"])
    assert written(schedule) == row["ranks"]
    assert list(schedule.peak_in_flight) == row["peak_in_flight"]


def is_legal(name: str, stages: int, microbatches: int) -> bool:
    """Where DualPipe's own limits hold; multiples of the stages are legal for every other schedule."""
    if name == "dualpipe" and (stages % 2 or microbatches % 2):
        return False
    return "dualpipe" not in name or microbatches >= 2 * stages


@pytest.mark.parametrize("name", schedules.names())
@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (1, 4), (2, 2), (4, 8), (8, 16)])
def test_every_schedule_computes_everything_once(name: str, stages: int, microbatches: int) -> None:
    """Construction runs the checker; forwards over all ranks are stages x microbatches of each stage's chain."""
    if not is_legal(name, stages, microbatches):
        with pytest.raises(ValueError, match=f"stages={stages}.*nearest"):
            schedules.build(name, stages, microbatches)
        return
    schedule = schedules.build(name, stages, microbatches)
    actions = [single for order in schedule.orders.values() for action in order for single in action.singles]
    forwards = [action for action in actions if action.kind == "F"]
    assert len(set(forwards)) == len(forwards) == schedule.stages * microbatches // len(schedule.chains)
    assert (schedule.ranks, schedule.microbatches) == (stages, microbatches)
    assert schedule.weights == tuple(range(schedule.stages // len(schedule.chains))) * len(schedule.chains)
    assert hash(schedule) == hash(schedules.build(name, stages, microbatches))
    assert schedule == schedules.build(name, stages=stages, microbatches=microbatches)


@given(p=st.integers(1, 12), m=st.integers(1, 30))
def test_peak_of_gpipe_and_one_f_one_b(p: int, m: int) -> None:
    """GPipe holds m on every rank; 1F1B min(m, p - r) on rank r, also for m < p."""
    assert schedules.build("gpipe", p, m).peak_in_flight == (m,) * p
    assert schedules.build("1f1b", p, m).peak_in_flight == tuple(min(m, p - r) for r in range(p))


@given(p=st.integers(1, 8), rounds=st.integers(1, 4), v=st.integers(1, 5), extra=st.integers(0, 5))
def test_peak_of_interleaved(p: int, rounds: int, v: int, extra: int) -> None:
    """min(mv, (v-1)g + 2(p-r-1) + 1) on rank r, g microbatches a round."""
    g = p + extra
    m = g * rounds
    schedule = schedules.build("interleaved", p, m, virtual=v, group=g)
    assert schedule.peak_in_flight == tuple(min(m * v, (v - 1) * g + 2 * (p - r - 1) + 1) for r in range(p))


@given(p=st.integers(2, 8), m=st.integers(1, 16), strict=st.booleans())
def test_one_virtual_stage_needs_no_rounds(p: int, m: int, strict: bool) -> None:
    """Any m is legal; with m < p it warns as 1F1B does. Rank r has min(m, 2(p-r-1) + 1) in flight."""
    schedule = schedules.build("interleaved", p, m, virtual=1, strict=strict)
    assert schedule.peak_in_flight == tuple(min(m, 2 * (p - r - 1) + 1) for r in range(p))
    few = [warning for warning in schedule.warnings if "ranks compute at a time" in warning]
    assert few == list(schedules.build("1f1b", p, m).warnings)
    assert len(schedule.warnings) - len(few) == (0 if strict else 1)


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(schedules.names()), p=st.integers(1, 6), rounds=st.integers(1, 3), weight=st.integers(1, 9))
def test_weights_scale_what_is_in_flight(name: str, p: int, rounds: int, weight: int) -> None:
    """Equal weights w hold w times the count; a stage that weighs nothing holds nothing."""
    assume(is_legal(name, p, p * rounds))
    schedule = schedules.build(name, p, p * rounds)
    for order, count in zip(schedule.orders.values(), schedule.peak_in_flight, strict=True):
        assert peak_in_flight(order, [float(weight)] * schedule.stages) == weight * count
        assert peak_in_flight(order, [0.0] * schedule.stages) == 0


def test_options_are_those_beside_stages_and_microbatches() -> None:
    assert schedules.options("interleaved") == ["virtual", "group", "strict", "rounds"]
    assert schedules.defaults("ZB-H1") == {"virtual": 1, "strict": True}
    assert schedules.options("1f1b") == []


@given(p=st.integers(1, 6), m=st.integers(1, 24), v=st.integers(2, 4), g=st.integers(1, 12))
def test_strict_rule_of_interleaved(p: int, m: int, v: int, g: int) -> None:
    """Legal: g >= p, and m mod g either 0 or >= p. What is legal always finishes; what is refused names m and p."""
    if g >= p and (m % g == 0 or m % g >= p):
        assert schedules.build("interleaved", p, m, virtual=v, group=g).warnings == ()
        return
    with pytest.raises(ValueError, match=f"stages={p}.*nearest") as caught:
        schedules.build("interleaved", p, m, virtual=v, group=g)
    for text in re.findall(r"\d+", str(caught.value).split("microbatches=")[-1]) if g >= p else []:
        assert schedules.build("interleaved", p, int(text), virtual=v, group=g).microbatches == int(text)


@pytest.mark.parametrize(("microbatches", "nearest"), [(10, "8 or 12"), (3, "4"), (7, "4 or 8")])
def test_interleaved_names_the_nearest_legal_counts(microbatches: int, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"microbatches={microbatches} .*stages=4 .*microbatches={nearest}$"):
        schedules.build("interleaved", 4, microbatches)


def test_a_rest_of_at_least_the_pipeline_is_legal() -> None:
    """Rounds of 5 on 4 ranks: 14 leave 4, 16 leave 1; the neighbours of 16 are 15 and 19."""
    assert schedules.build("interleaved", 4, 14, group=5).microbatches == 14
    with pytest.raises(ValueError, match=r"0 or at least 4; nearest: microbatches=15 or 19$"):
        schedules.build("interleaved", 4, 16, group=5)


def test_options_without_effect_and_short_rounds_are_warned_about() -> None:
    assert "group=8 changes nothing" in schedules.build("interleaved", 4, 8, virtual=1, group=8).warnings[0]
    assert "leave 2 over" in schedules.build("interleaved", 4, 10, strict=False).warnings[0]
    assert "strict=off changes nothing" in schedules.build("interleaved", 4, 8, strict=False).warnings[0]
    assert schedules.build("interleaved", 4, 9, virtual=1).warnings == ()


@pytest.mark.parametrize("name", ["gpipe", "one_f_one_b"])
@pytest.mark.parametrize("microbatches", [1, 2, 3])
def test_fewer_microbatches_than_stages_warn(name: str, microbatches: int) -> None:
    schedule = schedules.build(name, 4, microbatches)
    assert f"at most {microbatches} of 4 ranks" in schedule.warnings[0]


@given(p=st.integers(1, 8), m=st.integers(1, 16))
def test_table_is_as_long_as_the_closed_form(p: int, m: int) -> None:
    """With F = B = 1 step, GPipe and 1F1B (m >= p) take 2(m + p - 1) steps."""
    for name in ["gpipe", "one_f_one_b"] if m >= p else ["gpipe"]:
        first = str(schedules.build(name, p, m)).splitlines()[1]
        assert len(first.removeprefix("rank 0").split()) == 2 * (m + p - 1)


def test_one_microbatch_on_four_stages_prints_its_waits() -> None:
    assert str(schedules.build("gpipe", 4, 1)).splitlines() == [
        "gpipe: ranks=4 stages=4 microbatches=1",
        "rank 0  0F0  .   .   .   .   .   .  0B0",
        "rank 1   .  1F0  .   .   .   .  1B0",
        "rank 2   .   .  2F0  .   .  2B0",
        "rank 3   .   .   .  3F0 3B0",
    ]


def test_split_backward_and_overlapped_pairs_are_legal() -> None:
    split = Schedule("split", table("0F0 0I0 0W0", "1F0 1I0 1W0"), (0, 1))
    assert split.peak_in_flight == (1, 1)
    pair = Action(0, "F", 1, (Action(0, "F", 1), Action(0, "B", 0)))
    paired = Schedule("paired", {0: (Action(0, "F", 0), pair, Action(0, "B", 1))}, (0,))
    assert str(paired).splitlines()[1].split() == ["rank", "0", "0F0", "(0F1;0B0)", "0B1"]
    assert paired.peak_in_flight == (2,)


@pytest.mark.parametrize(
    ("orders", "placement", "message"),
    [
        (("0F0",), (0,), "stage 0 runs F for microbatch 0; legal are F then B"),
        (("0B0 0F0",), (0,), "stage 0 runs B F for microbatch 0"),
        (("0F0 0F0 0B0",), (0,), "stage 0 runs F F B"),
        (("0F0 0W0 0I0",), (0,), "stage 0 runs F W I"),
        (("0F0 0X0",), (0,), "stage 0 runs F X"),
        (("0F1 0B1",), (0,), "stage 0 runs nothing for microbatch 0"),
        (("0F0 0B0 0F-1 0B-1",), (0,), "microbatch -1 on stage 0"),
        (("0F0 0B0 1F0 1B0", ""), (0, 1), "1F0 is on rank 0, which has stages .0. only"),
        (("",), (0,), "stage 0 runs nothing"),
        ((), (), "0 stages on ranks"),
        (("0F0 0F1 0B0 0B1", "1F1 1B1 1F0 1B0"), (0, 1), None),
        (("0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"), (0, 1), "rank 0 waits at 0B0 for 1B0; rank 1 waits at 1F1 for 0F1$"),
    ],
)
def test_the_checker_names_action_and_rule(orders: Any, placement: Any, message: str | None) -> None:
    if message is None:
        assert Schedule("legal", table(*orders), placement).stages == len(placement)
        return
    with pytest.raises(ValueError, match=message):
        Schedule("broken", table(*orders), placement)


@pytest.mark.parametrize("row", DATA["deadlocking"], ids=lambda row: row["id"])
def test_published_deadlock_is_found(row: dict[str, Any]) -> None:
    orders = table(*row["ranks"])
    stages = 1 + max(action.stage for order in orders.values() for action in order)
    with pytest.raises(ValueError, match=r"can never finish: rank 0 waits at 8F8 for 7F8"):
        Schedule("stuck", orders, tuple(stage % row["stages"] for stage in range(stages)))


@pytest.mark.parametrize(
    ("name", "counts", "options", "message"),
    [
        ("1f1c", (4, 8), {}, "unknown schedule '1f1c'"),
        ("gpipe", (4, 8), {"virtual": 2}, "unknown option of gpipe 'virtual'"),
        ("interleaved", (4, 8), {"virtuel": 2}, "did you mean virtual"),
        ("interleaved,virtual=2", (4, 8), {"virtual": 2}, "virtual is given twice"),
        ("gpipe", (0, 8), {}, "stages=0: a schedule needs a whole number of at least 1"),
        ("gpipe", (4, 2.5), {}, "microbatches=2.5"),
        ("interleaved", (4, 8), {"virtual": -1}, "virtual=-1"),
        ("interleaved", (4, 8), {"virtual": True}, "virtual=True: a schedule needs a whole number"),
        ("interleaved", (4, 8), {"strict": 1}, "strict=1 is neither on nor off"),
        ("1f1b", (4, 10**9), {}, "stages=4 × microbatches=1000000000 = 4000000000 chunks"),
    ],
)
def test_bad_options_are_refused_in_one_line(name: str, counts: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        schedules.build(name, *counts, **options)
    assert "\n" not in str(caught.value)
