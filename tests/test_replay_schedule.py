"""Schedules by themselves against their closed forms: exact, because the durations are whole numbers."""

import json
import math
import pickle
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simulator import replay_schedule
from workloads import schedules

RESULTS = json.loads((Path(__file__).parent / "data" / "schedule_results.json").read_text())

ranks = st.integers(1, 8)
durations = st.integers(1, 9)
quick = settings(max_examples=60, deadline=None)


def replayed(
    name: str, p: int, m: int, times: tuple[int, int, int], *, hop: float = 0, mode: str = "latency", **options
):
    """A schedule replayed with forward, backward_input and backward_weight times."""
    forward, backward_input, backward_weight = times
    return replay_schedule(
        schedules.build(name, p, m, **options), forward, backward_input, backward_weight, hop, mode=mode
    )


@quick
@given(
    name=st.sampled_from(["gpipe", "1f1b"]), p=ranks, extra=st.integers(0, 12), f=durations, i=durations, w=durations
)
def test_flush_schedules(name, p, extra, f, i, w):
    """Makespan (m + p - 1)(F + B), busy m(F + B) on each rank, bubble (p - 1)/(m + p - 1)."""
    m, b = p + extra, i + w
    result = replayed(name, p, m, (f, i, w))
    assert result.makespan == (m + p - 1) * (f + b)
    assert result.bubble_fraction == pytest.approx((p - 1) / (m + p - 1), rel=1e-12, abs=1e-12)
    assert result.bubble_ratio == pytest.approx((p - 1) / m, rel=1e-12, abs=1e-12)
    assert result.peak_in_flight == ((m,) * p if name == "gpipe" else tuple(min(m, p - r) for r in range(p)))


@quick
@given(p=ranks, rounds=st.integers(1, 4), v=st.integers(1, 4), f=durations, i=durations, w=durations)
def test_interleaved(p, rounds, v, f, i, w):
    """T + (p - 1)(F + B)/v, for m >= p; durations are multiples of v."""
    m, f, b = p * rounds, f * v, (i + w) * v
    result = replayed("interleaved", p, m, (f, i * v, w * v), virtual=v)
    assert result.makespan == m * (f + b) + (p - 1) * (f + b) // v
    assert result.peak_in_flight == tuple(min(m * v, (v - 1) * p + 2 * (p - r - 1) + 1) for r in range(p))


def test_the_lecture_numbers():
    """4 stages: m = 4 busy 16/28, m = 8 -> 3/11, m = 32 -> 3/35, one microbatch 1/4 busy."""
    for m, bubble in ((4, 1 - 16 / 28), (8, 3 / 11), (32, 3 / 35), (1, 3 / 4)):
        assert replayed("1f1b", 4, m, (1, 1, 1)).bubble_fraction == pytest.approx(bubble, abs=1e-15)


@quick
@given(p=st.integers(2, 8), extra=st.integers(0, 8), f=durations, b=durations, c=st.integers(1, 5))
def test_gpipe_with_hops(p, extra, f, b, c):
    """Latency adds 2(p - 1)c; a blocked sender or receiver 2(m + p - 2)c."""
    m = p + extra
    ideal = (m + p - 1) * (f + b)
    assert replayed("gpipe", p, m, (f, b, 0), hop=c).makespan == ideal + 2 * (p - 1) * c
    for mode in ("send_block", "recv_block"):
        assert replayed("gpipe", p, m, (f, b, 0), hop=c, mode=mode).makespan == ideal + 2 * (m + p - 2) * c


@quick
@given(p=st.integers(2, 8), rounds=st.integers(1, 4), f=durations, b=durations, c=st.integers(1, 3))
def test_one_f_one_b_with_hops(p, rounds, f, b, c):
    """Latency, p | m: + c[2(p - 1)m/p + 2(p - 2)]. recv_block: + c(2m + 2p - 5), and + c(m + 1) for p = 2."""
    assume(c <= min(f, b))
    m = p * rounds
    ideal = (m + p - 1) * (f + b)
    latency = replayed("1f1b", p, m, (f, b, 0), hop=c).makespan
    assert latency == ideal + c * (2 * (p - 1) * m // p + 2 * (p - 2))
    blocked = replayed("1f1b", p, m, (f, b, 0), hop=c, mode="recv_block").makespan
    assert blocked == ideal + c * (m + 1 if p == 2 else 2 * m + 2 * p - 5)


@quick
@given(
    p=st.integers(2, 6), rounds=st.integers(1, 3), v=st.integers(2, 4), f=durations, b=durations, c=st.integers(1, 9)
)
def test_interleaved_with_hops(p, rounds, v, f, b, c):
    """Latency, p | m: + 2(pv - 1)c while c <= min(F, B)/v."""
    assume(c <= min(f, b))
    m, f, b = p * rounds, f * v, b * v
    ideal = m * (f + b) + (p - 1) * (f + b) // v
    assert replayed("interleaved", p, m, (f, b, 0), hop=c, virtual=v).makespan == ideal + 2 * (p * v - 1) * c


@pytest.mark.parametrize("profile", RESULTS["profiles"])
@pytest.mark.parametrize("row", RESULTS["tables"], ids=lambda row: row["id"])
def test_tables_replay_to_their_published_results(row, profile):
    """Independent replays of the same orders: integers exactly, fractions to their digits."""
    expected, costs = row["results"][profile], RESULTS["profiles"][profile]
    schedule = schedules.build(row["schedule"], row["stages"], row["microbatches"], **row["options"])
    factors = [1.0] * (schedule.stages - 1) + [1.5 if costs["stages"] == "last1.5" else 1.0]
    result = replay_schedule(
        schedule,
        costs["forward"],
        costs["backward_input"],
        costs["backward_weight"],
        costs["hop"],
        mode=costs["mode"],
        stage_factors=factors,
    )
    assert result.makespan == pytest.approx(expected["makespan"], rel=1e-8)
    assert result.span == pytest.approx(expected["max_rank_span"], rel=1e-8)
    assert result.bubble_fraction == pytest.approx(expected["bubble_fraction"], abs=1e-5)
    busy = result.to_frame("ranks").set_index("rank")["compute_seconds"]
    assert busy.tolist() == pytest.approx(expected["busy_per_rank"], rel=1e-8)


@quick
@given(p=ranks, m=st.integers(1, 10), f=durations, b=durations, c=st.integers(0, 3), data=st.data())
def test_held_time_is_not_busy_time(p, m, f, b, c, data):
    """Whatever the mode, every rank is busy m(F + B); only the makespan differs, and latency is the shortest."""
    name = data.draw(st.sampled_from(["gpipe", "1f1b"]))
    modes = [replayed(name, p, m, (f, b, 0), hop=c, mode=mode) for mode in ("latency", "send_block", "recv_block")]
    for result in modes:
        assert result.bubble_fraction == pytest.approx(1 - m * (f + b) / result.makespan, abs=1e-12)
        assert modes[0].makespan <= result.makespan
        assert result.span <= result.makespan


def test_a_replayed_schedule_is_a_result():
    """It prints, pickles, draws and has frames."""
    result = replayed("interleaved", 2, 4, (2, 2, 2), hop=1, virtual=2)
    assert "interleaved: ranks=2 stages=4 microbatches=4" in str(result)
    again = pickle.loads(pickle.dumps(result))
    assert (again.makespan, again.span, again.bubble_fraction) == (result.makespan, result.span, result.bubble_fraction)
    actions = result.to_frame("actions")
    assert len(actions) == 2 * 4 * 4
    assert (actions["end_seconds"] - actions["start_seconds"]).sum() == 2 * 4 * 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hop": -1}, "hop=-1: a time is 0, or from 1e-12 to 1e\\+12"),
        ({"hop": math.inf}, "hop=inf"),
        ({"hop": math.nan}, "hop=nan"),
        ({"forward": -2.0}, "forward=-2: a time is 0, or from"),
        ({"backward_weight": math.nan}, "backward_weight=nan"),
        ({"forward": 1e99}, "forward=1e\\+99"),
        ({"forward": 1e-99}, "forward=1e-99"),
        (
            {"forward": 0, "backward_input": 0, "backward_weight": 0},
            "forward=0, backward_input=0 and backward_weight=0; one of them",
        ),
        ({"mode": "late"}, "unknown mode 'late'; did you mean latency"),
        ({"stage_factors": [1.0]}, "1 stage factors for 4 stages; each stage needs one"),
        ({"stage_factors": [1.0, 1.0, -1.0, 1.0]}, "a stage factor of -1: it must be 0 or more"),
    ],
)
def test_bad_times_are_refused(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        replay_schedule(schedules.build("1f1b", 4, 8), **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["pipedream", "one_f_one_b"])
@pytest.mark.parametrize("hop", [0.0, 0.25])
@pytest.mark.parametrize("p", [2, 4, 5])
def test_a_stream_goes_on_at_forward_and_backward_and_its_hops(name, hop, p):
    """F + B, and 2c(p-1)/p a microbatch for the hops of a round; without a flush there is no other bubble."""
    result = replay_schedule(schedules.build(name, p, 6 * p), 1.0, 1.0, 1.0, hop)
    assert result.steady_period == pytest.approx(3 + 2 * hop * (p - 1) / p, rel=1e-12)


def test_a_short_stream_has_no_steady_state():
    assert math.isnan(replay_schedule(schedules.build("pipedream", 4, 8)).steady_period)
