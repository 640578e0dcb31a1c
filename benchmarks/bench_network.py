"""What the network model costs by itself: one collective, all measured collectives, routes, pictures."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import topologies
from simulator import plots, time_collective
from simulator.validation import collectives

BYTES = 2**30


@pytest.mark.parametrize("ranks", [8, 1024, 16384])
def test_one_collective(ranks, seconds, report):
    cluster = topologies.build("llama3_cluster", gpus=ranks)
    took = seconds(lambda: time_collective("all_reduce", bytes=BYTES, ranks=range(ranks), topology=cluster))
    report(f"time_collective, all_reduce of {ranks:,} ranks", f"{1e3 * took:.1f} ms", "1 s at 16,384")


def test_validation(seconds, report):
    rows = collectives.validate()[1]["rows"]
    report(f"validate {rows} measured collectives, and refit", f"{seconds(collectives.validate):.1f} s", "10 s")


@pytest.mark.parametrize("text", ["llama3_cluster", "torus,shape=16x20x28,accelerator=tpu_v5p"])
def test_routes(text, seconds, report):
    cluster = topologies.build(text)
    ranks = np.arange(cluster.size)
    took = seconds(lambda: cluster.routes(ranks, np.roll(ranks, 1)))
    report(f"routes of all {cluster.size:,} neighbours, {text}", f"{1e3 * took:.1f} ms", "50 ms")


def test_picture(seconds, report):
    cluster = topologies.build("llama3_cluster")

    def draw():
        axes = plots.draw("topology", cluster)
        axes.figure.draw_without_rendering()
        plt.close(axes.figure)

    report("picture of 24,576 GPUs", f"{seconds(draw):.2f} s", "1 s")
