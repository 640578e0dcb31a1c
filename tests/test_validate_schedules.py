"""Published schedules against stepsim: what matches, what is found when it does not, which files are refused."""

import copy
import gzip
import json
from decimal import Decimal
from fractions import Fraction

import pandas as pd
import pytest
from click.testing import CliRunner
from schedule_oracle import replayed

from simulator.cli import main
from simulator.validation import closed_forms, schedule_bubbles, schedule_tables
from simulator.validation import schedules as validation
from simulator.validation.schedule_checks import checks
from simulator.validation.schedule_figures import Profile, figures
from workloads import schedules

CONTENT = json.loads(gzip.decompress(schedule_tables.SOURCE.read_bytes()))
PUBLISHED = schedule_tables.read()
TIMES = {"forward": 12, "backward": 28, "backward_input": 18, "backward_weight": 10, "hop": 0, "mode": "latency"}
PROFILES = {
    "ramp": {**TIMES, "pair_factor": None, "stages": "ramp"},
    "late": {**TIMES, "hop": 3, "pair_factor": 0.9, "stages": "last1.25"},
    "sent": {**TIMES, "hop": 2, "mode": "send_block", "pair_factor": None, "stages": "even"},
    "received": {**TIMES, "hop": 2, "mode": "recv_block", "pair_factor": None, "stages": "even"},
}
EIGHT = [
    ("GPipe", "gpipe", 10, 1, {}),
    ("1F1B", "one_f_one_b", 16, 1, {}),
    ("Interleaved1F1B", "interleaved", 18, 2, {"rounds": "pytorch"}),
    ("Interleaved1F1B", "interleaved", 20, 2, {"group": 12}),
    ("LoopedBFS", "breadth_first", 11, 3, {}),
    ("InterleavedZeroBubble", "zb_h1", 16, 2, {}),
    ("ZBVZeroBubble", "zb_v", 17, 2, {}),
    ("DualPipe", "dualpipe", 18, 1, {}),
    ("DualPipeV", "dualpipe_v", 17, 2, {}),
]
"""Tables of 8 ranks: published name, stepsim's, microbatches, virtual stages, options."""


def number(value: Fraction):
    """A figure as files have it: whole numbers exactly, others to 9 digits."""
    return int(value) if value.denominator == 1 else float(f"{float(value):.9g}")


def table_of(name, ours, m, virtual, options, first=0):
    """A table of 8 ranks with figures that do not come from stepsim's engine."""
    takes = "virtual" in schedules.options(ours)
    schedule = schedules.build(ours, 8, m, **options, **({"virtual": virtual} if takes else {}))
    results = {}
    for profile, raw in PROFILES.items():
        found = replayed(schedule, raw, first)
        results[profile] = {
            key: [number(each) for each in value] if isinstance(value, list) else number(value)
            for key, value in found.items()
        }
        results[profile]["bubble_fraction"] = round(float(found["bubble_fraction"]), 6)
    return {
        "id": f"{name}/p8/m{m}/v{virtual}",
        "schedule": name,
        "P": 8,
        "M": m,
        "V": virtual,
        "source": "PyTorch" if options.get("rounds") == "pytorch" else "a test",
        "ranks": [" ".join(map(str, schedule.orders[rank])) for rank in range(8)],
        "results": results,
        **({"group_size": options["group"]} if "group" in options else {}),
        **({"chains": [list(chain) for chain in schedule.chains]} if len(schedule.chains) > 1 else {}),
    }


def eight(first=0):
    """A file of 8 ranks, other profiles than the package's."""
    return {
        "profiles": PROFILES,
        "tables": [table_of(*each, first=first) for each in EIGHT],
        "refused": [
            {"schedule": "DualPipe", "P": 7, "M": 14, "V": 1, "reason": "needs an even number of ranks"},
            {"schedule": "DualPipe", "P": 8, "M": 14, "V": 1, "reason": "needs M >= number of stages, here 2P = 16"},
            {"schedule": "1F1B", "P": 8, "M": 3, "V": 1, "reason": "wants at least as many microbatches as stages"},
        ],
    }


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Validates a file of some content, without what does not depend on the file."""
    monkeypatch.setattr(closed_forms, "cases", lambda: iter([closed_forms.Case(2, 4, 1, 6, 6, 6)]))
    monkeypatch.setattr(schedule_bubbles, "compare", lambda workers: BUBBLES)

    def run(content, *options, name="mine.json"):
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        (tmp_path / name).write_bytes(text)
        return CliRunner().invoke(main, ["validate", "schedules", "--data", str(tmp_path / name), *options])

    return run


BUBBLES = pd.DataFrame(
    {
        "row": [0],
        "model": ["1.5B"],
        "microbatches": [24],
        "schedule": ["1F1B"],
        "series": ["s"],
        "measured": [0.2431],
        "predicted": [0.24305],
        "matches": [True],
    }
)


def reported(done):
    """The report of a run that went well."""
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def refused(done):
    """The one line of a refusal, without the folder."""
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr.split("mine.json", 1)[1].strip(": \n")


def small(*ids, **changes):
    """The package's file with the tables of some ids only."""
    tables = [copy.deepcopy(table) for table in CONTENT["tables"] if table["id"] in ids]
    assert len(tables) == len(ids)
    return {**CONTENT, "tables": tables, "refused": [], "deadlocking_tables": [], **changes}


# ------------------------------------------------------------------------------------------- what matches


@pytest.mark.slow
def test_the_package_s_file_matches_altogether():
    rows, summary = validation.validate()
    assert summary["mismatches"] == []
    assert summary["skipped"] == 0
    assert (rows["part"] == "orders").sum() == 291
    assert all(part["matching"] == part["rows"] > 0 for part in summary["parts"].values())
    assert summary["closed_forms"]["matching"] == summary["closed_forms"]["rows"] > 1000
    assert summary["zero_bubble_table5"]["matching"] == summary["zero_bubble_table5"]["rows"] == 36
    assert summary["parts"]["refusals"]["own_rule"] == 3


def test_a_share_of_the_package_s_file_matches():
    """Every refusal and deadlock, one table of every schedule, and some more."""
    one_each = {table.schedule: table for table in PUBLISHED.tables}.values()
    tables = *one_each, *PUBLISHED.tables[::13]
    share = schedule_tables.Published(PUBLISHED.profiles, tables, PUBLISHED.refused, PUBLISHED.deadlocks)
    found = checks(share)
    assert [check for check in found if not check.matches] == []
    assert {check.part for check in found} == set(validation.PARTS)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_of_eight_ranks_and_other_profiles(first, packed, ran):
    """Its figures come from the rules alone; a ramp may count its stages from 0 or 1."""
    content = eight(first)
    text = json.dumps(content).encode()
    summary = reported(ran(gzip.compress(text, mtime=0) if packed else text, "--json"))
    assert summary["mismatches"] == []
    assert summary["skipped"] == 0
    assert summary["mape"] == 0.0
    assert summary["parts"]["orders"] == {"rows": len(EIGHT), "matching": len(EIGHT)}
    assert summary["parts"]["refusals"] == {"rows": 3, "matching": 3, "own_rule": 1}


@pytest.mark.parametrize("table", PUBLISHED.tables[::7], ids=lambda table: table.id)
def test_replays_follow_the_rules(table):
    """Two replays that share no code, with times and rules that the published tables do not have."""
    schedule = table.replayable()
    for raw in PROFILES.values():
        exact = {key: Decimal(str(value)) if isinstance(value, float) else value for key, value in raw.items()}
        if raw["mode"] == "latency" or not any(action.parts for order in table.orders for action in order):
            expected = replayed(schedule, raw)
            found = figures(schedule, Profile.of(exact))
            assert found == {key: value if isinstance(value, list) else [value] for key, value in expected.items()}


@pytest.mark.parametrize("name", ["1F1B", "1F1B-I", "ZB-H1", "ZB-H2"])
def test_bubble_rates_of_the_zero_bubble_paper(name):
    """Table 5 from the times of table 9: to 4 digits; interleaved 1F1B 0.0008 to 0.0035 above what is printed."""
    rows = pd.DataFrame(
        [schedule_bubbles.row(*each) for each in schedule_bubbles.printed() if each[0]["schedule"] == name]
    )
    assert len(rows) == 6
    assert rows["matches"].all()
    difference = rows["predicted"] - rows["measured"]
    if name == "1F1B-I":
        assert difference.between(0.00075, 0.0035).all()
    else:
        assert difference.abs().max() <= 0.00005


# ------------------------------------------------------------------------------------------- what does not


def test_every_kind_of_mismatch_is_listed(ran, tmp_path):
    content = small("gpipe/p2/m2/v1", "1f1b/p2/m4/v1")
    content["tables"][0]["results"]["base"]["makespan"] += 1
    content["tables"][0]["results"]["lat1"]["busy_per_rank"][1] += 1
    content["tables"][0]["results"]["uneq"]["bubble_fraction"] += 1e-5
    content["tables"][1]["ranks"][0] = content["tables"][1]["ranks"][0].replace("0F2 0B1", "0B1 0F2")
    content["refused"] = [{"schedule": "GPipe", "P": 2, "M": 2, "V": 1, "reason": "microbatches must be even"}]
    content["deadlocking_tables"] = [small("gpipe/p2/m1/v1")["tables"][0]]
    done = ran(content, "--json", "--out", str(tmp_path / "rows.csv"))
    found = {(each["table"], each["what"], each.get("rank")): each for each in reported(done)["mismatches"]}
    assert found["gpipe/p2/m2/v1", "makespan", None]["profile"] == "base"
    assert found["gpipe/p2/m2/v1", "makespan", None]["given"] == 73
    assert found["gpipe/p2/m2/v1", "makespan", None]["got"] == 72
    assert found["gpipe/p2/m2/v1", "busy_per_rank", 1]["got"] == 48
    assert ("gpipe/p2/m2/v1", "bubble_fraction", None) in found
    assert found["1f1b/p2/m4/v1", "order", None]["got"] == "rank 0, action 3: 0F2 in place of 0B1"
    assert found["gpipe/p2/m2/v1 refused", "refusal", None]["got"] == "allowed"
    assert found["gpipe/p2/m1/v1", "order", None] == {
        "table": "gpipe/p2/m1/v1", "what": "order", "given": "can never finish", "got": "accepted"
    }  # fmt: skip
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert (~rows["matches"]).sum() == len(reported(done)["mismatches"])
    text = ran(content).stdout
    assert "mismatches:\n" in text
    assert "  gpipe/p2/m2/v1, lat1, busy_per_rank of rank 1: given 49.0, got 48.0" in text


def test_a_refusal_by_another_rule_is_a_mismatch():
    """Stepsim refuses 14 microbatches on 8 ranks too, but not because 14 were odd."""
    refusal = schedule_tables.Refusal("Interleaved1F1B", 2, 5, 2, "needs M >= number of stages, here 2P = 16")
    (found,) = checks(schedule_tables.Published({}, (), (refusal,), ()))
    assert not found.matches
    assert "group" in found.got or "microbatches=5" in found.got


def test_orders_that_cannot_finish_are_a_mismatch(ran):
    content = small("gpipe/p2/m2/v1", "1f1b/p2/m4/v1")
    content["tables"][0]["ranks"] = ["0B0 0F0 0F1 0B1", "1F0 1F1 1B0 1B1"]
    (found,) = reported(ran(content, "--json"))["mismatches"]
    assert "stage 0 runs B F for microbatch 0" in found["got"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"stages": "first2"}, "profile base: unknown stages='first2'; known: even, ramp, and last with a factor"),
        ({"mode": "late"}, "profile base: unknown mode 'late'; did you mean latency?"),
        ({"hop": -1}, "profile base: hop=-1 is no number of at least 0"),
        ({"hop": "soon"}, "profile base: hop='soon' is no number"),
        ({"pair_factor": "none"}, "profile base: pair_factor='none' is no number"),
        ({"jitter": 1}, "profile base: unknown entry of a profile 'jitter'"),
    ],
)
def test_profiles_that_are_not_known_are_left_out(change, reason, ran):
    """With one clear line; everything else is compared."""
    content = small("gpipe/p2/m2/v1")
    content["profiles"] = {**CONTENT["profiles"], "base": {**CONTENT["profiles"]["base"], **change}}
    summary = reported(ran(content, "--json"))
    ((said, count),) = summary["skipped_because"].items()
    assert said.startswith(reason)
    assert count == summary["skipped"] == len(CONTENT["tables"][0]["results"]["base"])
    assert summary["mismatches"] == []


def test_schedules_and_figures_that_are_not_known_are_left_out(ran):
    content = small("gpipe/p2/m2/v1", "1f1b/p2/m4/v1")
    content["tables"][0]["schedule"] = "Hanayo"
    content["tables"][1]["results"]["base"]["energy"] = 3
    content["refused"] = [{"schedule": "Hanayo", "P": 2, "M": 2, "V": 1, "reason": "no"}]
    summary = reported(ran(content, "--json"))
    assert summary["mismatches"] == []
    assert summary["skipped"] == 3
    assert any(reason.startswith("no figure 'energy'") for reason in summary["skipped_because"])
    assert any(reason.startswith("unknown schedule 'Hanayo'") for reason in summary["skipped_because"])


def test_whole_backwards_may_cost_more_than_their_parts(ran):
    """Where a schedule has both kinds, that cannot be replayed."""
    content = small("gpipe/p2/m2/v1", "dualpipe/p2/m4/v1")
    content["profiles"] = {**CONTENT["profiles"], "base": {**CONTENT["profiles"]["base"], "backward": 18}}
    gpipe, _ = content["tables"]
    gpipe["results"] = {"base": {"makespan": 78, "busy_per_rank": [52, 52]}}
    summary = reported(ran(content, "--json"))
    assert summary["mismatches"] == []
    assert list(summary["skipped_because"]) == [
        "backward=18 is not 8 + 8, and the schedule has both whole and split backwards"
    ]


# ------------------------------------------------------------------------------------------- files refused


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b"not json", "Expecting value"),
        (b"\xff\xfe\x00", "'utf-"),
        (b"[" * 10**5, "maximum recursion"),
        (b"[]", "the file: '[]' is not an object"),
        (b'{"profiles": {}}', "the file has no 'tables'"),
        (b'{"profiles": {}, "tables": []}', "it has no tables"),
        (b'{"profiles": {}, "tables": [NaN]}', "NaN is no number"),
        (gzip.compress(b"{}", mtime=0)[:-9], ""),
        (b"\x1f\x8bnothing", ""),
    ],
)
def test_corrupt_files_are_refused(content, line, ran):
    assert line in refused(ran(content))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"P": 3}, "gpipe/p2/m2/v1: actions of 2 ranks; P=3"),
        ({"M": "two"}, "gpipe/p2/m2/v1: M='two' is no whole number of at least 1"),
        ({"V": True}, "V=True is no whole number"),
        ({"ranks": "0F0"}, "gpipe/p2/m2/v1, ranks: '0F0' is not a list"),
        ({"ranks": ["0F0 0X0", ""]}, "gpipe/p2/m2/v1, rank 0: '0X0' is no action such as 3F7"),
        ({"ranks": [7, ""]}, "gpipe/p2/m2/v1, rank 0: '7' is not text"),
        ({"results": {"huge": {}}}, "gpipe/p2/m2/v1: no profile 'huge'; known: base, last1.5, lat1, uneq"),
        ({"results": {"base": {"makespan": "long"}}}, "gpipe/p2/m2/v1, base: makespan='long' is no number"),
        ({"results": {"base": 3}}, "gpipe/p2/m2/v1, base: '3' is not an object"),
        ({"chains": [[0, 0], [1, 2]]}, "gpipe/p2/m2/v1: chains [[0, 0], [1, 2]]; each of 2 × 2 stages is in one, once"),
        ({"scheduler_cost": {"tF": 1}}, "gpipe/p2/m2/v1, scheduler_cost: tI=None is no number of at least 0"),
        ({"scheduler_memory_limit": "all"}, "gpipe/p2/m2/v1: scheduler_memory_limit='all' is neither a count"),
    ],
)
def test_tables_that_are_none_are_refused(change, line, ran):
    content = small("gpipe/p2/m2/v1")
    content["tables"][0].update(change)
    assert line in refused(ran(content))


def test_a_file_that_is_not_there_is_refused():
    done = CliRunner().invoke(main, ["validate", "schedules", "--data", "nowhere.json"])
    assert done.exit_code == 2
    assert done.stderr == "stepsim: cannot read nowhere.json: No such file or directory\n"
