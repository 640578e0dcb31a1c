"""Every picture: it draws what it is for, into given axes too, without warnings, and refuses the rest in one line."""

import math
import warnings

import networkx as nx
import numpy as np
import pandas
import pytest
from cluster_names import EVERY, built
from matplotlib import pyplot
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import topologies
from simulator import collectives, replay_schedule, simulate, time_collective
from simulator.plots import draw, names
from simulator.plots._canvas import DEGRADED
from simulator.plots._memory import limits, rows_of
from workloads import DeviceMesh, Program, TrainingStep, schedules
from workloads.ops import Compute

CLUSTER = topologies.build("dgx_h100,nodes=2")
STEP = TrainingStep("llama3_8b,layers=4", "pp=2 dp=2,zero=1 tp=4", batch=8, sequence=1024)
RESULT = simulate(STEP, CLUSTER.degrade(link=("gpu3", "nvswitch0"), bandwidth=0.5))
TIMED = time_collective("all_reduce", bytes=1e6, ranks=range(16), topology=CLUSTER)
MEASURED = pandas.DataFrame({"size_bytes": [2.0**20, 2.0**30], "time_seconds": [1e-4, 1e-2], "series": ["a", "b"]})
SUBJECTS = {"a result": RESULT, "a collective": TIMED, "a topology": CLUSTER}
DRAWS = {
    "gantt": ({"a result"}, [{}, {"ranks": [0]}, {"window": (0.0, 0.01)}, {"arrows": True, "memory": True}]),
    "links": ({"a result"}, [{}, {"count": 1}]),
    "memory": ({"a result"}, [{}, {"rank": 8}]),
    "memory_bars": ({"a result"}, [{}, {"ranks": [0]}, {"ranks": "tp"}]),
    "topology": (set(SUBJECTS), [{}]),
    "collective_curve": (
        {"a collective"},
        [{}, {"algorithms": ["auto", "ring"], "sizes": [1e3, 1e6]}, {"measured": MEASURED}],
    ),
}


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    assert not pyplot.get_fignums(), "a figure that nobody shows must not stay in pyplot"


def rendered(ax):
    """The axes, once their figure has been drawn."""
    ax.figure.draw_without_rendering()
    return ax


def test_every_plot_is_tested_here():
    assert set(names()) == set(DRAWS)


@pytest.mark.parametrize("name", names())
def test_every_plot_draws_its_subjects_and_refuses_others(name):
    subjects, variants = DRAWS[name]
    for subject in subjects:
        for options in variants:
            assert isinstance(rendered(draw(name, SUBJECTS[subject], **options)).figure, Figure)
            ax = Figure(layout="constrained").subplots()
            assert rendered(draw(name, SUBJECTS[subject], ax, **options)) is ax
            assert ax.get_title("left")
    for subject in set(SUBJECTS) - subjects:
        with pytest.raises(ValueError, match=f"^{name} draws .*, not <") as caught:
            draw(name, SUBJECTS[subject])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", names())
def test_unknown_options_name_the_nearest(name):
    wrong = {"gantt": "windo", "links": "counts", "memory": "rnk", "memory_bars": "rank", "topology": "axes"}
    option = {**wrong, "collective_curve": "size"}[name]
    with pytest.raises(ValueError, match=f"unknown option of {name} '{option}'"):
        draw(name, SUBJECTS[min(DRAWS[name][0])], **{option: 1})


# ------------------------------------------------------------------------------------------------ topology


@pytest.mark.parametrize("name", EVERY)
def test_every_cluster_can_be_drawn(name):
    ax = rendered(draw("topology", built(name)))
    assert ax.get_title("left") == built(name).name
    assert len(squares(ax)) <= 150


def squares(ax):
    return next((each.get_paths() for each in ax.collections if isinstance(each, PatchCollection)), [])


def lines(ax, kind):
    found = [each for each in ax.collections if isinstance(each, LineCollection) and each.get_gid() == f"{kind} links"]
    return sum(len(each.get_segments()) for each in found)


def notes(ax):
    return [text.get_text().replace("\n", " ") for text in ax.texts]


def test_a_small_cluster_is_drawn_in_full():
    ax = draw("topology", CLUSTER)
    assert len(squares(ax)) == 16
    assert lines(ax, "nvlink") == lines(ax, "infiniband") == 16
    assert {"nvswitch0", "nvswitch1", "infiniband0", "node 0", "node 1"} <= set(notes(ax))
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["nvlink 450 GB/s", "infiniband 50 GB/s", "H100-SXM5"]


def test_a_large_cluster_says_what_it_leaves_out():
    """2 of 8 pods, in each 2 of 192 racks."""
    ax = draw("topology", topologies.build("llama3_cluster"))
    said = notes(ax)
    assert len(squares(ax)) == 64
    assert said.count("… 190 more racks") == 2
    assert {"… 6 more pods", "1,536 × rack", "3,072 × nvswitch"} <= set(said)


def test_a_torus_has_planes_bundles_and_dashed_ends():
    """In 4 planes of 4 x 4 there are 2 x 12 links each, 3 bundles join them, 4 x 16 ends and 2 of bundles go on."""
    ax = draw("topology", topologies.build("torus,shape=4x4x4"))
    assert len(squares(ax)) == 64
    assert notes(ax).count("×16") == 3
    assert lines(ax, "ici") == 4 * 24 + 3 + 4 * 16 + 2
    dashed = [each for each in ax.collections if isinstance(each, LineCollection) and each.get_linestyle()[0][1]]
    assert sum(len(each.get_segments()) for each in dashed) == 4 * 16 + 2


def test_what_is_degraded_is_red_even_in_a_large_cluster():
    cluster = topologies.build("dgx_h100,nodes=64").degrade(rank=300, compute=0.5)
    cluster = cluster.degrade(link=("nvswitch0", "gpu2"), bandwidth=0.5)
    ax = draw("topology", cluster)
    assert lines(ax, "degraded") == 1
    colours = next(each for each in ax.collections if isinstance(each, PatchCollection)).get_facecolors()
    assert [to_hex(colour) for colour in colours].count(DEGRADED.lower()) == 1
    assert "node 37" in notes(ax)
    assert ax.get_legend().get_texts()[-1].get_text() == "degraded"
    hidden = draw("topology", topologies.build("torus,shape=32x32").degrade(rank=1000, compute=0.5))
    assert "1 degraded not shown" in notes(hidden)[-1]


def test_graphs_of_ones_own():
    star = nx.star_graph(["hub", "a", "b", "c"])
    nx.set_node_attributes(star, {name: name != "hub" for name in star}, "device")
    lattice = nx.grid_2d_graph(5, 40)
    nx.set_node_attributes(lattice, True, "device")
    for graph, shown, said in ((star, 3, "hub"), (lattice, 48, "… 152 more nodes")):
        nx.set_edge_attributes(graph, 1e9, "bandwidth")
        ax = rendered(draw("topology", topologies.from_graph(graph, name="mine")))
        assert len(squares(ax)) == shown
        assert said in notes(ax)


# ------------------------------------------------------------------------------------------------ collective_curve


def test_curve_points_are_those_of_time_collective():
    sizes = [2.0**10, 2.0**20, 2.0**30]
    ax = draw("collective_curve", TIMED, sizes=sizes, algorithms=["auto", "ring", "tree"])
    right = next(each for each in ax.figure.axes if each is not ax)
    for name in ("auto", "ring", "tree"):
        done = [
            time_collective("all_reduce", bytes=size, ranks=range(16), topology=CLUSTER, algorithm=name)
            for size in sizes
        ]
        (curve,), (rates,) = ([each for each in axes.lines if each.get_gid() == name] for axes in (ax, right))
        np.testing.assert_allclose(curve.get_xydata(), [(each.bytes, each.seconds) for each in done])
        np.testing.assert_allclose(rates.get_ydata(), [each.busbw for each in done])


def test_the_chosen_algorithm_is_marked_where_it_takes_over():
    ax = draw("collective_curve", TIMED)
    sizes = next(each for each in ax.lines if each.get_gid() == "auto").get_xdata()
    chosen = [time_collective("all_reduce", bytes=size, ranks=range(16), topology=CLUSTER).algorithm for size in sizes]
    changes = [place for place in range(len(chosen)) if not place or chosen[place] != chosen[place - 1]]
    assert [each.get_xdata()[0] for each in ax.lines if each.get_gid() == "chosen"] == [sizes[k] for k in changes]
    assert [text for text in notes(ax) if text in collectives.names()] == [chosen[place] for place in changes]


def test_axes_have_units():
    ax = rendered(draw("collective_curve", TIMED))
    assert ax.get_xscale() == ax.get_yscale() == "log"
    ticks = [tick.get_text() for tick in ax.get_xticklabels()]
    assert {"1 KiB", "16 GiB"} <= set(ticks)
    assert {"100 µs", "1 ms"} <= {tick.get_text() for tick in ax.get_yticklabels()}
    assert next(each for each in ax.figure.axes if each is not ax).get_ylabel() == "bus bandwidth (GB/s)"


def test_measured_points_are_beside_the_line():
    """Bus bandwidth of an all-reduce among n is 2 (n-1)/n times size over time."""
    ax = draw("collective_curve", TIMED, measured=MEASURED)
    right = next(each for each in ax.figure.axes if each is not ax)
    points = {name: [each for each in axes.lines if each.get_gid() == name] for axes in (ax, right) for name in "ab"}
    assert all(len(found) == 1 for found in points.values())
    (rate,) = points["b"][0].get_ydata()
    assert rate == pytest.approx(2 * 15 / 16 * 2**30 / 1e-2)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["auto", "a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithms": []}, "leave nothing to draw"),
        ({"sizes": []}, "leave nothing to draw"),
        ({"algorithms": ["rings"]}, "unknown collective algorithm 'rings'; did you mean ring"),
        ({"sizes": [-1.0]}, "a collective moves more than 0 bytes"),
        ({"measured": MEASURED[["size_bytes"]]}, "measured has no column 'time_seconds'"),
    ],
)
def test_curves_of_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        draw("collective_curve", TIMED, **options)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------ links


def test_bars_are_the_frame():
    ax = draw("links", RESULT, count=100)
    frame = RESULT.to_frame("links").query("carried_bytes > 0").sort_values("busy_share", ascending=False)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], frame["busy_share"])
    starts = [f"{source} → {end}" for source, end in zip(frame["source"], frame["destination"], strict=True)]
    labels = [label.get_text().split("  ×")[0] for label in ax.get_yticklabels()]
    assert sorted(labels) == sorted(starts)
    assert len(draw("links", RESULT, count=3).patches) == 3


def test_a_degraded_link_says_so():
    ax = draw("links", RESULT, count=100)
    assert any("bandwidth × 0.5" in text for text in notes(ax))
    assert "degraded" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_steps_without_traffic_and_schedules_draw_too():
    gemm = Compute(name="gemm", kind="gemm", flops=1e12, shape=(4096.0, 4096.0, 4096.0))
    quiet = simulate(Program.of(DeviceMesh({"dp": 1}), {(): [gemm]}, varies=()), "flat,ranks=1")
    replayed = replay_schedule(schedules.build("one_f_one_b", stages=2, microbatches=2), forward=1.0)
    for result in (quiet, replayed):
        assert "nothing crossed a link" in notes(rendered(draw("links", result)))
        rendered(draw("topology", result))


@pytest.mark.parametrize("count", [0, -1, 2.5, True])
def test_a_count_is_a_whole_number(count):
    with pytest.raises(ValueError, match=f"count={count}: give a whole number of links, at least 1"):
        draw("links", RESULT, count=count)


# ------------------------------------------------------------------------------------------------ memory


def areas(ax):
    """Each row's area in GB and seconds."""
    found = [each for each in ax.collections if each.get_gid() not in (None, "peak")]
    return {each.get_gid(): sum(area(path.vertices) for path in each.get_paths()) for each in found}


def area(corners):
    """The shoelace formula."""
    x, y = corners[:-1].T
    return abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2


def bars(ax, gid):
    return [bar for container in ax.containers for bar in container if container[0].get_gid() == gid]


def test_areas_are_the_timeline_of_the_fullest_rank():
    """Bytes times seconds of every row, and the first moment of the peak."""
    ax = rendered(draw("memory", RESULT))
    memory, changes = RESULT.to_frame("memory"), RESULT.to_frame("memory_timeline")
    rank = memory["rank"][memory["total_bytes"].idxmax()]
    changes = changes[changes["rank"] == rank]
    lasts = np.diff([*changes["time_seconds"], RESULT.step_time])
    found = areas(ax)
    assert {"parameters", "optimizer", "activations"} <= set(found)
    for name, size in found.items():
        assert size == pytest.approx((changes[f"{name}_bytes"] * lasts).sum() / 1e9, rel=1e-6)
    (dot,) = (line for line in ax.lines if line.get_gid() == "peak")
    first = changes.loc[changes["total_bytes"].idxmax()]
    assert dot.get_xydata().tolist() == [[first["time_seconds"], RESULT.peak_memory / 1e9]]
    assert f"peak {RESULT.peak_memory / 1e9:.1f} GB" in notes(ax)
    entries = [text.get_text() for text in ax.get_legend().get_texts()]
    assert f"optimizer {first['optimizer_bytes'] / 1e9:.1f} GB" in entries


def test_usable_memory_is_a_line():
    usable = CLUSTER.accelerators[0].usable_memory_bytes / 1e9
    for name in ("memory", "memory_bars"):
        ax = draw(name, RESULT)
        (line,) = (line for line in ax.lines if line.get_gid() == "usable")
        assert set(line.get_ydata()) == {usable}
        assert ax.get_ylim()[1] > usable
        assert f"usable {usable:.1f} GB" in notes(ax)
    ax = Figure().subplots()
    limits(ax, 1e9, math.inf)
    assert not ax.lines


def test_bars_add_up_to_peaks_and_what_is_reserved():
    ax = rendered(draw("memory_bars", RESULT))
    memory = RESULT.to_frame("memory").set_index("rank").loc[[0, 8]]
    np.testing.assert_allclose([bar.get_height() for bar in bars(ax, "optimizer")], memory["optimizer_bytes"] / 1e9)
    tops = [bar.get_y() + bar.get_height() for bar in bars(ax, "reserved")]
    np.testing.assert_allclose(tops, memory["reserved_bytes"] / 1e9)
    np.testing.assert_allclose([bar.get_y() for bar in bars(ax, "reserved")], memory["total_bytes"] / 1e9)
    assert {f"{size / 1e9:.1f}" for size in memory["total_bytes"]} <= set(notes(ax))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["pp 0\nrank 0", "pp 1\nrank 8"]


def test_legends_lie_beneath_the_data():
    for name in ("memory", "memory_bars", "links"):
        ax = rendered(draw(name, RESULT))
        assert ax.get_legend().get_window_extent().y1 < ax.get_window_extent().y0
        assert ax.get_legend().get_window_extent().y0 >= 0


def test_every_row_of_memory_has_a_colour_of_its_own():
    """Rows that nobody knows too, and between what is known to stay and what is known to go."""
    names = ["logits", "caches", "activations", "parameters", "tables", "nothing"]
    frame = pandas.DataFrame({f"{name}_bytes": [0.0 if name == "nothing" else 1.0] for name in [*names, "total"]})
    found = rows_of(frame)
    assert list(found) == ["parameters", "caches", "tables", "activations", "logits"]
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_pictures_of_memory_can_be_written(tmp_path, ending):
    for name in ("memory", "memory_bars"):
        path = tmp_path / f"{name}.{ending}"
        draw(name, RESULT).figure.savefig(path)
        assert path.stat().st_size > 0


def test_memory_that_nobody_knows_is_not_drawn():
    gemm = Compute(name="gemm", kind="gemm", flops=1e12, shape=(4096.0, 4096.0, 4096.0))
    result = simulate(Program.of(DeviceMesh({"dp": 1}), {(): [gemm]}, varies=()), "flat,ranks=1")
    for name in ("memory", "memory_bars"):
        with pytest.raises(ValueError, match=f"^{name} draws a step of which the memory is known, not <"):
            draw(name, result)
    with pytest.raises(ValueError, match=r"rank 16 is not in the result's frames, .* the nearest are"):
        draw("memory", RESULT, rank=16)
