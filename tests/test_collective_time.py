"""Collectives on real clusters: what is chosen, trends of the real constants, and the front `time_collective`."""

import math

import numpy as np
import pytest
from collective_cases import (
    DOES,
    GIBI,
    KIBI,
    LAYOUTS,
    LEGAL,
    S,
    bytes_on_links,
    exactly,
    flat,
    op,
    seconds,
    servers,
    timed,
)

import topologies
from simulator import collectives
from simulator.collective_time import time_collective
from simulator.fabrics import Fabric, published

# ------------------------------------------------------------------------------------------- auto

LIBRARIES = {
    ("flat", "all_reduce"): {"ring", "tree"},
    ("dgx_h100", "all_reduce"): {"ring", "in_switch"},
    ("dgx_a100", "all_reduce"): {"ring"},
    ("dgx_h100", "all_gather"): {"ring"},
    ("dgx_h100,nodes=2", "all_reduce"): {"ring", "tree", "in_switch_tree"},
    ("dgx_a100,nodes=2", "all_reduce"): {"ring", "tree"},
    ("dgx_h100,nodes=2", "reduce_scatter"): {"ring"},
    ("full_mesh", "all_reduce"): {"ring", "direct"},
    ("torus", "all_reduce"): {"torus"},
    ("dgx_h100", "all_to_all"): {"pairwise"},
    ("dgx_h100,nodes=2", "all_to_all"): {"pairwise", "rail_local"},
    ("dgx_h100", "reduce"): {"broadcast"},
    ("dgx_h100", "send_receive"): {"send_receive"},
}
"""What libraries consider."""


@pytest.mark.parametrize(("cluster", "kind"), LIBRARIES)
def test_auto_is_the_fastest_that_libraries_consider(cluster, kind):
    taken = set()
    for size in (1.0, 64 * KIBI, 2**20, 2**26, GIBI):
        times = {name: timed(kind, size, cluster, algorithm=name).seconds for name in sorted(LIBRARIES[cluster, kind])}
        chosen = timed(kind, size, cluster)
        assert chosen.seconds == times[chosen.algorithm] == min(times.values())
        taken.add(chosen.algorithm)
    assert taken <= LIBRARIES[cluster, kind]


@pytest.mark.parametrize("algorithm", sorted(DOES))
def test_a_named_algorithm_is_the_one_that_is_built(algorithm):
    group, kind = LAYOUTS[sorted(LEGAL[algorithm])[0]], DOES[algorithm][0]
    assert timed(kind, S, group.cluster, group.members, algorithm).algorithm == algorithm


# ------------------------------------------------------------------------------------------- real constants

REAL = (
    *("dgx_h100", "dgx_h100,nodes=2", "dgx_h100,nodes=4", "dgx_b200", "gb200_nvl72,gpus_per_rack=36", "full_mesh"),
    *("torus,shape=2x4x4", "rail_optimized,nodes=3,nodes_per_unit=2", "ethernet,nodes=2", "dgx_a100,nodes=2"),
    *("dgx_h100,nodes=2,nics=2", "pcie_box,nodes=2,transport=infiniband"),
)
SIZES = [2.0**power for power in range(0, 37, 2)]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("cluster", REAL)
@pytest.mark.parametrize("algorithm", [*sorted(DOES), "auto"])
def test_every_size_has_a_time_that_grows_with_it(algorithm, cluster):
    """Positive and finite; twice the bytes take longer, but never more than twice as long."""
    topology = topologies.build(cluster)
    for kind in DOES[algorithm][:1] if algorithm != "auto" else collectives.KINDS:
        try:
            timed(kind, 1.0, topology, algorithm=algorithm)
        except ValueError:
            return
        once, twice = (
            np.array([timed(kind, factor * size, topology, algorithm=algorithm).seconds for size in SIZES])
            for factor in (1, 2)
        )
        assert (once > 0).all()
        assert np.isfinite(twice).all()
        assert (once <= twice).all()
        assert (twice[:-1] <= once[1:]).all()
        assert (twice <= 2 * once * (1 + 1e-12)).all()


@pytest.mark.parametrize("cluster", ["dgx_h100,nodes=2", "full_mesh", "dgx_a100,nodes=2"])
def test_a_few_numbers_are_latency_alone(cluster):
    """8 bytes on a real fabric load no link, and take as long but for their nanoseconds there."""
    topology = topologies.build(cluster)
    whole = timed("all_reduce", 8.0, topology).activity
    light = whole.as_latency(topology)
    assert light.seconds(topology) == pytest.approx(whole.seconds(topology), rel=1e-3)
    assert bytes_on_links(whole, topology).any()
    assert not bytes_on_links(light, topology).any()


def test_on_ideal_links_a_few_numbers_are_bytes():
    topology = flat(4, bandwidth=1.0)
    whole = timed("all_reduce", 8.0, topology).activity
    assert whole.as_latency(topology).seconds(topology) == whole.seconds(topology) == exactly(2 * 3 / 4 * 8.0)


def test_65536_bytes_have_a_time():
    for name in topologies.names():
        topology = topologies.build(name)
        ranks = range(min(16, topology.size))
        assert 0 < timed("all_reduce", 65536, topology, ranks).seconds < 1


def test_four_nodes_of_b200_on_efa_against_one():
    """All-reduce from 8 to 32 GPUs: 2.0 to 2.6 times slower at 4 GiB, 6 to 11 times at 256 KiB."""
    cluster = topologies.build("dgx_b200,nodes=4,transport=efa")
    for size, least, most in ((4 * GIBI, 2.0, 2.6), (256 * KIBI, 6, 11)):
        one, four = (timed("all_reduce", size, cluster, range(ranks)).seconds for ranks in (8, 32))
        assert least < four / one < most


def test_host_software_costs_every_step_across_the_network():
    """8 bytes once round 4 single-member nodes: 3 steps, each with the software of EFA, beside hops of its switches."""
    efa, roce = (topologies.build(f"dgx_h100,nodes=4,transport={transport}") for transport in ("efa", "roce"))
    times = [timed("all_gather", 8.0, each, range(0, 32, 8)).seconds for each in (efa, roce)]
    assert times[0] - times[1] == pytest.approx(3 * published().fabric("efa", "H100-SXM5").software_step, rel=1e-9)


@pytest.mark.parametrize(("transport", "lone"), [("infiniband", False), ("roce", True), ("slingshot", False)])
def test_a_single_ring_falls_short_on_ethernet(transport, lone):
    """4 GiB round 4 nodes, one member each: the share of the card that a single ring reaches, by class of transport."""
    cluster = topologies.build(f"dgx_h100,nodes=4,transport={transport}")
    fabric = published().fabric(transport, "H100-SXM5")
    reached = timed("all_gather", 4 * GIBI, cluster, range(0, 32, 8)).busbw / 50e9
    assert (fabric.lone_share < fabric.share) == lone
    assert reached == pytest.approx(fabric.lone_share, rel=0.01)


def test_rings_of_many_nodes_are_slower():
    """Reduce-scatter of 8 GiB from 4 to 128 H100 nodes: bus bandwidth falls all the way, by more than 15 %."""
    cluster = topologies.build("dgx_h100,nodes=128")
    rates = [timed("reduce_scatter", 8 * GIBI, cluster, range(8 * nodes)).busbw for nodes in (4, 8, 16, 32, 64, 128)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.85 * rates[0]


def test_a_tree_over_two_nodes_is_twice_as_fast():
    """Four of each node's A100, so that cards decide: a host is root of one tree or leaf of the other, not both."""
    cluster = topologies.build("dgx_a100,nodes=8")
    done = {
        nodes: timed("all_reduce", 16 * GIBI, cluster, [8 * n + k for n in range(nodes) for k in range(4)], "tree")
        for nodes in (2, 4, 8)
    }
    assert done[2].algbw == pytest.approx(2 * done[4].algbw, rel=0.01)
    assert done[4].algbw == pytest.approx(done[8].algbw, rel=0.01)


def test_hash_collisions_collapse_two_leaves():
    """Eight nodes of H100 on two leaves: with ECMP some seed more than 1.5 times slower than on one; sprayed, none."""
    one = timed("all_reduce", 8 * GIBI, "fat_tree,nodes=8,nodes_per_leaf=8", algorithm="ring").busbw
    two = "fat_tree,nodes=8,nodes_per_leaf=4"
    hashed = [
        timed("all_reduce", 8 * GIBI, f"{two},routing=ecmp,seed={seed}", algorithm="ring").busbw for seed in range(8)
    ]
    assert one / min(hashed) > 1.5
    assert timed("all_reduce", 8 * GIBI, two, algorithm="ring").busbw == pytest.approx(one, rel=0.01)


def test_ethernet_collapses():
    """Eight servers of 8 A100: InfiniBand against one 10 Gb/s card a server."""
    infiniband, ethernet = (timed("all_reduce", GIBI, f"{name},nodes=8").seconds for name in ("dgx_a100", "ethernet"))
    assert ethernet > 10 * infiniband


# ------------------------------------------------------------------------------------------- time_collective


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ranks": [0, 8]}, "rank 8 is not on flat.*: its ranks are 0 to 7"),
        ({"ranks": [-1, 0]}, "rank -1 is not on flat"),
        ({"ranks": [3]}, "all_reduce among 1 ranks; a collective takes 2 or more"),
        ({"ranks": []}, "all_reduce among 0 ranks; a collective takes 2 or more"),
        ({"ranks": [1, 2, 1]}, "rank 1 takes part twice in the all_reduce among 3 ranks"),
        ({"ranks": [0.5, 1]}, "ranks are .* whole numbers"),
        ({"bytes": 0}, "bytes=0: .* more than 0 bytes"),
        ({"bytes": -1.0}, "bytes=-1.0: .* more than 0 bytes"),
        ({"bytes": math.nan}, "bytes=nan"),
        ({"bytes": math.inf}, "bytes=inf"),
        ({"bytes": "1 MB"}, "bytes=1 MB"),
        ({"kind": "allreduce"}, "unknown kind of collective 'allreduce'; did you mean all_reduce"),
        ({"algorithm": "rings"}, "unknown collective algorithm 'rings'; did you mean ring"),
        ({"algorithm": "hierarchical"}, "hierarchical needs two hosts or more .* two or more, on each"),
        ({"algorithm": "pairwise"}, "pairwise does not do all_reduce"),
        ({"topology": "flaat"}, "unknown topology 'flaat'; did you mean flat"),
    ],
)
def test_wrong_input_is_an_error_in_one_line(changes, why):
    given_input = {"kind": "all_reduce", "bytes": 1e6, "ranks": range(8), "topology": "flat", **changes}
    with pytest.raises(ValueError, match=f"^{why}") as caught:
        time_collective(given_input.pop("kind"), **given_input)
    assert "\n" not in str(caught.value)


def test_a_text_names_the_topology():
    assert (
        timed("all_reduce", 1e6, "dgx_h100").seconds == timed("all_reduce", 1e6, topologies.build("dgx_h100")).seconds
    )


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        *(("all_reduce", 1.75), ("all_gather", 0.875), ("reduce_scatter", 0.875), ("all_to_all", 0.875)),
        *(("broadcast", 1), ("reduce", 1), ("send_receive", 1)),
    ],
)
def test_bus_bandwidth(kind, factor):
    """That of nccl-tests among 8 ranks; on ideal ports it is the port's, whatever the kind."""
    done = timed(kind, S, flat(8), algorithm={"all_reduce": "ring"}.get(kind, "auto"))
    assert done.algbw == exactly(S / done.seconds)
    assert done.busbw == exactly(factor * done.algbw) == exactly(50e9)


def test_one_activity_covers_many_groups():
    """Equal groups have the times that each has alone."""
    cluster = servers(4, 4)
    groups = np.arange(8).reshape(4, 2)
    for algorithm in ("ring", "direct", "in_switch"):
        together = collectives.build(algorithm, op("all_reduce", S), groups, cluster).seconds(cluster)
        alone = [seconds(algorithm, "all_reduce", cluster, ranks=group) for group in groups]
        assert together.tolist() == alone


def test_omni_path_has_a_share_of_its_own_and_the_times_of_infiniband():
    """Jean Zay: nodes of 8 A100 and 4 cards of 100 Gb/s. Large rings go with their shares, small ones take as long."""
    times = {
        (transport, size): time_collective(
            "all_gather",
            bytes=size,
            ranks=range(0, 128, 8),
            topology=f"dgx_a100,nodes=16,nics=4,nic_gbit=100,transport={transport}",
        ).seconds
        for transport in ("omnipath", "infiniband")
        for size in (2**33, 64)
    }
    assert times["omnipath", 2**33] / times["infiniband", 2**33] == pytest.approx(0.9 / 0.413, rel=0.02)
    assert times["omnipath", 64] / times["infiniband", 64] == pytest.approx(1, rel=0.02)
    slow, fast = (published().fabric(kind, "A100-SXM4-80GB") for kind in ("omnipath", "infiniband"))
    different = {name for name in Fabric.__dataclass_fields__ if getattr(slow, name) != getattr(fast, name)}
    assert "share" in different
    assert all(name.endswith("share") for name in different)
