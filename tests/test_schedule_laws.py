"""Laws of pipeline schedules: closed forms over random sizes and times, exactly, and what holds of all of them."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from simulator import replay_schedule
from simulator.validation.closed_forms import ALL, FORMS, STEADY, Case
from simulator.validation.schedule_figures import peaks
from workloads import schedules

quick = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
whole = st.integers(1, 9)
times = st.one_of(
    st.builds(lambda time: (time, time, time), whole),
    st.lists(whole, min_size=3, max_size=3).map(lambda three: (sorted(three)[1], sorted(three)[2], sorted(three)[0])),
    st.tuples(whole, whole, whole),
)
"""F, I and W: equal, W <= F <= I, or any."""


@st.composite
def cases(draw, form):
    """Sizes and times inside the conditions of a form, times multiples of v; small enough to replay at once."""
    p, v = draw(st.integers(1, 6)), draw(st.integers(1, 4)) if form.takes_virtual else 1
    m = draw(st.one_of(st.integers(1, 4).map(lambda rounds: rounds * p), st.integers(1, 4 * p + 2)))
    f, i, w = (time * 2 * v for time in draw(times))
    phi = draw(st.sampled_from([Fraction(1), STEADY, Fraction(9, 10), Fraction(5, 4)])) if form.has_pairs else 1
    mode = draw(st.sampled_from(form.modes or ALL))
    case = Case(p, m, v, f, i, w, 0, mode, Fraction(phi))
    assume(form.holds(case))
    if form.modes:
        most = min(int(form.most(case)), 12)
        assume(most)
        case = Case(p, m, v, f, i, w, draw(st.integers(1, most)), mode)
    assume(form.fits(case))
    return case


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@quick
@given(data=st.data())
def test_closed_forms(form, data):
    """Every figure in closed form, number for number; see `simulator.validation.closed_forms` for each."""
    case = data.draw(cases(form))
    assert form.replayed(case) == form.expected(case), str(case)


# ------------------------------------------------------------------------------------------- beside the forms


@quick
@given(p=st.integers(1, 6), v=st.integers(2, 4), more=st.integers(0, 3), rounds=st.integers(1, 3), data=st.data())
def test_interleaved_with_a_free_choice_of_microbatches_a_round(p, v, more, rounds, data):
    """As Llama 3 has it: any g >= p, the last round full or of at least p; g sets the memory, not the bubble."""
    g = p + more
    m = rounds * g + data.draw(st.sampled_from([0, *range(p, g)]))
    f, i, w = (time * v for time in data.draw(times))
    schedule = schedules.build("interleaved", p, m, virtual=v, group=g)
    assert replay_schedule(schedule, f, i, w).makespan == m * (f + i + w) + (p - 1) * (f + i + w) // v
    assert schedule.peak_in_flight == tuple(min(m * v, (v - 1) * g + 2 * (p - r - 1) + 1) for r in range(p))


@quick
@given(p=st.integers(1, 6), more=st.integers(0, 12), three=times)
def test_zb_h1_takes_any_number_of_microbatches(p, more, three):
    """With one stage a rank nothing goes in rounds: strict=False gives PyTorch's order, and the forms hold for it."""
    f, i, w = three
    assume(w <= f)
    m = 2 * p + more
    schedule = schedules.build("zb_h1", p, m, strict=False)
    result = replay_schedule(schedule, f, i, w)
    assert result.span == m * (f + i + w) + (p - 1) * (f + i - w)
    assert result.makespan == m * (f + i + w) + (p - 1) * (f + max(i, w) - w)
    assert schedule.peak_in_flight == (p,) * p
    assert peaks(schedule, "I") == [p - r for r in range(p)]


@quick
@given(p=st.integers(1, 6), more=st.integers(0, 12), M_W=st.integers(1, 9), rest=st.integers(0, 9))
def test_memory_of_zero_bubble_schedules(p, more, M_W, rest):
    """F adds M_B, I frees M_B - M_W, W frees M_W: the worker with most has what arXiv:2401.10241 says, i from 1."""
    M_B = M_W + rest
    steps = {"F": M_B, "I": M_W - M_B, "W": -M_W}
    for name, options, most in (
        ("zb_h1", {"strict": False}, lambda i: (p - i + 1) * M_B + (i - 1) * M_W),
        ("zb_h2", {}, lambda i: (2 * p - 2 * i + 1) * M_B + (2 * i - 2) * M_W),
    ):
        schedule = schedules.build(name, p, 2 * p + more, **options)
        for rank, order in schedule.orders.items():
            held = [sum(steps[action.kind] for action in order[: place + 1]) for place in range(len(order))]
            assert max(held) == most(rank + 1)


@quick
@given(p=st.integers(1, 6), v=st.integers(1, 3), m=st.integers(1, 12), three=times, c=st.integers(0, 5))
def test_no_mode_is_faster_than_latency(p, v, m, three, c):
    """Held ranks are not busy, so all modes have the same work; and hops only ever add."""
    f, i, w = (time * v for time in three)
    schedule = schedules.build("breadth_first", p, m, virtual=v)
    free = replay_schedule(schedule, f, i, w)
    modes = [replay_schedule(schedule, f, i, w, c, mode=mode) for mode in ALL]
    assert free.makespan <= modes[0].makespan <= min(result.makespan for result in modes)
    for result in modes:
        assert result.bubble_fraction == pytest.approx(1 - m * (f + i + w) / result.makespan, abs=1e-12)


@quick
@given(p=st.integers(2, 6), rounds=st.integers(1, 4), c=st.integers(1, 5))
def test_a_microbatch_costs_1f1b_two_hops_less_one_of_p(p, rounds, c):
    """However asynchronous messages are: 2c(p-1)/p for each one more, in rounds of p."""
    spans = [replay_schedule(schedules.build("1f1b", p, m), 6, 6, 6, c).makespan for m in (rounds * p, 2 * rounds * p)]
    assert spans[1] - spans[0] == rounds * p * 18 + 2 * c * (p - 1) * rounds


def idle(schedule, **options):
    """The idle time of each rank within its own span, and within the makespan."""
    result = replay_schedule(schedule, **options)
    accounts = result.timeline.accounts
    own = [account.ends - account.begins - account.compute for account in accounts]
    return own, [result.makespan - account.compute for account in accounts]


def test_bubbles_at_eight_ranks():
    """Case A46: F = I = W = 1, the idle time of the most idle rank, and what it takes in memory."""
    p, m = 8, 24
    assert max(idle(schedules.build("1f1b", p, m))[1]) == (p - 1) * (1 + 2) == 21
    assert max(idle(schedules.build("zb_h1", p, m))[0]) == (p - 1) * (1 + 2 - 2) == 7
    dualpipe = schedules.build("dualpipe", p, m)
    # Two stages a rank, half of the microbatches each: the work of a rank of 1F1B.
    assert max(idle(dualpipe)[1]) == (p // 2 - 1) * (3 + 2 - 3) == 6
    assert dualpipe.weights.count(0) == 2
    assert dualpipe.peak_in_flight == (p + 1,) * p
    for v in (1, 2, 4, 8):
        schedule = schedules.build("interleaved", p, m, virtual=v)
        found = max(idle(schedule)[1])
        assert found == 21 / v
        assert (found < 6) == (v >= 4)


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_fewer_microbatches_than_ranks(name, m):
    """Case A49: never hangs, warns, (m + p - 1)(F + B), and 1F1B holds min(m, p - r)."""
    p, f, i, w = 4, 2, 3, 1
    schedule = schedules.build(name, p, m)
    assert any(f"microbatches={m}" in words for words in schedule.warnings)
    assert replay_schedule(schedule, f, i, w).makespan == (m + p - 1) * (f + i + w)
    assert schedule.peak_in_flight == ((m,) * p if name == "gpipe" else tuple(min(m, p - r) for r in range(p)))


@quick
@given(p=st.integers(1, 8), m=st.integers(1, 20), three=times)
def test_pipedream_has_no_bubble_in_the_steady_state(p, m, three):
    """In m(F + B) it takes m microbatches more, and rank r keeps p - r versions of its weights."""
    f, i, w = three
    pieces = [schedules.build("pipedream", p, p + count) for count in (0, m)]
    spans = [replay_schedule(piece, f, i, w).makespan for piece in pieces]
    assert spans[1] - spans[0] == m * (f + i + w)
    assert pieces[0].versions == tuple(p - r for r in range(p))


@pytest.mark.parametrize(
    ("name", "bubbles", "chunks"),
    [
        ("one_f_one_b", (90, 210), (4, 8)),
        ("zb_h1", (30, 70), (4, 8)),
        ("v_half", (25, 85), (6, 10)),
        ("v_min", (55, 135), (4, 8)),
        ("v_1f1b", (75, 165), (6, 12)),
    ],
)
def test_bubbles_and_memory_of_the_v_family(name, bubbles, chunks):
    """At F = I = W = 10 and m = 3p, the figures of the Zero Bubble authors' programs; a search may find less."""
    if name not in schedules.names():
        pytest.skip(f"no schedule {name}")
    for p, bubble, most in zip((4, 8), bubbles, chunks, strict=True):
        schedule = schedules.build(name, p, 3 * p)
        found, peak = max(idle(schedule, forward=10, backward_input=10, backward_weight=10)[0]), schedule.peak_in_flight
        if name.startswith("v_"):
            assert found <= bubble
            assert max(peak) <= most
        else:
            assert (found, max(peak)) == (bubble, most)
