"""What a result offers: figures, frames, words, pictures, traces; and that values travel."""

import gzip
import json
import pickle

import numpy as np
import pandas
import pytest

import topologies
from simulator import Result, simulate
from workloads import DeviceMesh, Program, TrainingStep
from workloads.ops import Compute

STEP = TrainingStep("llama3_8b,layers=4", "pp=2 dp=2,zero=1 tp=2", batch=8, sequence=2048)
FRAMES = {
    "spans": {
        "rank",
        "ranks_in_class",
        "stream",
        "name",
        "work",
        "kind",
        "axis",
        "bytes",
        "start_seconds",
        "end_seconds",
    },
    "actions": {"rank", "ranks_in_class", "stage", "action", "microbatch", "start_seconds", "end_seconds"},
    "ranks": {"rank", "ranks_in_class", "pp", "dp", "tp", "compute_seconds", "bubble_seconds", "memory_bytes"},
    "memory": {
        "rank",
        "ranks_in_class",
        "parameters_bytes",
        "total_bytes",
        "reserved_bytes",
        "usable_bytes",
        "fits",
    },
    "memory_timeline": {
        "rank",
        "ranks_in_class",
        "time_seconds",
        "microbatches_in_flight",
        "parameters_bytes",
        "total_bytes",
    },
    "collectives": {"axis", "kind", "algorithm", "bytes", "ops", "transfer_seconds", "waited_seconds"},
    "links": {
        "link",
        "links_in_class",
        "kind",
        "bandwidth_bytes_per_second",
        "carried_bytes",
        "busy_share",
        "peak_flows",
        "crossed_by",
        "degraded",
    },
    "placement": {"axis", "degree", "groups", "level", "hosts_per_group", "kinds", "narrowest_bytes_per_second"},
}
UNITLESS = {"busy_share", "bytes", "fits", "degraded"}


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(STEP, topologies.build("dgx_h100"))


@pytest.mark.parametrize("name", FRAMES)
def test_frames_have_units_in_their_columns(result, name):
    frame = result.to_frame(name)
    assert FRAMES[name] <= set(frame.columns)
    assert len(frame)
    for column in frame.select_dtypes("floating"):
        assert column in UNITLESS or column.endswith(("_seconds", "_bytes", "_bytes_per_second")), column
    assert not frame.select_dtypes("number").isna().any().any()


@pytest.mark.parametrize("name", ["spans", "actions", "ranks", "memory", "memory_timeline"])
def test_expand_gives_every_rank_what_its_representative_has(result, name):
    folded, expanded = result.to_frame(name), result.to_frame(name, expand=True)
    assert folded.drop_duplicates("rank")["ranks_in_class"].sum() == 8
    assert sorted(expanded["rank"].unique()) == list(range(8))
    assert (expanded["ranks_in_class"] == 1).all()
    assert len(expanded) == (folded["ranks_in_class"]).sum()
    assert set(expanded.columns) == set(folded.columns)


def test_expanded_ranks_have_coordinates_of_their_own(result):
    """The mesh is pp 2 x dp 2 x tp 2, the last axis on neighbours."""
    frame = result.to_frame("ranks", expand=True)
    for axis in ("pp", "dp", "tp"):
        places = [result.program.mesh.coordinates(rank)[axis] for rank in frame["rank"]]
        assert frame[axis].tolist() == places


def test_spans_lie_in_the_step_and_streams_are_in_order(result):
    spans = result.to_frame("spans")
    late = spans["kind"] == "recv"
    assert (late | (spans["start_seconds"] <= spans["began_seconds"])).all()
    assert (spans[["start_seconds", "began_seconds"]].max(axis=1) <= spans["end_seconds"]).all()
    assert spans["end_seconds"].max() == pytest.approx(result.step_time)
    held = spans[spans["kind"] != "send"].sort_values(["rank", "stream", "start_seconds", "end_seconds"])
    for _, stream in held.groupby(["rank", "stream"]):
        ends, starts = stream["end_seconds"].to_numpy()[:-1], stream["start_seconds"].to_numpy()[1:]
        assert (starts >= ends - 1e-12).all()


def test_nobody_waits_or_transfers_for_less_than_no_time(result):
    """A receiver that comes after its message has waited for nothing."""
    frame = result.to_frame("collectives")
    assert (frame["waited_seconds"] >= 0).all()
    assert (frame["transfer_seconds"] >= 0).all()


def test_kernel_spans_add_up_to_the_compute_seconds(result):
    spans, ranks = result.to_frame("spans"), result.to_frame("ranks").set_index("rank")
    kernels = spans[spans["work"] == "compute"]
    sums = (kernels["end_seconds"] - kernels["start_seconds"]).groupby(kernels["rank"]).sum()
    np.testing.assert_allclose(sums, ranks["compute_seconds"], rtol=1e-9)


def test_every_op_of_the_program_has_a_span(result):
    spans = result.to_frame("spans")
    assert len(spans) == result.timeline.ops_replayed
    assert len(result.to_frame("spans", expand=True)) == len(
        simulate(STEP, result.topology, fold=False).to_frame("spans")
    )


def test_figures_are_the_definitions(result):
    """Tokens, model FLOPs and peaks over time."""
    assert result.tokens_per_second == pytest.approx(8 * 2048 / result.step_time)
    peak = sum(chip.peak("bf16") for chip in result.topology.accelerators)
    assert result.mfu == pytest.approx(STEP.model.flops(8 * 2048, sequence=2048) / peak / result.step_time)
    assert sum(result.mean_seconds.values()) == pytest.approx(result.step_time)
    assert result.peak_memory == result.to_frame("memory")["total_bytes"].max()
    assert result.memory_fits == result.to_frame("memory")["fits"].all()


def test_unknown_frames_and_plots_are_refused(result):
    with pytest.raises(ValueError, match="unknown frame 'span'; did you mean spans"):
        result.to_frame("span")
    with pytest.raises(ValueError, match="unknown plot 'gant'; did you mean gantt"):
        result.plot("gant")


def test_words_and_html_say_the_same(result):
    text, html = str(result), result._repr_html_()
    assert text.splitlines()[0] == result.title == f"{STEP} on dgx_h100,nodes=1"
    assert f"{result.mfu:.1%}" in text
    assert f"{result.mfu:.1%}" in html
    for line in ("step time", "MFU", "bubble", "· exposed tp", "memory"):
        assert line in text
        assert line in html
    assert html.startswith("<table>")
    assert html.count("<tr>") == len(text.splitlines()) - 1
    assert result.title in repr(result)


def test_html_escapes():
    """A class of devices could be called anything."""
    program = Program.of(DeviceMesh({"pp": 1}), {(0,): [Compute(name="a", kind="gemm", flops=1.0)]})
    cluster = topologies.build("flat", ranks=1, accelerator="ideal").replace(name="<b>")
    assert "<b>" not in simulate(program, cluster)._repr_html_()


def test_compare_puts_results_side_by_side(result):
    slow = simulate(STEP, result.topology.degrade(rank=3, compute=0.5))
    frame = result.compare(slow)
    assert isinstance(frame, pandas.DataFrame)
    assert frame["title"].tolist() == [result.title, slow.title]
    assert frame["relative_step_time"].tolist() == [1.0, slow.step_time / result.step_time]
    assert frame["step_time_seconds"].tolist() == [result.step_time, slow.step_time]
    assert {"mfu", "hfu", "bubble_fraction", "peak_memory_bytes", "memory_fits"} <= set(frame.columns)
    assert len(result.compare()) == 1


def test_compare_takes_steps_with_other_axes(result):
    """An axis that one of them does not have took it no time, or is left open; the other figures stay."""
    other = simulate(STEP.replace(plan="dp=8"), result.topology)
    frame = result.compare(other).set_index("title")
    assert frame.loc[result.title, "exposed_tp_seconds"] == result.exposed["tp"]
    assert not frame.loc[other.title, "exposed_tp_seconds"] > 0


@pytest.mark.parametrize(
    "value", [STEP, STEP.program(), topologies.build("dgx_h100,nodes=2").degrade(rank=1, compute=0.5)]
)
def test_inputs_pickle(value):
    again = pickle.loads(pickle.dumps(value))
    assert str(again) == str(value)
    assert type(again) is type(value)


def test_a_result_pickles(result):
    again = pickle.loads(pickle.dumps(result))
    assert again.figures == result.figures
    assert str(again) == str(result)
    for name in FRAMES:
        assert again.to_frame(name).equals(result.to_frame(name))


def test_pickled_inputs_give_the_same_result(result):
    step, cluster = pickle.loads(pickle.dumps((STEP, result.topology)))
    assert simulate(step, cluster).figures == result.figures


def test_plot_returns_axes_and_draws_into_given_ones(result):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    ax = pyplot.figure().gca()
    assert result.plot("gantt", ax=ax) is ax
    assert isinstance(result.plot("gantt"), Axes)
    pyplot.close("all")


def test_the_trace_loads_and_adds_up(result, tmp_path):
    """Slices are complete events in microseconds; those of kernels add up to the compute seconds of the classes."""
    path = tmp_path / "step.json.gz"
    result.save_trace(str(path))
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    spans = result.to_frame("spans")
    assert len(slices) == len(spans)
    micro = sum(event["dur"] for event in slices)
    assert micro / 1e6 == pytest.approx((spans["end_seconds"] - spans["start_seconds"]).sum(), rel=1e-3)
    assert max(event["ts"] + event["dur"] for event in slices) / 1e6 == pytest.approx(result.step_time, rel=1e-6)
    again = tmp_path / "again.json.gz"
    result.save_trace(str(again))
    assert again.read_bytes() == path.read_bytes()


def test_a_step_that_does_not_fit_still_has_a_time():
    """The verdict names the largest row."""
    step = TrainingStep("llama3_70b", "dp=8", batch=8, sequence=2048)
    result = simulate(step, topologies.build("dgx_h100"))
    assert result.step_time > 0
    assert not result.memory_fits
    assert "does not fit; the largest row is optimizer" in str(result)


def test_a_degraded_link_that_nothing_crosses_is_named():
    """tp=8 stays on NVLink, so a weak card does not matter; a weak NVLink does."""
    step = TrainingStep("llama3_8b,layers=1", "tp=8", batch=1, sequence=1024)
    cluster = topologies.build("dgx_h100").degrade(link=("gpu3", "infiniband0"), bandwidth=0.5)
    assert simulate(step, cluster).warnings == ("gpu3->infiniband0 is degraded, but nothing crosses it in this run",)
    assert "gpu3->infiniband0 is degraded" in str(simulate(step, cluster))
    crossed = topologies.build("dgx_h100").degrade(link=("gpu3", "nvswitch0"), bandwidth=0.5)
    assert simulate(step, crossed).warnings == ()


@pytest.mark.parametrize(
    ("cluster", "algorithms", "warning"),
    [
        ("dgx_h100,transport=efa", {}, "transport=efa has no effect: one node"),
        ("dgx_h100", {"all_to_all": "pairwise"}, "algorithm all_to_all=pairwise has no effect: there is none in this"),
        ("dgx_h100", {"all_reduce": "hierarchical"}, "algorithm all_reduce=hierarchical has no effect: fits no group"),
    ],
)
def test_options_without_effect_are_named(cluster, algorithms, warning):
    step = TrainingStep("llama3_8b,layers=2", "dp=8", batch=8, sequence=1024)
    assert any(each.startswith(warning) for each in simulate(step, cluster, algorithms=algorithms).warnings)


def test_algorithms_with_effect_are_not():
    step = TrainingStep("llama3_8b,layers=2", "dp=8", batch=8, sequence=1024)
    assert simulate(step, "dgx_h100", algorithms={"all_reduce": "ring"}).warnings == ()
