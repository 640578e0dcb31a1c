"""What size and asymmetry cost: replicas, a straggler and a weak link."""

import pytest

import topologies
from simulator import simulate
from workloads import TrainingStep

PIPELINE = "pp=16,schedule=interleaved,virtual=8"
REPLICA = 16 * 8  # GPUs
MICROBATCHES = 16


def run(replicas):
    """Llama 3 405B with so many replicas, each with the same microbatches, on as many GPUs as they take."""
    plan = f"{PIPELINE} dp={replicas},zero=1 tp=8"
    step = TrainingStep("llama3_405b", plan=plan, batch=MICROBATCHES * replicas, sequence=8192)
    return step, topologies.build("llama3_cluster", gpus=REPLICA * replicas)


def test_replicas(report):
    few, many, most = (_best(*run(replicas)) for replicas in (8, 128, 1024))
    for replicas, result, target in ((128, many, 1.5), (1024, most, 10)):
        ratio = result.timings["replay"] / few.timings["replay"]
        classes = f"{few.rank_classes} and {result.rank_classes} classes"
        report(f"replay, dp={replicas} against dp=8", f"{ratio:.1f}x ({classes})", f"{target}x")


@pytest.mark.parametrize("replicas", [8, 128, 1024])
def test_fold(replicas, report):
    result = simulate(*run(replicas), detail="actions")
    report(f"fold of {REPLICA * replicas:,} ranks", f"{result.timings['fold']:.2f} s", "about n log n")


@pytest.mark.parametrize(("detail", "target"), [("ops", "5 s"), ("actions", "1 s")])
def test_a_straggler_and_a_weak_link(detail, target, report):
    step, cluster = run(192)
    source, switch = cluster.links.ends[cluster.routes([4003], [20000])[1][0]]
    cluster = cluster.degrade(rank=13, compute=0.8).degrade(link=(source, switch), bandwidth=0.5)
    result = simulate(step, cluster, detail=detail)
    figure = f"{_wall(result):.1f} s ({result.rank_classes} classes, {result.timeline.ops_replayed:,} ops)"
    report(f"24,576 GPUs, one straggler, one weak link, {detail}", figure, target)


def _best(step, cluster):
    """The fastest replay of three."""
    return min((simulate(step, cluster) for _ in range(3)), key=lambda result: result.timings["replay"])


def _wall(result):
    return sum(result.timings.values())
