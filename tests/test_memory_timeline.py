"""Memory over the step: what schedules hold when, peaks, the integral, what is reserved, and what would fit."""

from dataclasses import dataclass, replace

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import simulate
from simulator.allocator import MARGIN, reserved
from simulator.remedies import nearest
from workloads import DeviceMesh, Program, TrainingStep
from workloads.footprint import Footprint, Item
from workloads.ops import Compute
from workloads.plan import ParallelPlan
from workloads.program import Block, BlockKey, Replay

TINY = "llama3_8b,layers={},vocab=0"


def timeline(plan: str, m: int = 8, layers: int = 8, **options: object) -> pandas.DataFrame:
    """The frame of a small step of m microbatches, on free links or a given cluster."""
    return simulated(plan, m, layers, **options).to_frame("memory_timeline")


def simulated(plan, m=8, layers=8, *, cluster=None, detail="ops", fold=True, **options):
    step = TrainingStep(TINY.format(layers), plan, m, 1024, **options)
    return simulate(step, cluster or f"flat,ranks={step.plan.world_size}", detail=detail, fold=fold)


def in_flight(frame: pandas.DataFrame) -> list[int]:
    """The most microbatches in flight on each rank."""
    return frame.groupby("rank")["microbatches_in_flight"].max().tolist()


# ------------------------------------------------------------------------------------------------ schedules


@settings(max_examples=12, deadline=None)
@given(p=st.integers(2, 6), m=st.integers(1, 12))
def test_1f1b_holds_p_minus_r_microbatches_and_gpipe_all(p, m):
    """Exactly min(m, p - r) on rank r, and m."""
    assert in_flight(timeline(f"pp={p}", m, p)) == [min(m, p - rank) for rank in range(p)]
    assert in_flight(timeline(f"pp={p},schedule=gpipe", m, p)) == [m] * p


@settings(max_examples=8, deadline=None)
@given(p=st.integers(2, 4), v=st.integers(2, 3), rounds=st.integers(1, 4))
def test_interleaving_holds_its_warm_up_and_one_more(p, v, rounds):
    """Rank r warms up with (v - 1) p + 2 (p - r - 1) of m v microbatch stages (arXiv:2104.04473)."""
    m = p * rounds
    expected = [min(m * v, (v - 1) * p + 2 * (p - rank - 1) + 1) for rank in range(p)]
    assert in_flight(timeline(f"pp={p},schedule=interleaved,virtual={v}", m, p * v)) == expected


def test_gpipe_climbs_one_by_one_and_comes_down_so():
    frame = timeline("pp=4,schedule=gpipe", 8)
    for _, rank in frame.groupby("rank"):
        counts = rank["microbatches_in_flight"].to_numpy()
        assert counts.max() == 8
        assert set(np.abs(np.diff(counts))) <= {0, 1}
        assert counts[-1] == 0


# ------------------------------------------------------------------------------------------------ frame

PLANS = ["dp=2", "pp=4", "pp=4,schedule=gpipe", "pp=2,schedule=interleaved,virtual=2", "pp=2 fsdp=2 tp=2"]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("detail", ["ops", "actions"])
def test_the_most_of_the_timeline_is_the_peak(plan, recompute, detail):
    """Row by row, at the first moment when all of them are most in all, with the head's logits too."""
    step = TrainingStep("llama3_8b,layers=4", plan, 8, 2048, recompute=recompute)
    result = simulate(step, "dgx_h100", detail=detail) if step.plan.world_size == 8 else None
    result = result or simulate(step, f"flat,ranks={step.plan.world_size}", detail=detail)
    frame = result.to_frame("memory_timeline")
    for rank_class, rows in zip(result.timeline.quotient.rank_classes, result.memory, strict=True):
        own = frame[frame["rank"] == rank_class.rank]
        peak = own.loc[own["total_bytes"].idxmax()]
        assert peak["total_bytes"] == sum(rows.values())
        assert {name: peak[f"{name}_bytes"] for name in rows} == rows
    assert frame["total_bytes"].max() == result.peak_memory


@pytest.mark.parametrize("plan", PLANS)
def test_every_line_is_a_change_in_order_of_time(plan):
    frame = timeline(plan)
    assert not frame.isna().any().any()
    for _, rank in frame.groupby("rank"):
        times = rank["time_seconds"].to_numpy()
        assert times[0] == 0
        assert (np.diff(times) > 0).all()
        assert rank.drop(columns="time_seconds").diff().iloc[1:].any(axis=1).all()


def test_it_integrates_to_the_sizes_times_how_long_they_are_held():
    """Activations of a stage's two layers: one half from the start of F to the end of B, the other half between halves.

    The model states all along.
    """
    result = simulated("pp=4", 6)
    frame, actions = result.to_frame("memory_timeline"), result.to_frame("actions")
    for rank, own in frame.groupby("rank"):
        mine = actions[actions["rank"] == rank].pivot_table("start_seconds", "microbatch", "action")
        ends = actions[actions["rank"] == rank].pivot_table("end_seconds", "microbatch", "action")
        long = ((ends["B"] - mine["F"]) / 2 + (ends["B"] + mine["B"] - ends["F"] - mine["F"]) / 4).sum()
        lasts = np.diff([*own["time_seconds"], result.step_time])
        (place,) = (place for place in result.program.memory if place[0] == result.coordinates[rank]["pp"])
        footprint = result.program.memory[place]
        (each,) = (sum(items.values()) for items in footprint.held.values())
        assert (own["activations_bytes"] * lasts).sum() == pytest.approx(each * long, rel=1e-9)
        still = sum(footprint.resident.values())
        assert (own["total_bytes"] * lasts).sum() == pytest.approx(each * long + still * result.step_time, rel=1e-9)


@pytest.mark.parametrize("plan", ["pp=2 dp=2 tp=2", "fsdp=8", "pp=2,schedule=gpipe dp=4"])
def test_folded_and_unfolded_are_equal(plan):
    folded, unfolded = (simulated(plan, 8, cluster="dgx_h100", fold=fold) for fold in (True, False))
    expanded = folded.to_frame("memory_timeline", expand=True)
    pandas.testing.assert_frame_equal(expanded, unfolded.to_frame("memory_timeline", expand=True))


def test_both_details_hold_the_same_at_nearly_the_same_time():
    ops, actions = (timeline("pp=4", 8, detail=detail) for detail in ("ops", "actions"))
    pandas.testing.assert_frame_equal(ops.drop(columns="time_seconds"), actions.drop(columns="time_seconds"))
    np.testing.assert_allclose(ops["time_seconds"], actions["time_seconds"], rtol=1e-6)


def test_a_step_of_which_the_memory_is_unknown_has_no_lines():
    result = simulate(Program.of(DeviceMesh({"pp": 1}), {(0,): [KERNEL]}), "flat,ranks=1")
    frame = result.to_frame("memory_timeline")
    assert not len(frame)
    assert {"rank", "time_seconds", "microbatches_in_flight", "total_bytes"} <= set(frame)
    assert (result.peak_memory, result.reserved_memory, result.memory_fits) == (0.0, 0.0, True)


# ------------------------------------------------------------------------------------------------ reserved

KERNEL = Compute(name="gemm", kind="gemm", flops=1e12, shape=(4096.0, 4096.0, 4096.0))
ORDER = (
    Replay(BlockKey(0, "F"), 0),
    Replay(BlockKey(0, "F"), 1),
    Replay(BlockKey(0, "B"), 0),
    Replay(BlockKey(0, "B"), 1),
)


def footprint(states: float = 50e9, activations: float = 10e9, working: float = 2e9) -> Footprint:
    return Footprint(
        {Item("optimizer"): states, Item("gathered", "parameters"): 1e9},
        {0: {Item("activations"): activations}},
        {(0, "B"): [{Item("logits"): working}]},
    )


def test_the_margin_is_on_what_comes_and_goes():
    """Two microbatches in flight, what a B needs, and gathered layers; not on the states."""
    found = footprint()
    assert reserved(found, found.peak(ORDER)) == 50e9 + (1 + MARGIN) * (1e9 + 2 * 10e9 + 2e9)


def test_what_is_reserved_decides_whether_it_fits():
    """Between peak and reserved, a step that would fit does not."""
    result = simulate(Made(footprint(states=64e9)), "flat,ranks=1")
    usable = result.usable_memory[0]
    for spare, fits in ((1e6, True), (-1e6, False)):
        states = usable - spare - (1 + MARGIN) * 23e9
        result = simulate(Made(footprint(states)), "flat,ranks=1")
        assert result.reserved_memory == pytest.approx(usable - spare)
        assert result.peak_memory < usable
        assert result.memory_fits == result.to_frame("memory")["fits"].item() == fits
        assert result.to_frame("memory")["reserved_bytes"].item() == result.reserved_memory
    assert f"GB ({usable / 1e9:.1f} GB reserved) of {usable / 1e9:.1f} GB on rank 0: does not fit" in str(result)


# ------------------------------------------------------------------------------------------------ verdict


@dataclass(frozen=True)
class Made:
    """A step of one rank and two microbatches by hand, without any remedies."""

    held: Footprint

    def program(self) -> Program:
        blocks = {key: Block((KERNEL,)) for key, *_ in ORDER}
        return Program(DeviceMesh({"pp": 1}), blocks, {(0,): ORDER}, memory={(0,): self.held})

    def footprints(self):
        return {(0,): self.held}

    def program_orders(self):
        return {(0,): ORDER}


@dataclass(frozen=True)
class Changing(Made):
    """The same with changes, as (text, bytes of a microbatch's activations)."""

    changes: tuple[tuple[str, float], ...] = ()

    def remedies(self):
        for text, activations in self.changes:
            yield text, Made(footprint(activations=activations))


FULL = footprint(activations=40e9)


def memory_line(step) -> str:
    return next(line for line in str(simulate(step, "flat,ranks=1")).splitlines() if "  memory" in line)


def test_the_verdict_names_the_nearest_change_that_fits():
    """50 + 1.02 x (1 + 2 x 4 + 2) = 61.2 GB; what comes later is not asked."""
    step = Changing(FULL, (("recompute=some", 30e9), ("recompute=full", 4e9), ("fsdp=8", 1e9)))
    line = memory_line(step)
    assert "does not fit; the largest row is activations, 80.0 GB; recompute=full fits with 61.2 GB" in line
    assert line.endswith("61.2 GB reserved")


def test_the_verdict_says_what_comes_closest_if_nothing_fits():
    step = Changing(FULL, (("recompute=some", 30e9), ("recompute=more", 23e9), ("fsdp=8", 25e9)))
    assert memory_line(step).endswith("; nothing tried fits; recompute=more comes closest with 100.0 GB reserved")


def test_a_step_without_changes_has_a_plain_verdict():
    for step in (Made(FULL), Changing(FULL)):
        assert memory_line(step).endswith("does not fit; the largest row is activations, 80.0 GB")
    assert nearest(Made(FULL), 85e9) is None


def offers(*args, **options) -> list[str]:
    return [text for text, _ in TrainingStep(*args, **options).remedies()]


def test_a_step_offers_cheap_changes_and_their_combinations_before_dear_ones():
    found = offers(TINY.format(8), "dp=2", 16, 1024, microbatch=8)
    assert found[:3] == ["dp=2,zero=1", "microbatch=4", "dp=2,zero=1 with microbatch=4"]
    assert len(found) == len(set(found)) == 4 * 3 * 4 * 2 - 1
    away = ["offload" in text for text in found]
    assert away == sorted(away)
    assert found[-1] == "fsdp=2 with recompute=full, microbatch=1 and offload=optimizer"


def test_a_step_offers_nothing_that_it_has():
    options = {"batch": 16, "sequence": 1024, "microbatch": 2}
    found = offers(TINY.format(8), "dp=2,zero=1", recompute="full,layers=2", **options)
    single = [text for text in found if " with " not in text]
    assert single == ["microbatch=1", "dp=2,zero=2", "fsdp=2", "recompute=full", "offload=optimizer"]
    assert not any("recompute" in text for text in offers(TINY.format(8), "dp=2", recompute="full,every=4", **options))
    assert offers(TINY.format(8), "fsdp=2", 2, 1024, recompute="full", offload="optimizer") == []


@pytest.mark.parametrize(
    ("plan", "shards"),
    [
        ("dp=4,overlap=off", ["dp=4,zero=1,overlap=off", "dp=4,zero=2", "fsdp=4"]),
        ("dp=4,overlap=on", ["dp=4,zero=1,overlap=on", "dp=4,zero=2,overlap=on", "fsdp=4"]),
        ("dp=4,zero=1,shard=2", ["dp=4,zero=2", "fsdp=4"]),
        ("dp=4,zero=1,gather=broadcast", ["dp=4,zero=2,gather=broadcast", "fsdp=4"]),
    ],
)
@pytest.mark.parametrize("stack", ["megatron_bridge_2025", "megatron_2021", "internlm_2023"])
def test_changes_of_a_plan_keep_what_it_says_and_leave_the_rest_to_the_stack(stack, plan, shards):
    """ZeRO-2 always overlaps and knows no groups; the text of a change is that of its step's plan."""
    found = list(TrainingStep(TINY.format(8), plan, 16, 1024, stack=stack).remedies())
    assert [text for text, _ in found if "dp=" in text and " with " not in text] == shards
    for text, changed in found:
        first = text.split(" ")[0]
        assert str(changed.plan) == (first if "dp=" in first else plan)
        assert ParallelPlan.parse(str(changed.plan)) == changed.plan


@pytest.mark.parametrize(
    ("model", "plan", "options", "change", "followed"),
    [
        (
            "llama3_8b",
            "dp=8",
            {"microbatch": 8, "recompute": "full"},
            "dp=8,zero=1 with microbatch=4",
            {"microbatch": 4},
        ),
        ("llama3_70b", "dp=8", {"recompute": "full"}, "fsdp=8 with offload=optimizer", {"offload": "optimizer"}),
    ],
)
def test_following_the_advice_fits_as_it_said(model, plan, options, change, followed):
    step = TrainingStep(model, plan, 64, 8192, **options)
    result = simulate(step, "dgx_h100")
    assert (result.remedy.change, result.remedy.fits) == (change, True)
    after = simulate(step.replace(plan=change.split(" ")[0], **followed), "dgx_h100")
    assert after.memory_fits
    assert after.reserved_memory == result.remedy.reserved_bytes


def test_a_step_that_fits_is_offered_no_change():
    step = Changing(footprint(), (("recompute=full", 1e9),))
    assert memory_line(step).endswith("fits")
    assert simulate(step, "flat,ranks=1").remedy is None


# ------------------------------------------------------------------------------------------------ recompute


def test_spans_say_which_kernels_recompute():
    again = replace(KERNEL, name="again", recompute=True)
    step = Made(footprint()).program()
    blocks = {**step.blocks, BlockKey(0, "B"): Block((again, KERNEL))}
    for detail in ("ops", "actions"):
        spans = simulate(replace(step, blocks=blocks), "flat,ranks=1", detail=detail).to_frame("spans")
        assert spans["recompute"].dtype == bool
        assert (spans["recompute"] == (spans["name"] == "again")).all()
        assert spans["recompute"].sum() == 2
