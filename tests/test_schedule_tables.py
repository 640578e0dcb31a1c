"""Schedules of fixed order: published tables token for token, published refusals, and laws at many more sizes."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simulator
from workloads import schedules
from workloads.plan import ParallelPlan
from workloads.schedule import Action, Schedule, peak_in_flight
from workloads.schedule_text import from_orders

PUBLISHED = json.loads(
    gzip.decompress((Path(simulator.__file__).parent / "data" / "schedules.json.gz").read_bytes()).decode()
)
NAMES = {
    "GPipe": "gpipe",
    "1F1B": "one_f_one_b",
    "Interleaved1F1B": "interleaved",
    "LoopedBFS": "breadth_first",
    "InterleavedZeroBubble": "zb_h1",
    "ZBVZeroBubble": "zb_v",
    "DualPipe": "dualpipe",
    "DualPipeV": "dualpipe_v",
}
FIXED = [row for row in PUBLISHED["tables"] if row["schedule"] in NAMES]
sizes = st.integers(1, 12)
quick = settings(max_examples=60, deadline=None)


def same(row: dict[str, Any]) -> Schedule:
    """The schedule that a table or a refusal is of; refusals are PyTorch's."""
    name, stages, microbatches = NAMES[row["schedule"]], row["P"], row["M"]
    options: dict[str, Any] = {}
    if name in ("interleaved", "breadth_first", "zb_h1"):
        options["virtual"] = row["V"]
    if name == "interleaved" and "PyTorch" in row.get("source", "PyTorch"):
        options["rounds"] = "pytorch"
    if group := row.get("group_size"):
        options |= {"group": group, "strict": not 0 < microbatches % group < stages}
    return schedules.build(name, stages, microbatches, **options)


@pytest.mark.parametrize("schedule", NAMES)
def test_published_tables_token_for_token(schedule: str) -> None:
    rows = [row for row in FIXED if row["schedule"] == schedule]
    assert rows
    for row in rows:
        built = same(row)
        written = [" ".join(map(str, built.orders[rank])) for rank in range(built.ranks)]
        assert written == row["ranks"], row["id"]
        figures = row["results"]["base"]
        at_input = [int(peak_in_flight(order, [1] * built.stages, "I")) for order in built.orders.values()]
        assert list(built.peak_in_flight) == figures["peak_in_flight"], row["id"]
        assert at_input == figures["peak_in_flight_release_at_input"], row["id"]


@pytest.mark.parametrize("row", PUBLISHED["refused"], ids=lambda row: "{schedule}-{P}-{M}-{V}".format(**row))
def test_published_refusals(row: dict[str, Any]) -> None:
    """Refused under the rule named, with legal neighbours; but 1F1B with m < p only warns."""
    if row["schedule"] == "1F1B":
        assert f"at most {row['M']} of {row['P']} ranks" in same(row).warnings[0]
        return
    rounds = f"do not divide evenly into max\\(1, {row['M']} // stages={row['P']}\\) = {row['M'] // row['P']} rounds"
    stages = f"on stages={row['P']}: .* as there are stages, two on each rank, {2 * row['P']}"
    rule = rounds if "rounds" in row["reason"] else stages
    with pytest.raises(ValueError, match=f"^microbatches={row['M']} {rule}; nearest: ") as caught:
        same(row)
    for legal in re.findall(r"\d+", str(caught.value).split("nearest:")[1]):
        assert same(row | {"M": int(legal)}).microbatches == int(legal)


@pytest.mark.parametrize("row", PUBLISHED["deadlocking_tables"], ids=lambda row: row["id"])
def test_published_deadlocks_never_finish(row: dict[str, Any]) -> None:
    """As a table, and as what Megatron's rule generates for so many microbatches."""
    with pytest.raises(ValueError, match="stuck can never finish: rank 0 waits at"):
        from_orders("stuck", [rank.split() for rank in row["ranks"]])
    with pytest.raises(ValueError, match="interleaved can never finish: rank 0 waits at"):
        same(row | {"source": "Megatron"})


# Laws at sizes that no table has


@quick
@given(p=sizes, m=st.integers(1, 40))
def test_naive_has_one_microbatch_on_its_way(p: int, m: int) -> None:
    """Of the 2mp steps every rank computes in 2m, one at a time."""
    schedule = schedules.build("naive", p, m)
    assert schedule.peak_in_flight == (1,) * p
    assert len(str(schedule).splitlines()[1].removeprefix(f"rank {0:>{len(str(p - 1))}}").split()) == 2 * m * p


@quick
@given(p=sizes, m=st.integers(1, 40))
def test_gpipe_either_way_holds_all(p: int, m: int) -> None:
    schedule = schedules.build("gpipe,reverse=on", p, m)
    assert schedule.peak_in_flight == (m,) * p
    assert [str(action) for action in schedule.orders[0][m:]] == [f"0B{index}" for index in reversed(range(m))]


@quick
@given(p=sizes, rounds=st.integers(1, 4), v=st.integers(1, 5), extra=st.integers(0, 11))
def test_rounds_of_pytorch_are_groups_of_megatron(p: int, rounds: int, v: int, extra: int) -> None:
    """As many rounds as m // p, of g microbatches each."""
    g = p + extra % (1 + (p - 1) // rounds)
    m = g * rounds
    ours = schedules.build("interleaved", p, m, virtual=v, rounds="pytorch")
    assert ours.orders == schedules.build("interleaved", p, m, virtual=v, group=g).orders
    assert ours.peak_in_flight == tuple(min(m * v, (v - 1) * g + 2 * (p - r - 1) + 1) for r in range(p))
    zero_bubble = schedules.build("zb_h1", p, m, virtual=v)
    assert zero_bubble.peak_in_flight == (min(m * v, (v - 1) * g + p),) * p


@quick
@given(p=sizes, v=st.integers(1, 4), data=st.data())
def test_fewer_microbatches_than_ranks_in_one_round(p: int, v: int, data: st.DataObject) -> None:
    m = data.draw(st.integers(1, p))
    for name in ("interleaved,rounds=pytorch", "zb_h1"):
        schedule = schedules.build(name, p, m, virtual=v)
        assert (schedule.microbatches, bool(schedule.warnings)) == (m, m < p)


@quick
@given(p=sizes, m=st.integers(1, 40), v=st.integers(1, 4))
def test_breadth_first_is_its_own_mirror(p: int, m: int, v: int) -> None:
    """Read backwards with F and B swapped it is the same; every rank holds mv."""
    schedule = schedules.build("breadth_first", p, m, virtual=v)
    swap = {"F": "B", "B": "F"}
    for order in schedule.orders.values():
        assert order == tuple(action._replace(kind=swap[action.kind]) for action in reversed(order))
    assert schedule.peak_in_flight == (m * v,) * p


@quick
@given(p=sizes, rounds=st.integers(1, 4), v=st.integers(1, 4))
def test_depth_first_is_interleaved_in_rounds_of_the_ranks(p: int, rounds: int, v: int) -> None:
    schedule = schedules.build("depth_first", p, p * rounds, virtual=v)
    assert schedule.orders == schedules.build("interleaved", p, p * rounds, virtual=v).orders
    if p > 1 and v > 1:
        with pytest.raises(ValueError, match=f"nearest: microbatches={p * rounds} or {p * rounds + p}$"):
            schedules.build("depth_first", p, p * rounds + 1, virtual=v)


@quick
@given(p=sizes, m=st.integers(1, 40))
def test_pipedream_orders_as_1f1b_and_keeps_versions(p: int, m: int) -> None:
    schedule = schedules.build("pipedream", p, m)
    assert schedule.orders == schedules.build("1f1b", p, m).orders
    assert schedule.versions == tuple(range(p, 0, -1))


@quick
@given(p=sizes, m=st.integers(1, 40))
def test_zero_bubble_memory(p: int, m: int) -> None:
    """ZB-H1 holds p until W, ZB-H2 2p-1, ZB-V 2p stages' worth; each is bounded by m."""
    for name, most in {"zb_h1,strict=off": min(m, p), "zb_h2": min(m, 2 * p - 1)}.items():
        assert schedules.build(name, p, m).peak_in_flight == (most,) * p
    at_input = schedules.build("zb_h1,strict=off", p, m).orders
    assert [peak_in_flight(at_input[r], [1] * p, "I") for r in range(p)] == [min(m, p - r) for r in range(p)]
    in_v = schedules.build("zb_v", p, m)
    assert max(in_v.peak_in_flight) <= min(2 * m, 2 * p)
    assert in_v.peak_in_flight == (2 * p,) * p or m < 2 * p - 1


@quick
@given(p=sizes, m=st.integers(1, 40), name=st.sampled_from(["zb_h1,strict=off", "zb_h2"]))
def test_split_order_runs_weights_first_in_first_out(p: int, m: int, name: str) -> None:
    """Each kind runs microbatches in order, and on rank r W is at most so many I behind: r, or 2r in ZB-H2."""
    for rank, order in schedules.build(name, p, m).orders.items():
        assert all([each.microbatch for each in order if each.kind == kind] == list(range(m)) for kind in "FIW")
        behind = most = 0
        for action in order:
            behind += {"F": 0, "I": 1, "W": -1}[action.kind]
            most = max(most, behind)
        assert most == min(m, (2 * rank if name == "zb_h2" else rank) + 1)


@quick
@given(half=st.integers(1, 6), extra=st.integers(0, 10))
def test_dualpipe_is_symmetric_and_holds_one_more_than_ranks(half: int, extra: int) -> None:
    """Rank p-1-r does what rank r does, in the other direction; weights of two stages on each rank."""
    p, m = 2 * half, 4 * half + 2 * extra
    schedule = schedules.build("dualpipe", p, m)
    assert schedule.peak_in_flight == (p + 1,) * p
    assert schedule.weights == (*range(p), *range(p))
    for rank, order in schedule.orders.items():
        assert schedule.orders[p - 1 - rank] == tuple(turned(action, p) for action in order)


def turned(action: Action, ranks: int) -> Action:
    """The same in the other direction."""
    if action.parts:
        return Action.pair(*(turned(part, ranks) for part in action.parts))
    return action._replace(stage=(action.stage + ranks) % (2 * ranks))


@quick
@given(p=sizes, extra=st.integers(0, 20))
def test_dualpipe_v_is_half_of_dualpipe(p: int, extra: int) -> None:
    """Stages s and 2p-1-s on rank s: DualPipe on 2p ranks, cut in half, each direction one way of the V."""
    m = 2 * p + extra
    schedule, whole = schedules.build("dualpipe_v", p, m), schedules.build("dualpipe", 2 * p, 2 * m)
    assert schedule.peak_in_flight == (2 * p + 1,) * p
    for rank, order in schedule.orders.items():
        stage_of = {rank: rank, 4 * p - 1 - rank: 2 * p - 1 - rank}
        expected = [
            re.sub(r"(\d+)([FBIW])", lambda found, there=stage_of: f"{there[int(found[1])]}{found[2]}", str(action))
            for action in whole.orders[rank]
        ]
        assert list(map(str, order)) == expected


@pytest.mark.parametrize(
    ("text", "counts", "message"),
    [
        ("dualpipe", (5, 20), "stages=5 is odd.*nearest: stages=4 or 6$"),
        ("dualpipe", (1, 4), "stages=1 is odd.*nearest: stages=2$"),
        ("dualpipe", (4, 9), "microbatches=9 on stages=4.*even.* 8; nearest: microbatches=8 or 10$"),
        ("dualpipe", (4, 6), "nearest: microbatches=8$"),
        ("dualpipe_v", (4, 6), "microbatches=6 on stages=4.*nearest: microbatches=8$"),
        ("zb_h1", (4, 9), r"max\(1, 9 // stages=4\) = 2 rounds; nearest: microbatches=8 or 10$"),
        ("interleaved,rounds=pytorch", (4, 9), "nearest: microbatches=8 or 10$"),
        ("interleaved,rounds=pytorch,group=8", (4, 8), "group=8 with rounds=pytorch, which sets it itself"),
        ("interleaved,rounds=torch", (4, 8), "unknown rounds 'torch'; did you mean pytorch"),
        ("depth_first", (4, 9), "leave 1 over.*nearest: microbatches=8 or 12$"),
        ("gpipe,reverse=2", (4, 8), "reverse=2 is neither on nor off"),
        ("zb_h1,strict=2", (4, 8), "strict=2 is neither on nor off"),
    ],
)
def test_refusals_name_numbers_rule_and_nearest(text: str, counts: tuple[int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        schedules.build(text, *counts)
    assert "\n" not in str(caught.value)


def test_uneven_rounds_on_demand() -> None:
    """Case A48's 9 microbatches on 4 ranks; one stage a rank needs no rounds at all."""
    for text in ("zb_h1,strict=off", "interleaved,rounds=pytorch,virtual=1,strict=off"):
        assert "9 // stages=4) = 2 rounds" in schedules.build(text, 4, 9).warnings[0]
    assert "strict=off changes nothing" in schedules.build("zb_h1,strict=off", 4, 8).warnings[0]


@pytest.mark.parametrize("microbatches", [8, 10, 3, 7])
def test_flexible_rule_of_rounds(microbatches: int) -> None:
    """Case A48: legal are 8, 10 (2 rounds), 3 and 7 (1 round)."""
    assert schedules.build("interleaved,rounds=pytorch", 4, microbatches).microbatches == microbatches


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("ZB-H1", "zb_h1"),
        ("zbv", "zb_v"),
        ("DualPipeV", "dualpipe_v"),
        ("bfs", "breadth_first"),
        ("1F1B", "one_f_one_b"),
    ],
)
def test_what_users_type(typed: str, name: str) -> None:
    assert schedules.resolve(typed) == name
    assert schedules.build(typed, 2, 4) == schedules.build(name, 2, 4)


@pytest.mark.parametrize(
    "text",
    ["pp=4,schedule=zb_h1,virtual=2", "pp=4,schedule=interleaved,rounds=pytorch", "pp=4,schedule=gpipe,reverse=on"],
)
def test_options_in_the_text_of_a_plan(text: str) -> None:
    assert str(ParallelPlan.parse(text)) == text


def test_large_schedules_are_legal() -> None:
    """64 ranks and 512 microbatches, every action checked."""
    for name in ("zb_h1", "dualpipe", "breadth_first"):
        assert schedules.build(name, 64, 512).microbatches == 512
