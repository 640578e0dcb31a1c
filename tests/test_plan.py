"""Plans: text, mesh, layer splits, and refusals with the numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import strategies
from workloads.mesh import DeviceMesh
from workloads.microbatch import Microbatch
from workloads.plan import ParallelPlan
from workloads.plugins import as_text, parse
from workloads.stages import layers_per_stage, layout_text

TEXTS = [
    "tp=8",
    "pp=16,schedule=interleaved,virtual=8 dp=128,zero=1 tp=8",
    "pp=4,schedule=1f1b,layers=7-8x2-7 dp=2,bucket=1e6,overlap=off fsdp=4,reshard=off,prefetch=2 tp=2,sp=off",
    "fsdp=8 dp=4",
    "dp=16,zero=1,shard=8,gather=broadcast tp=2",
    "dp=4,zero=2,gather=broadcast",
    "pp=2 tp=8,overlap=on",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_round_trips(text):
    plan = ParallelPlan.parse(text)
    assert ParallelPlan.parse(str(plan)) == plan
    assert hash(ParallelPlan.parse(str(plan))) == hash(plan)


def test_defaults_are_not_written():
    assert str(ParallelPlan.parse("pp=2,schedule=one_f_one_b  dp=2,zero=0 tp=4,sp=on,scatter=on")) == "pp=2 dp=2 tp=4"


@pytest.mark.parametrize(
    "text", ["dp=2,overlap=on", "dp=2,overlap=off", "dp=2,zero=1,gather=all_gather", "tp=2,overlap=off"]
)
def test_what_is_else_the_stacks_is_written(text):
    assert str(ParallelPlan.parse(text)) == text


def test_the_mesh_has_every_axis_in_order():
    plan = ParallelPlan.parse("pp=2 dp=1 tp=4")
    assert list(plan.mesh.axes.items()) == [("pp", 2), ("dp", 1), ("tp", 4)]
    assert plan.world_size == 2 * 1 * 4
    assert (plan.degree("tp"), plan.degree("fsdp")) == (4, 1)


def test_groups_that_shard_are_an_axis_inside_that_of_the_groups():
    plan = ParallelPlan.parse("pp=2 dp=16,zero=1,shard=8 tp=4")
    assert list(plan.mesh.axes.items()) == [("pp", 2), ("dp", 2), ("dp_shard", 8), ("tp", 4)]
    assert (plan.degree("dp"), plan.world_size) == (16, 128)
    assert ParallelPlan.parse("dp=8,zero=1,shard=8") == ParallelPlan.parse("dp=8,zero=1")


def test_meshes_are_equal_if_their_axes_have_the_same_order():
    """The last axis is on neighbouring ranks, so another order is another mesh."""
    mesh, turned = DeviceMesh({"pp": 2, "tp": 4}), DeviceMesh({"tp": 4, "pp": 2})
    assert mesh == DeviceMesh({"pp": 2, "tp": 4})
    assert mesh != turned
    assert len({mesh, turned, DeviceMesh({"pp": 2, "tp": 4})}) == 2
    assert (mesh.group(0, ("tp",)).ranks, turned.group(0, ("tp",)).ranks) == ((0, 1, 2, 3), (0, 2, 4, 6))


@pytest.mark.parametrize("axes", [("pp", "tp"), ("tp", "pp")])
def test_a_group_lists_its_ranks_in_rank_order(axes):
    assert DeviceMesh({"pp": 2, "dp": 2, "tp": 2}).group(2, axes).ranks == (2, 3, 6, 7)


def test_a_degree_of_a_mesh_is_a_whole_number():
    for degree in (0, 2.5, True):
        with pytest.raises(ValueError, match=f"tp={degree}: a degree is a whole number of at least 1"):
            DeviceMesh({"tp": degree})


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("pp=4,schedule=1f1b", "pp=4"),
        ("pp=4,group=8,virtual=2,schedule=interleaved", "pp=4,schedule=interleaved,group=8"),
        ("pp=4,strict=off,virtual=4,schedule=interleaved", "pp=4,schedule=interleaved,virtual=4,strict=off"),
        ("pp=4,layers=8-8-8-8", "pp=4,layers=8x4"),
        ("dp=2,bucket=1000000", "dp=2,bucket=1e6"),
        ("fsdp=2,prefetch=1,reshard=off", "fsdp=2,reshard=off"),
        ("tp=2,sp=on", "tp=2"),
    ],
)
def test_plans_that_mean_the_same_are_equal(text, same):
    """Aliases, defaults and the order of options make no difference."""
    plan, twin = ParallelPlan.parse(text), ParallelPlan.parse(same)
    assert plan == twin
    assert hash(plan) == hash(twin)
    assert str(plan) == str(twin)


@pytest.mark.parametrize("text", ["pp=4,schedule=gpipe", "pp=4,schedule=interleaved,virtual=4", "pp=4,layers=8x4"])
def test_plans_that_differ_keep_their_text(text):
    assert str(ParallelPlan.parse(text)) == text
    assert ParallelPlan.parse(text) != ParallelPlan.parse("pp=4")


@given(st.booleans() | st.integers() | st.floats())
def test_a_value_is_read_back_from_its_text(value):
    assert repr(parse(f"name,key={as_text(value)}")[1]["key"]) == repr(value)


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_plan_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="the plan is empty; write for example dp=8"):
        ParallelPlan.parse(text)
    with pytest.raises(ValueError, match="the plan is empty"):
        ParallelPlan(())


@pytest.mark.parametrize("axis", strategies.names())
def test_every_strategy_is_the_identity_at_degree_one(axis):
    strategy = strategies.build(axis, 1)
    assert all(strategy.share(state) == 1 for state in ("parameters", "gradients", "optimizer", "boundary"))
    assert not strategy.marks()
    assert strategy.gathered([1.0]) == strategy.unscattered([[1.0]], Microbatch(1, 1)) == 0
    assert not strategy.regathers


@pytest.mark.parametrize("axis", strategies.names())
@pytest.mark.parametrize("degree", [0, -1, 2**21])
def test_every_strategy_refuses_absurd_degrees(axis, degree):
    with pytest.raises(ValueError, match=f"{axis}={degree}: a degree is a whole number from 1"):
        ParallelPlan.parse(f"{axis}={degree}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tpp=8", "unknown axis 'tpp'; did you mean tp"),
        ("tp", "'tp' is not axis=degree"),
        ("tp=eight", "'tp=eight' is not axis=degree"),
        ("tp=2 dp=2 tp=4", "tp is given 2 times"),
        ("dp=8,zer=1", "unknown option of dp 'zer'; did you mean zero"),
        ("dp=8,zero=3", "zero=3: dp has zero=0, 1 or 2; for sharded parameters use fsdp=8"),
        ("dp=8,bucket=0", "bucket=0"),
        ("dp=8,zero=1,shard=3", "shard=3: groups of ranks divide dp=8 evenly; nearest: 2 or 4"),
        ("dp=8,zero=1,shard=16", "shard=16: groups of ranks divide dp=8 evenly; nearest: 8"),
        ("dp=8,zero=1,shard=on", "shard=on: groups of ranks divide dp=8 evenly"),
        ("dp=8,zero=1,shard=1", "shard=1: a rank by itself shares nothing; use zero=0"),
        ("dp=8,shard=4", "shard=4 is for zero=1; with zero=0 use for example dp=2 fsdp=4"),
        ("dp=8,zero=1,gather=bcast", "unknown gather 'bcast'; did you mean broadcast"),
        ("dp=8,gather=broadcast", "gather=broadcast is for the shares that zero=1 or 2 leave"),
        ("dp=8,zero=1.0", "zero=1.0: dp has zero=0, 1 or 2"),
        ("dp=8,zero=on", "zero=on: dp has"),
        ("dp=8,bucket=on", "bucket=on: a bucket is a number of bytes"),
        ("dp=8,bucket=big", "bucket=big: a bucket is a number of bytes"),
        ("dp=8,overlap=1", "overlap=1 is neither on nor off"),
        (
            "tp=8,sp=off,overlap=on",
            "overlap=on of tp pipelines the gathers and scatters of sequence parallelism; use sp",
        ),
        ("tp=8,overlap=2", "overlap=2 is neither on nor off"),
        ("tp=8,sp=3", "sp=3 is neither on nor off"),
        ("tp=8,sp=1", "sp=1 is neither on nor off"),
        ("fsdp=8,prefetch=-1", "prefetch=-1"),
        ("fsdp=8,prefetch=on", "prefetch=on: a whole number of units"),
        ("pp=4,layers=on", "'on' in layers=on is neither a count"),
        ("pp=4,layers=7.5", "'7.5' in layers=7.5 is neither a count"),
        (
            "pp=4,virtal=2,schedule=interleaved",
            "unknown option of pp,schedule=interleaved 'virtal'; did you mean virtual",
        ),
        ("pp=4,schedule=interleavd", "unknown schedule 'interleavd'; did you mean interleaved"),
    ],
)
def test_bad_text_is_refused_in_one_line(text, message):
    with pytest.raises(ValueError, match=message) as failure:
        ParallelPlan.parse(text)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("layers", "stages", "text"),
    [(126, 16, "7-8x14-7"), (126, 128, "0-1x126-0"), (32, 4, "8x4"), (31, 4, "8x3-7"), (6, 4, "1-2x2-1"), (5, 1, "5")],
)
def test_default_splits(layers, stages, text):
    assert layout_text(layers_per_stage(layers, stages)) == text
    assert layers_per_stage(layers, stages, text) == layers_per_stage(layers, stages)


@given(st.integers(1, 200), st.integers(1, 200))
def test_a_default_split_keeps_every_layer_and_no_middle_stage_empty(layers, stages):
    if layers < stages - 2:
        with pytest.raises(ValueError, match=f"at most {layers + 2} stages"):
            layers_per_stage(layers, stages)
        return
    counts = layers_per_stage(layers, stages)
    assert sum(counts) == layers
    assert len(counts) == stages
    assert min(counts[1:-1], default=1) >= 1
    assert max(counts) == -(-layers // stages)


@pytest.mark.parametrize("layout", ["8-8", "4x3", "1x-3", "a", "8-x2"])
def test_a_layout_that_does_not_fit_is_refused(layout):
    with pytest.raises(ValueError, match=layout):
        layers_per_stage(16, 4, layout)


def test_equal_pipelines_share_one_schedule():
    """Searching a large one, or checking it, takes a second: steps that differ elsewhere do not do it again."""
    one, other = (strategies.build("pp", 4, schedule="zb_auto", memory=1.5) for _ in range(2))
    assert one.order(8) is other.order(8)
    assert one.order(8) is not one.order(12)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"virtual": [2]}, r"virtual=\[2\] of schedule=interleaved is neither"),
        ({"strict": 0}, "strict=0 is neither on"),
    ],
)
def test_what_is_no_option_is_refused_though_an_equal_schedule_is_kept(option, message):
    strategies.build("pp", 4, schedule="interleaved", strict=False).order(8)
    with pytest.raises(ValueError, match=message):
        strategies.build("pp", 4, schedule="interleaved", **option).order(8)
