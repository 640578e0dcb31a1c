"""Folding and short cuts change nothing: whole steps on random plans, clusters and faults."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from simulator import simulate
from workloads import TrainingStep

SMALL = "llama3_8b,layers=6,hidden=1024,heads=16,kv_heads=8,head_dim=64,ffn=4096,vocab=4096"


@st.composite
def plans(draw):
    """Any order of axes, at most 16 ranks, with the options that move work about."""
    options = {
        "pp": st.sampled_from(["", ",schedule=gpipe", ",schedule=interleaved,virtual=2"]),
        "dp": st.sampled_from(
            ["", ",zero=1", ",overlap=off", ",bucket=1e6", ",zero=1,shard=2", ",zero=1,shard=2,gather=broadcast"]
        ),
        "fsdp": st.sampled_from(["", ",reshard=off", ",prefetch=2"]),
        "tp": st.sampled_from(["", ",sp=off", ",overlap=on"]),
    }
    axes = draw(st.permutations(["pp", draw(st.sampled_from(["dp", "fsdp"])), "tp"]))
    degrees = draw(st.sampled_from([(2, 2, 2), (4, 2, 1), (2, 4, 2), (2, 2, 4), (1, 4, 4), (1, 2, 4), (2, 4, 1)]))
    parts = [
        f"{axis}={degree}" + (draw(options[axis]) if degree > 1 else "")
        for axis, degree in zip(axes, degrees, strict=True)
    ]
    return " ".join(parts)


@st.composite
def clusters(draw, ranks):
    """A cluster of so many ranks, with up to two faults."""
    kinds = [
        f"flat,ranks={ranks},bandwidth=5e9",
        f"flat,ranks={ranks}",
        f"dgx_h100,nodes={ranks // 8}",
        f"llama3_cluster,gpus={ranks}",
    ]
    cluster = topologies.build(draw(st.sampled_from(kinds)))
    for _ in range(draw(st.integers(0, 2))):
        if draw(st.booleans()):
            cluster = cluster.degrade(rank=draw(st.integers(0, ranks - 1)), compute=draw(st.sampled_from([0.5, 0.9])))
        else:
            cluster = cluster.degrade(link=draw(st.sampled_from(cluster.links.ends)), bandwidth=0.5)
    return cluster


def times(result):
    """Start, transfer and end of every op of every rank, in program order."""
    frame = result.to_frame("spans", expand=True)
    frame = frame.sort_values(["rank", "stream", "stage", "action", "microbatch", "name"], kind="stable")
    return frame[["start_seconds", "began_seconds", "end_seconds"]].to_numpy()


def accounts(result):
    """Where each rank's time went."""
    return result.to_frame("ranks", expand=True).filter(regex="_seconds$").sort_index(axis=1).to_numpy()


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_folding_and_short_cuts_change_nothing(data):
    """Folded and unfolded runs are equal to the bit; short cuts, which shift templates, to 1e-9."""
    step = TrainingStep(SMALL, data.draw(plans()), batch=16, sequence=256)
    cluster = data.draw(clusters(step.plan.world_size))
    folded, unfolded = (simulate(step, cluster, fold=fold, shortcuts=False) for fold in (True, False))
    assert np.array_equal(times(folded), times(unfolded))
    short = simulate(step, cluster)
    assert times(short) == pytest.approx(times(folded), rel=1e-9, abs=1e-12)
    assert accounts(short) == pytest.approx(accounts(folded), rel=1e-9, abs=1e-9 * folded.step_time)


FAMILIES = (
    "fat_tree,nodes={nodes},nodes_per_leaf=1,routing=ecmp",
    "rail_optimized,nodes={nodes}",
    "rail_optimized,nodes={nodes},nodes_per_unit=1,pxn=off,oversubscription=3",
    "hpn,nodes={nodes}",
    "full_mesh,nodes={nodes},accelerator=mi300x",
    "torus,shape={ranks}x1",
    "torus,shape=4x{quarter}",
    "dgx_a100,nodes={nodes},nics=4,oversubscription=2",
    "ethernet,nodes={nodes}",
    "gb200_nvl72,racks=2,gpus_per_rack={half}",
)
NAMED = ("auto", "ring", "tree", "recursive", "hierarchical", "direct")


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_folding_is_exact_on_any_network(data):
    """To the bit, with hash collisions, rails, tori, meshes, shared cards, and any algorithm."""
    step = TrainingStep(SMALL, data.draw(plans()), batch=16, sequence=256)
    ranks = step.plan.world_size
    text = data.draw(st.sampled_from(FAMILIES))
    cluster = topologies.build(text.format(ranks=ranks, nodes=ranks // 8, half=ranks // 2, quarter=ranks // 4))
    if data.draw(st.booleans()):
        cluster = cluster.degrade(link=data.draw(st.sampled_from(cluster.links.ends)), bandwidth=0.5)
    kinds = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), data.draw(st.sampled_from(NAMED)))
    options = {"algorithms": kinds, "shortcuts": False}
    folded, unfolded = (simulate(step, cluster, fold=fold, **options) for fold in (True, False))
    assert np.array_equal(times(folded), times(unfolded))


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_actions_fold_too(data):
    """`actions` folds as exactly as `ops`; how close the two come is for steps whose traffic stays apart to show."""
    step = TrainingStep(SMALL, data.draw(plans()), batch=16, sequence=256)
    cluster = data.draw(clusters(step.plan.world_size))
    folded, unfolded = (simulate(step, cluster, fold=fold, detail="actions").step_time for fold in (True, False))
    assert folded == pytest.approx(unfolded, rel=1e-9)
