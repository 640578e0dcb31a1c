"""The Gantt chart shows what the frames say: every bar, every wait, in a unit that reads well."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from xml.etree import ElementTree

import numpy
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as some
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from simulator import simulate
from simulator.plots import draw
from simulator.plots._canvas import text_width, time_unit
from simulator.plots._hops import Arrows, hops
from simulator.plots._numbers import Numbers
from workloads import DeviceMesh, Program
from workloads.ops import Compute
from workloads.program import Block, BlockKey, Replay

SVG = "{http://www.w3.org/2000/svg}"
PLACE = ["rank", "ranks_in_class"]
ACTION = ["stage", "action", "microbatch"]
SPAN = ["stream", "name", "work", "kind", "axis", "start_seconds", "began_seconds", "end_seconds", "message"]


@dataclass
class Frames:
    """What a picture reads of a result."""

    spans: pandas.DataFrame
    actions: pandas.DataFrame
    coordinates: dict[int, dict[str, int]]
    title: str = "a schedule"

    @property
    def step_time(self) -> float:
        return float(self.actions["end_seconds"].max())

    def to_frame(self, name: str) -> pandas.DataFrame:
        return {"spans": self.spans, "actions": self.actions, "memory_timeline": pandas.DataFrame()}[name]


def order(stages: int, microbatches: int, rank: int) -> Iterator[tuple[str, int]]:
    """1F1B: warm-up forwards, then one forward and one backward in turn, then the backwards left."""
    warm = min(stages - rank - 1, microbatches)
    yield from (("F", microbatch) for microbatch in range(warm))
    for microbatch in range(microbatches):
        if warm + microbatch < microbatches:
            yield "F", warm + microbatch
        yield "B", microbatch


def one_f_one_b(stages: int, microbatches: int, hop: float = 0.1, scale: float = 1.0, tp: bool = False) -> Frames:
    """A replay with F = 1, B = 2, in units of `scale` seconds; rank s stands for 8 ranks of stage s."""
    orders = {stage: list(order(stages, microbatches, stage)) for stage in range(stages)}
    ends: dict[tuple[str, int, int], float] = {}
    free = dict.fromkeys(orders, 0.0)
    spans: list[dict[str, object]] = []
    actions: list[dict[str, object]] = []
    while any(orders.values()):
        for stage, left in orders.items():
            action, microbatch = left[0] if left else ("", 0)
            source = stage - 1 if action == "F" else stage + 1
            inside = 0 <= source < stages
            if not left or (inside and (action, source, microbatch) not in ends):
                continue
            row = {"rank": 8 * stage, "ranks_in_class": 8, "stage": stage, "action": action, "microbatch": microbatch}
            start = free[stage]
            if inside:
                sent = ends[action, source, microbatch]
                there = {"stream": "compute", "work": "p2p", "axis": "pp", "message": len(spans)}
                started = max(start, sent + hop)
                receive = {"name": "recv", "kind": "recv", "start_seconds": start, "end_seconds": started}
                send = {"name": "send", "kind": "send", "start_seconds": sent, "end_seconds": sent + hop}
                spans.append({**row, **there, **receive, "began_seconds": min(sent, started)})
                spans.append({**row, **there, **send, "began_seconds": sent, "rank": 8 * source, "stage": source})
                start = started
            end = start + (1 if action == "F" else 2)
            actions.append({**row, "start_seconds": start, "end_seconds": end})
            if tp:
                reduce = {"stream": "tp", "name": "sum", "work": "collective", "kind": "all_reduce", "axis": "tp"}
                times = {"start_seconds": end - 0.5, "began_seconds": end - 0.4, "end_seconds": end}
                spans.append({**row, **reduce, **times, "message": -1})
            ends[action, stage, microbatch] = free[stage] = end
            left.pop(0)
    frames = [pandas.DataFrame(spans, columns=PLACE + ACTION + SPAN), pandas.DataFrame(actions)]
    for frame in frames:
        frame[[column for column in frame if column.endswith("_seconds")]] *= scale
    return Frames(*frames, {8 * stage: {"pp": stage, "tp": 0} for stage in orders})


def extents(ax: Axes, gid: str) -> list[tuple[float, float]]:
    """Left and right edge of every bar of one collection."""
    found = [collection for collection in ax.collections if collection.get_gid() == gid]
    return [tuple(path.get_extents().intervalx) for collection in found for path in collection.get_paths()]


def legend(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def written(ax: Axes) -> Numbers:
    """The microbatch numbers of a picture."""
    return next(each for each in ax.get_children() if isinstance(each, Numbers))


def numbers(ax: Axes) -> list[str]:
    return [each.text for each in written(ax).entries]


def test_it_draws_into_its_own_or_a_given_figure():
    result = one_f_one_b(2, 3)
    ax = Figure().subplots()
    assert draw("gantt", result, ax) is ax
    assert isinstance(draw("gantt", result).figure, Figure)
    assert not pyplot.get_fignums(), "a figure that nobody shows must not stay in pyplot"


def test_one_lane_per_pipeline_stage_rank_0_on_top():
    ax = draw("gantt", one_f_one_b(4, 8))
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["rank 0", "pp 1 · rank 8", "pp 2 · rank 16", "pp 3 · rank 24"]
    assert ax.yaxis.get_inverted()
    assert all(above < below for above, below in pairwise(ax.get_yticks()))


def test_the_smallest_rank_stands_for_its_stage():
    result = one_f_one_b(2, 2)
    result.coordinates |= {1: {"pp": 0, "tp": 1}, 9: {"pp": 1, "tp": 1}}
    assert [label.get_text() for label in draw("gantt", result).get_yticklabels()] == ["rank 0", "pp 1 · rank 8"]
    assert len(draw("gantt", result, ranks="tp").get_yticks()) == 2


def test_bars_are_the_frames_actions_and_waits_the_gaps_before_them():
    result = one_f_one_b(4, 8, tp=True)
    ax = draw("gantt", result)
    for rank in result.coordinates:
        rows = result.actions[result.actions["rank"] == rank].sort_values("start_seconds")
        actions = rows[["start_seconds", "end_seconds"]].to_numpy()
        gaps = numpy.column_stack([[0.0, *actions[:-1, 1]], actions[:, 0]])
        for expected, gid in ((actions, "actions"), (gaps[gaps[:, 1] > gaps[:, 0]], "waits")):
            numpy.testing.assert_allclose(extents(ax, f"rank {rank} {gid}"), expected, atol=1e-12)
    reduced = extents(ax, "rank 8 tp")
    assert len(reduced) == 2 * 8
    assert reduced[0] == pytest.approx((1.7, 2.1)), "a transfer is drawn from when it ran, not from its launch"


def test_a_transfer_is_beneath_both_its_ranks():
    ax = draw("gantt", one_f_one_b(2, 1, hop=0.25))
    assert extents(ax, "rank 0 pp") == extents(ax, "rank 8 pp") == [(1, 1.25), (4.25, 4.5)]


def test_bars_and_waits_fill_the_step_but_for_the_bubble():
    """1F1B on free links: each rank idles (p−1)(F+B) of (m+p−1)(F+B), in waits or at its end."""
    stages, microbatches = 4, 8
    result = one_f_one_b(stages, microbatches, hop=0.0)
    ax = draw("gantt", result)
    assert result.step_time == (microbatches + stages - 1) * 3
    for rank in result.coordinates:
        bars = extents(ax, f"rank {rank} actions")
        assert result.step_time - sum(right - left for left, right in bars) == (stages - 1) * 3


def test_the_legend_has_what_is_seen_and_nothing_else():
    assert legend(draw("gantt", one_f_one_b(1, 2))) == ["F forward", "B backward"]
    full = legend(draw("gantt", one_f_one_b(2, 2, tp=True)))
    assert full == [
        "F forward",
        "B backward",
        "tp communication",
        "pp transfers",
        "waits",
        "nothing left to do",
    ]
    opening = one_f_one_b(2, 2, tp=True)
    assert legend(draw("gantt", opening, ranks=[0], window=(0.0, 0.4))) == ["F forward"]


def test_every_microbatch_number_shows_where_it_fits_and_none_where_it_does_not():
    result = one_f_one_b(4, 8)
    assert sorted(numbers(draw("gantt", result))) == sorted(str(number) for number in range(8) for _ in range(4 * 2))
    for narrow_or_flat in ((1, 4), (14, 0.5)):
        assert numbers(draw("gantt", result, Figure(figsize=narrow_or_flat).subplots())) == []


def test_numbers_lie_inside_their_bars():
    ax = draw("gantt", one_f_one_b(4, 24))
    ax.figure.draw_without_rendering()
    found = written(ax)
    for lane, rank in enumerate((0, 8, 16, 24)):
        bars = extents(ax, f"rank {rank} actions")
        for each in (each for each in found.entries if round(each.y) == lane):
            middle = ax.transData.transform((each.x, each.y))[0]
            half = text_width(ax, each.text, found.size) / 2
            left, right = (ax.transData.inverted().transform((x, 0))[0] for x in (middle - half, middle + half))
            assert any(start <= left and right <= end for start, end in bars)
    assert len(found.entries) > 4 * 24


@pytest.mark.parametrize(
    ("scale", "label", "ticks"),
    [(1.0, "time (s)", "10"), (1e-3, "time (ms)", "10"), (2e-6, "time (µs)", "20")],
)
def test_time_is_in_a_sensible_unit(scale, label, ticks):
    ax = draw("gantt", one_f_one_b(2, 4, scale=scale))
    ax.figure.draw_without_rendering()
    assert ax.get_xlabel() == label
    assert ticks in [tick.get_text() for tick in ax.get_xticklabels()]


@given(some.floats(1e-6, 999))
def test_the_unit_leaves_one_to_three_digits(span):
    scale, _ = time_unit(span)
    assert 1 - 1e-12 <= span * scale < 1000


def test_a_window_zooms_and_labels_keep_their_digits():
    ax = draw("gantt", one_f_one_b(4, 8), window=(20.0, 20.001))
    ax.figure.draw_without_rendering()
    assert ax.get_xlim() == (20.0, 20.001)
    assert "20000.2" in [tick.get_text() for tick in ax.get_xticklabels()]


def test_virtual_stages_go_from_dark_to_pale():
    result = one_f_one_b(1, 2)
    second = result.actions.assign(stage=1)
    second[["start_seconds", "end_seconds"]] += result.step_time
    result.actions = pandas.concat([result.actions, second])
    ax = draw("gantt", result)
    bars = next(each for each in ax.collections if each.get_gid() == "rank 0 actions")
    dark, pale = bars.get_facecolor()[0], bars.get_facecolor()[4]
    assert (pale[:3] > dark[:3]).all()
    assert "the 2 stages of a rank" in ax.texts[-1].get_text()


def test_the_optimizer_is_no_stage_and_has_no_number():
    result = one_f_one_b(1, 2)
    last = result.actions.tail(1).assign(action="optimizer", stage=-1, microbatch=-1, start_seconds=6, end_seconds=9)
    result.actions = pandas.concat([result.actions, last])
    ax = draw("gantt", result)
    assert legend(ax) == ["F forward", "B backward", "optimizer"]
    assert sorted(numbers(ax)) == ["0", "0", "1", "1"]
    assert "stages of a rank" not in ax.texts[-1].get_text()


def test_a_schedule_without_communication_draws():
    result = one_f_one_b(3, 3, hop=0.0)
    result.spans = result.spans.iloc[:0]
    assert legend(draw("gantt", result)) == ["F forward", "B backward", "waits", "nothing left to do"]


def test_sixteen_ranks_with_256_actions_stay_a_few_collections():
    result = one_f_one_b(16, 128, tp=True)
    ax = draw("gantt", result)
    assert len(result.actions) == 16 * 256
    assert len(ax.get_children()) < 200
    assert ax.figure.get_figheight() > draw("gantt", one_f_one_b(4, 8)).figure.get_figheight()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": [0, 3]}, r"rank 3 is not in the result's frames.*nearest are \[0, 8, 16, 24\]"),
        ({"ranks": []}, r"ranks=\[\] leaves nothing to draw"),
        ({"ranks": "ep"}, "ranks='ep' is no axis of the mesh; it has pp, tp"),
        ({"window": (5, 2)}, r"window=\(5, 2\) shows nothing: .*within 0 to"),
        ({"window": (100, 200)}, r"window=\(100, 200\) shows nothing"),
        ({"window": (0, float("nan"))}, r"window=\(0, nan\) shows nothing"),
        ({"rank": [0]}, "unknown option of gantt 'rank'; did you mean ranks"),
        ({"memory": "byte"}, "unknown memory 'byte'; did you mean bytes"),
        ({"memory": "bytes"}, "memory='bytes': nobody knows the bytes of a schedule; draw memory='chunks'"),
    ],
)
def test_bad_options_say_what_is_legal(options, message):
    with pytest.raises(ValueError, match=message):
        draw("gantt", one_f_one_b(4, 8), **options)


GEMM = Compute(name="gemm", kind="gemm", flops=1e12, shape=(4096.0, 4096.0, 4096.0))


def recomputing(pairs):
    """Two microbatches on one rank, whose B repeats and then goes back, so many times."""
    forward, backward = BlockKey(0, "F"), BlockKey(0, "B")
    again = [replace(GEMM, name=f"again{number}", recompute=True) for number in range(pairs)]
    back = [replace(GEMM, name=f"back{number}") for number in range(pairs)]
    ops = tuple(op for pair in zip(again, back, strict=True) for op in pair)
    blocks = {forward: Block((GEMM,)), backward: Block(ops)}
    order = tuple(Replay(key, number) for key in (forward, backward) for number in (0, 1))
    return simulate(Program(DeviceMesh({"pp": 1}), blocks, {(0,): order}), "flat,ranks=1")


def test_recomputation_is_drawn_where_it_ran():
    result = recomputing(3)
    ax = draw("gantt", result)
    spans = result.to_frame("spans").query("recompute")
    numpy.testing.assert_allclose(numpy.array(extents(ax, "rank 0 recompute")), spans[["start_seconds", "end_seconds"]])
    assert legend(ax) == ["F forward", "B backward", "recompute"]


def test_recomputation_too_fine_to_be_seen_is_a_share_of_its_bar():
    """Half of each B, from its start; the number is in the other half; a window shows it where it ran."""
    result = recomputing(200)
    ax = draw("gantt", result)
    bars, shares = numpy.array(extents(ax, "rank 0 actions"))[2:], numpy.array(extents(ax, "rank 0 recompute"))
    numpy.testing.assert_allclose(shares[:, 0], bars[:, 0])
    numpy.testing.assert_allclose(shares[:, 1] - shares[:, 0], (bars[:, 1] - bars[:, 0]) / 2)
    places = [each.x for each in written(ax).entries]
    numpy.testing.assert_allclose(places[-2:], (shares[:, 1] + bars[:, 1]) / 2)
    assert "recompute: its share, at the start of a bar" in ax.texts[-1].get_text()
    start = bars[0, 0]
    near = draw("gantt", result, window=(start, start + 0.009 * (bars[0, 1] - start)))
    assert len(numpy.array(extents(near, "rank 0 recompute"))) == 2


def test_without_recomputation_there_is_none():
    for result in (one_f_one_b(2, 2), recomputing(0)):
        ax = draw("gantt", result)
        assert not extents(ax, "rank 0 recompute")
        assert "recompute" not in legend(ax)


def paired(order: tuple[str, str] = ("F", "B")) -> Frames:
    """One rank with two stages: an F, a pair of the second stage's F and the first stage's B, a B."""
    columns = [*PLACE, *ACTION, "start_seconds", "end_seconds", "overlapped"]
    pair = {"F": (0, 1, 1, "F", 3, 1.0, 4.0, True), "B": (0, 1, 0, "B", 7, 1.0, 4.0, True)}
    rows = [(0, 1, 0, "F", 7, 0.0, 1.0, False), *(pair[kind] for kind in order), (0, 1, 1, "B", 3, 5.0, 7.0, False)]
    return Frames(pandas.DataFrame(columns=PLACE + ACTION + SPAN), pandas.DataFrame(rows, columns=columns), {0: {}})


@pytest.mark.parametrize("order", [("F", "B"), ("B", "F")])
def test_an_overlapped_pair_is_one_bar_of_two_halves(order):
    """F above B whichever comes first, each as long as the pair, half as high, and with its own number."""
    ax = draw("gantt", paired(order))
    assert extents(ax, "rank 0 actions") == [(0, 1), (5, 7)]
    assert extents(ax, "rank 0 overlapped") == [(1, 4), (1, 4)]
    assert extents(ax, "rank 0 waits") == [(4, 5)]
    bars = next(each for each in ax.collections if each.get_gid() == "rank 0 overlapped")
    halves = sorted(
        (tuple(path.get_extents().intervaly), tuple(face))
        for path, face in zip(bars.get_paths(), bars.get_facecolor(), strict=True)
    )
    (upper, above), (lower, beneath) = halves
    whole = next(each for each in ax.collections if each.get_gid() == "rank 0 actions").get_paths()[0]
    assert (upper[0], lower[1]) == pytest.approx(tuple(whole.get_extents().intervaly))
    assert upper[1] == pytest.approx(lower[0])
    assert above[2] > above[1], "F is blue and above"
    assert beneath[1] > beneath[2], "B is green and beneath"
    found = {each.text: each.y for each in written(ax).entries if each.x == 2.5}
    assert found == pytest.approx({"3": sum(upper) / 2, "7": sum(lower) / 2})
    assert legend(ax) == ["F forward", "B backward", "F and B overlapped", "waits"]


def test_a_window_beyond_the_end_leaves_it_white():
    """To compare schedules on one scale: nothing is drawn after the step."""
    ax = draw("gantt", one_f_one_b(2, 2), window=(0, 100))
    assert ax.get_xlim() == (0, 100)
    assert extents(ax, "rank 0 idle") == [(0, one_f_one_b(2, 2).step_time)]
    alone = draw("gantt", one_f_one_b(1, 2), window=(0, 100))
    assert "nothing left to do" not in legend(alone)


def test_the_legend_may_be_left_out():
    assert draw("gantt", one_f_one_b(2, 2), legend=False).get_legend() is None


def test_what_is_in_flight_is_a_strip_beneath_each_lane():
    """1F1B holds min(m, p - r) microbatches on rank r; the strip is on one scale, and says how many at the right."""
    stages = 4
    ax = draw("gantt", one_f_one_b(stages, 8), memory=True)
    lines = {line.get_gid(): line.get_ydata() for line in ax.lines}
    heights = [numpy.ptp(lines[f"rank {8 * stage} held"]) for stage in range(stages)]
    assert heights == pytest.approx([heights[0] * (stages - stage) / stages for stage in range(stages)])
    said = [text.get_text() for text in ax.texts if text.get_text().startswith("max")]
    assert said == ["max 4", "max 3", "max 2", "max 1"]
    assert "chunks in flight" in legend(ax)
    bars = next(each for each in ax.collections if each.get_gid() == "rank 0 actions")
    assert min(lines["rank 0 held"]) > max(path.get_extents().ymax for path in bars.get_paths()), "beneath the bars"


def test_arrows_lead_from_the_end_of_a_producer_to_the_start_of_its_consumer():
    result = one_f_one_b(3, 4, hop=0.25)
    found = hops(result, tuple(result.coordinates))
    assert len(found) == 2 * 2 * 4
    at = result.actions.set_index(["stage", "action", "microbatch"])
    ends, starts = at["end_seconds"].to_dict(), at["start_seconds"].to_dict()
    expected = {
        (stage, stage + step, ends[stage, kind, each], starts[stage + step, kind, each])
        for kind, step, stages in (("F", 1, (0, 1)), ("B", -1, (1, 2)))
        for stage in stages
        for each in range(4)
    }
    assert set(found[["source", "target", "left", "right"]].itertuples(index=False, name=None)) == expected
    ax = draw("gantt", result, arrows=True)
    drawn = {each.get_gid(): len(each.get_segments()) for each in ax.collections if isinstance(each, Arrows)}
    assert drawn == {"hops F": 8, "hops B": 8}
    for options in ({}, {"ranks": [0, 16], "arrows": True}):
        assert not [each for each in draw("gantt", result, **options).collections if isinstance(each, Arrows)]


def test_a_picture_is_true_to_scale_to_the_pixel():
    """Just inside both ends of every bar the picture has the action's colour."""
    result = one_f_one_b(3, 5, hop=0.3)
    ax = draw("gantt", result)
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    image = numpy.asarray(canvas.buffer_rgba())
    colours = {"F": (0x2F, 0x5F, 0xA8), "B": (0x14, 0x8F, 0x77)}
    pixel = 1 / (ax.bbox.width / numpy.ptp(ax.get_xlim()))
    for row in result.actions.itertuples():
        for seconds in (row.start_seconds + 2 * pixel, row.end_seconds - 2 * pixel):
            x, y = ax.transData.transform((seconds, row.rank // 8 - 0.3))
            assert tuple(image[image.shape[0] - 1 - int(y), int(x), :3]) == colours[row.action]


def svg(ax: Axes) -> tuple[ElementTree.Element, int]:
    """A picture as SVG, and its size in bytes."""
    file = BytesIO()
    ax.figure.savefig(file, format="svg", bbox_inches="tight")
    return ElementTree.fromstring(file.getvalue()), len(file.getvalue())


def test_svg_has_texts_as_texts_and_bars_where_they_are():
    result = one_f_one_b(4, 8)
    ax = draw("gantt", result)
    root, _ = svg(ax)
    texts = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    assert {"a schedule", "rank 0", "F forward", "time (s)"} <= set(texts)
    spans = [each.text for each in root.iter(f"{SVG}tspan")]
    assert sorted(spans) == sorted(numbers(ax))
    group = next(each for each in root.iter(f"{SVG}g") if each.get("id") == "rank 8 actions")
    edges = [
        tuple(map(float, found))
        for path in group.iter(f"{SVG}path")
        for found in re.findall(r"M([\d.]+) [\d.]+H([\d.]+)V", path.get("d"))
    ]
    rows = result.actions[result.actions["rank"] == 8].sort_values("start_seconds")
    lefts, rights = numpy.array(sorted(edges)).T
    scale, base = numpy.polyfit(rows["start_seconds"], lefts, 1)
    numpy.testing.assert_allclose(lefts, base + scale * rows["start_seconds"], atol=0.011)
    numpy.testing.assert_allclose(rights, base + scale * rows["end_seconds"], atol=0.011)
