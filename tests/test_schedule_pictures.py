"""Pictures of every schedule: pairs, directions, arrows and memory say what the replay does; files stay small."""

from collections.abc import Iterator
from functools import cache
from io import BytesIO
from itertools import pairwise
from xml.etree import ElementTree

import numpy
import pytest
from matplotlib import pyplot

from simulator import replay_schedule, simulate
from simulator.plots import draw
from simulator.plots._hops import hops
from simulator.plots._in_flight import chunks, held
from simulator.plots._lanes import View, directions
from simulator.plots._numbers import Numbers
from simulator.schedule_replay import ScheduleResult
from workloads import TrainingStep, schedules

SMALL = 300_000
"""Bytes of an SVG with 16 ranks and 64 microbatches."""


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    assert not pyplot.get_fignums()


@cache
def replayed(name: str, stages: int = 4, microbatches: int = 8, **options: object) -> ScheduleResult:
    return replay_schedule(schedules.build(name, stages, microbatches), **options)


def held_lines(ax) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
    """Times and heights of each lane's strip of memory."""
    for line in ax.lines:
        if str(line.get_gid()).endswith("held"):
            yield numpy.asarray(line.get_xdata()), line.get_ydata().max() - line.get_ydata()


@pytest.mark.parametrize("release", ["I", "W"])
@pytest.mark.parametrize("name", schedules.names())
def test_the_strip_of_memory_peaks_where_the_schedule_does(name, release):
    """On one scale: the highest of all lanes is the schedule's peak, each lane's in proportion to its own."""
    result = replayed(name, hop=0.25, release=release)
    found = held(result, True)
    assert found.kind == "chunks"
    peaks = found.rows.groupby("rank")["value"].max()
    assert tuple(peaks) == result.peak_in_flight
    assert tuple(found.rows.groupby("rank")["value"].last()) == (0,) * 4
    ax = draw("gantt", result, memory=True)
    heights = [height.max() for _, height in held_lines(ax)]
    assert heights == pytest.approx([heights[0] * peak / peaks[0] for peak in peaks])
    assert [text.get_text() for text in ax.texts if text.get_text().startswith("max")] == [
        f"max {peak}" for peak in result.peak_in_flight
    ]


@pytest.mark.parametrize("name", schedules.names())
def test_there_is_an_arrow_for_every_hop_and_no_other(name):
    """Every F that is fed from another rank, every B or I, from its producer's end; none comes before it is sent."""
    result = replayed(name, hop=0.25)
    schedule = result.step.schedule
    frame = result.to_frame("actions")
    rows = frame.assign(kind=frame["action"].replace("I", "B")).set_index(["kind", "stage", "microbatch"])
    ends, starts = rows["end_seconds"].to_dict(), rows["start_seconds"].to_dict()
    expected = []
    for chain in schedule.chains:
        for before, after in pairwise(chain):
            places = schedule.placement[before], schedule.placement[after]
            for each in range(schedule.microbatches // len(schedule.chains) if places[0] != places[1] else 0):
                expected.append((*places, ends["F", before, each], starts["F", after, each]))
                expected.append((*reversed(places), ends["B", after, each], starts["B", before, each]))
    found = hops(result, (0, 1, 2, 3))
    assert sorted(found[["source", "target", "left", "right"]].itertuples(index=False, name=None)) == sorted(expected)
    assert (found["right"] - found["left"] >= 0.25 - 1e-12).all()


@pytest.mark.parametrize("name", schedules.names())
def test_directions_are_the_schedules_chains(name):
    result = replayed(name)
    count = len(result.step.schedule.chains)
    assert directions(result.to_frame("actions")) == count
    assert ("the first direction" in draw("gantt", result).texts[-1].get_text()) == (count > 1)


@pytest.mark.parametrize("name", ["dualpipe", "dualpipe_v"])
def test_pairs_of_a_schedule_are_halves_with_both_numbers(name):
    result = replayed(name, pair_factor=0.75)
    ax = draw("gantt", result)
    view = View.of(result, "pp", None)
    pairs = [action for order in result.step.schedule.orders.values() for action in order if action.parts]
    halves = view.actions[view.actions["half"] > 0]
    assert len(halves) == 2 * len(pairs) > 0
    assert sorted(halves["action"]) == ["B"] * len(pairs) + ["F"] * len(pairs)
    assert set(halves.loc[halves["half"] == 1, "action"]) == {"F"}
    numbers = next(each for each in ax.get_children() if isinstance(each, Numbers))
    assert len(numbers.entries) == len(view.actions)


def test_the_second_direction_is_pale():
    """On every rank of DualPipe the stage below the number of ranks is dark, the other one pale."""
    actions = View.of(replayed("dualpipe"), "pp", None).actions
    assert (actions["shade"] == (actions["stage"] >= 4)).all()


def svg_size(ax) -> int:
    file = BytesIO()
    ax.figure.savefig(file, format="svg", bbox_inches="tight")
    assert ElementTree.fromstring(file.getvalue()).tag.endswith("svg")
    return len(file.getvalue())


@pytest.mark.parametrize("name", schedules.names())
def test_large_pictures_are_small_files(name):
    result = replayed(name, 16, 64)
    ax = draw("gantt", result)
    assert len(ax.get_children()) < 200
    assert svg_size(ax) < SMALL


@pytest.mark.parametrize("name", schedules.names())
def test_every_option_draws_in_every_format(name):
    result = replayed(name, hop=0.25)
    ax = draw("gantt", result, arrows=True, memory=True, window=(2, 9.5), ranks=[0, 2, 3])
    for kind in ("png", "svg", "pdf"):
        file = BytesIO()
        ax.figure.savefig(file, format=kind, bbox_inches="tight")
        assert file.tell() > 1000


@cache
def full():
    step = TrainingStep("llama3_8b,layers=4", "pp=2 dp=2,zero=1 tp=4", batch=8, sequence=1024)
    return simulate(step, "dgx_h100,nodes=2")


def test_a_step_that_knows_its_bytes_shows_them():
    result = full()
    found = held(result, True)
    assert found.kind == "bytes"
    assert found.most == pytest.approx(result.peak_memory)
    ax = draw("gantt", result, memory=True)
    assert f"max {result.peak_memory / 1e9:.1f} GB" in [text.get_text() for text in ax.texts]
    assert held(result, "chunks").rows.groupby("rank")["value"].max().tolist() == [2, 1]
    timeline = result.to_frame("memory_timeline").groupby("rank")["microbatches_in_flight"].max()
    assert timeline.tolist() == chunks(result.to_frame("actions")).groupby("rank")["value"].max().tolist()


def test_arrows_of_a_step_go_between_neighbours():
    """4 microbatches, each once forward and once back."""
    found = hops(full(), (0, 8))
    assert len(found) == 2 * 4
    assert (found["left"] <= found["right"]).all()
    assert (found.loc[found["action"] == "F", "source"] == 0).all()
    assert (found.loc[found["action"] == "B", "source"] == 1).all()


def test_the_figure_is_the_same_where_pyplot_shows_it(monkeypatch):
    """In a notebook too: the same size, texts as texts; in the dots an inch that are set there."""
    plain = draw("gantt", replayed("zb_h1")).figure
    monkeypatch.setattr("matplotlib.is_interactive", lambda: True)
    shown = draw("gantt", replayed("zb_h1")).figure
    try:
        assert type(shown) is type(plain)
        assert tuple(shown.get_size_inches()) == tuple(plain.get_size_inches())
        assert shown.dpi == pyplot.rcParams["figure.dpi"]
        assert svg_size(shown.axes[0]) == pytest.approx(svg_size(plain.axes[0]), rel=0.03)
    finally:
        pyplot.close(shown)
