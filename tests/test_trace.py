"""The exported trace says what the frame says, in a form that Perfetto reads, with the same bytes every time."""

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as some

from simulator.trace import events, save

COLUMNS = "rank stream name work kind axis action microbatch start_seconds began_seconds end_seconds algorithm message"
ROWS = [
    (5, "compute", "gemm", "compute", "gemm", "", "F", 0, 0.0, 0.0, 1e-3, "", -1),
    (5, "tp", "sum", "collective", "all_reduce", "tp", "F", 0, 1e-3, 1.25e-3, 2e-3, "ring", -1),
    (5, "compute", "send", "p2p", "send", "pp", "F", 0, 1e-3, 1e-3, 3e-3, "", 0),
    (5, "compute", "send", "p2p", "send", "pp", "F", 1, 2e-3, 2e-3, 4e-3, "", 1),
    (13, "compute", "recv", "p2p", "recv", "pp", "F", 0, 0.0, 1e-3, 3e-3, "", 0),
    (13, "compute", "gemm", "compute", "gemm", "", "F", 0, 3e-3, 3e-3, 4.5e-3, "", -1),
    (13, "compute", "recv", "p2p", "recv", "pp", "F", 1, 4.5e-3, 2e-3, 4.5e-3, "", 1),
]


@dataclass
class Frames:
    """What a trace reads of a result."""

    spans: pandas.DataFrame
    title: str = "two ranks · µ"
    step_time: float = 4.5e-3
    coordinates: dict[int, dict[str, int]] = field(
        default_factory=lambda: {5: {"pp": 0, "tp": 5}, 13: {"pp": 1, "tp": 5}}
    )

    def to_frame(self, name: str) -> pandas.DataFrame:
        assert name == "spans"
        return self.spans


def frames(rows=ROWS, **columns) -> Frames:
    table = pandas.DataFrame(rows, columns=COLUMNS.split())
    return Frames(table.assign(**{"stage": 3, "ranks_in_class": 128, **columns}))


def of_phase(result: Frames, phase: str) -> list[dict]:
    return [event for event in events(result) if event["ph"] == phase]


def names(result: Frames, kind: str) -> list[str]:
    return [event["args"]["name"] for event in of_phase(result, "M") if event["name"] == kind]


def test_ranks_and_streams_have_names():
    assert names(frames(), "process_name") == [
        "rank 5 (of 128 alike) · pp 0 tp 5",
        "rank 13 (of 128 alike) · pp 1 tp 5",
    ]
    assert names(frames(), "thread_name") == ["compute", "p2p transfers", "p2p transfers 2", "tp", "compute"]
    assert names(frames(ranks_in_class=1), "process_name")[0] == "rank 5 · pp 0 tp 5"


def test_a_slice_for_every_span_and_durations_add_up():
    slices = of_phase(frames(), "X")
    spans = frames().spans
    assert [each["name"] for each in slices] == spans["name"].tolist()
    seconds = (spans["end_seconds"] - spans["start_seconds"]).sum()
    assert sum(each["dur"] for each in slices) == pytest.approx(seconds * 1e6, abs=1e-3 * len(slices))


def test_a_slice_tells_what_it_is_and_leaves_out_what_says_nothing():
    gemm, reduce, *_ = of_phase(frames(bytes=[float("nan"), 4096.0, 8.0, 8.0, 8.0, float("nan"), 8.0]), "X")
    assert gemm["args"] == {"kind": "gemm", "action": "F", "stage": 3, "microbatch": 0}
    assert reduce["args"]["axis"] == "tp"
    assert reduce["args"]["algorithm"] == "ring"
    assert reduce["args"]["bytes"] == 4096
    assert reduce["args"]["waited_microseconds"] == 250
    assert (reduce["ts"], reduce["dur"]) == (1000, 1000)


def test_kernels_that_recompute_have_a_category_and_a_colour():
    first, *others = of_phase(frames(recompute=[True, *[False] * 6]), "X")
    assert first["cat"] == "compute,recompute"
    assert "cname" in first
    assert not [each for each in others if "recompute" in each["cat"] or "cname" in each]


def test_an_arrow_from_each_send_to_its_receive():
    starts = {event["id"]: event for event in of_phase(frames(), "s")}
    ends = {event["id"]: event for event in of_phase(frames(), "f")}
    slices = of_phase(frames(), "X")
    assert len(starts) == 2
    assert starts.keys() == ends.keys()
    for arrow, start in starts.items():
        for event, name in ((start, "send"), (ends[arrow], "recv")):
            where = [each for each in slices if (each["pid"], each["tid"]) == (event["pid"], event["tid"])]
            assert any(each["name"] == name and each["ts"] <= event["ts"] <= each["ts"] + each["dur"] for each in where)


def test_a_message_to_ranks_that_are_not_shown_has_no_arrow():
    assert of_phase(frames(ROWS[:4]), "s") == of_phase(frames(ROWS[4:]), "f") == []


def test_a_send_that_serves_two_receives_has_two_arrows():
    result = frames([*ROWS, (14, *ROWS[4][1:])])
    result.coordinates[14] = {"pp": 1, "tp": 6}
    arrows = [(event["id"], event["ph"]) for event in of_phase(result, "s") + of_phase(result, "f")]
    assert sorted(arrows) == [(arrow, phase) for arrow in range(3) for phase in "fs"]


@given(some.lists(some.tuples(some.floats(0, 10), some.floats(0, 5)), min_size=1, max_size=20))
def test_no_two_slices_of_a_thread_overlap(transfers):
    rows = [(5, "compute", "send", "p2p", "send", "pp", "F", 0, at, at, at + long, "", -1) for at, long in transfers]
    threads = defaultdict(list)
    for each in of_phase(frames(rows), "X"):
        threads[each["tid"]].append((round(each["ts"] * 1e3), round((each["ts"] + each["dur"]) * 1e3)))
    for slices in threads.values():
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(slices)))


@pytest.mark.parametrize("name", ["step.json", "step.json.gz"])
def test_the_file_parses_and_its_bytes_are_the_same_every_time(tmp_path, name):
    save(frames(), tmp_path / name)
    first = (tmp_path / name).read_bytes()
    save(frames(), str(tmp_path / name))
    assert (tmp_path / name).read_bytes() == first
    trace = json.loads(gzip.decompress(first) if name.endswith(".gz") else first)
    assert trace["traceEvents"] == list(events(frames()))
    assert trace["otherData"] == {"title": "two ranks · µ", "step_time_seconds": 4.5e-3}
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_result_without_spans_is_an_empty_trace(tmp_path):
    save(frames([]), tmp_path / "empty.json")
    assert json.loads((tmp_path / "empty.json").read_text(encoding="utf-8"))["traceEvents"] == []


@pytest.mark.parametrize("name", ["missing/step.json", ".", "file/step.json.gz"])
def test_an_unwritable_path_is_one_line_and_leaves_nothing(tmp_path, name):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match=r"cannot write the trace .*: \w+") as failure:
        save(frames(), tmp_path / name)
    assert "\n" not in str(failure.value)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert not list(tmp_path.parent.glob("*.partial"))


def test_a_failure_on_the_way_keeps_the_file_that_was_there(tmp_path):
    (tmp_path / "step.json").write_text("mine")
    broken = frames()
    broken.coordinates.clear()
    with pytest.raises(KeyError):
        save(broken, tmp_path / "step.json")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("step.json", "mine")]
