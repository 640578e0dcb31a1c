"""Routes: walks through the graph, by the lowest shared switch or the shortest path."""

import os
import subprocess
import sys
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from cluster_names import EVERY, built
from hypothesis import given
from hypothesis import strategies as st

import topologies
from topologies.units import MICRO

LLAMA3 = topologies.build("llama3_cluster,gpus=6160")  # two pods and one rack of a third
HIERARCHIES = [LLAMA3, *map(topologies.build, ["dgx_h100,nodes=3", "dgx_a100,nodes=2", "flat,ranks=5"])]
SHORTEST = [
    "dgx_h100,nodes=3,nics=2,oversubscription=2",
    "gb200_nvl72,racks=2,gpus_per_rack=8",
    "rail_optimized,nodes=4,nodes_per_unit=2,pxn=off",
    "fat_tree,nodes=8,levels=3,nodes_per_leaf=2,leaves_per_pod=2",
    "full_mesh,nodes=2",
    "pcie_box,gpus=6,nodes=2",
    "torus,shape=3x5x2",
    "torus,shape=4x3x6",
    "torus,shape=2x2x2x2",
]


def ends(topology, sources, destinations):
    """The routes of some pairs as lists of (from, to)."""
    pair, link = topology.routes(sources, destinations)
    assert (np.diff(pair) >= 0).all()
    return [[topology.links.ends[index] for index in link[pair == each]] for each in range(len(sources))]


def check_walk(topology, source, destination, hops):
    """Hops start at the source, each begins where the last one ended, and they end at the destination."""
    stops = [topology.devices[source], *(stop for _, stop in hops)]
    assert [begin for begin, _ in hops] == stops[:-1]
    assert stops[-1] == topology.devices[destination]


@st.composite
def pairs(draw):
    cluster = draw(st.sampled_from(HIERARCHIES))
    ranks = st.integers(0, cluster.size - 1)
    chosen = draw(st.lists(st.tuples(ranks, ranks), min_size=1, max_size=8))
    return cluster, [source for source, _ in chosen], [destination for _, destination in chosen]


@given(pairs())
def test_hierarchical_routes_are_walks(case):
    cluster, *ranks = case
    for source, destination, hops in zip(*ranks, ends(cluster, *ranks), strict=True):
        check_walk(cluster, source, destination, hops)


@given(pairs())
def test_servers_talk_inside_over_nvlink_and_outside_over_cards(case):
    cluster, sources, destinations = case
    for source, destination in zip(sources, destinations, strict=True):
        kinds = {link.kind for link in cluster.route(source, destination)}
        if source == destination:
            assert not kinds
        elif cluster.hosts[source] == cluster.hosts[destination]:
            assert kinds == {"nvlink"}
        else:
            assert "nvlink" not in kinds


@st.composite
def anywhere(draw):
    cluster = built(draw(st.sampled_from(EVERY)))
    ranks = st.integers(0, cluster.size - 1)
    return cluster, draw(ranks), draw(ranks)


@given(anywhere())
def test_routes_of_every_family_are_walks_of_its_graph(case):
    cluster, source, destination = case
    pair, link = cluster.routes([source, destination], [destination, source])
    there, back = link[pair == 0], link[pair == 1]
    assert len(there) == len(back)
    stops = [cluster.links.nodes.index(cluster.devices[source]), *cluster.links.heads[there].tolist()]
    assert cluster.links.tails[there].tolist() == stops[:-1]
    assert cluster.links.nodes[stops[-1]] == cluster.devices[destination]
    assert len(set(stops)) == len(stops)
    assert all(cluster.graph.has_edge(*cluster.links.ends[each]) for each in link)


@pytest.mark.parametrize("name", EVERY)
def test_many_pairs_are_routed_as_each_alone(name):
    cluster = built(name)
    ranks = np.arange(0, cluster.size, max(1, cluster.size // 50))
    sources, destinations = ranks, ranks[::-1]
    pair, link = cluster.routes(sources, destinations)
    assert (np.diff(pair) >= 0).all()
    for each in range(0, len(ranks), 7):
        assert link[pair == each].tolist() == cluster.routes([sources[each]], [destinations[each]])[1].tolist()


@pytest.mark.parametrize("name", SHORTEST)
def test_arithmetic_finds_paths_as_short_as_a_search(name):
    cluster = built(name)
    lengths = dict(nx.all_pairs_shortest_path_length(cluster.graph))
    sources, destinations = (place.ravel() for place in np.indices((cluster.size, cluster.size)))
    pair, _ = cluster.routes(sources, destinations)
    found = np.bincount(pair, minlength=len(sources)).tolist()
    names = cluster.devices
    assert found == [lengths[names[one]][names[other]] for one, other in zip(sources, destinations, strict=True)]


def test_the_lowest_shared_switch_decides():
    hops = ends(LLAMA3, [0, 0, 0, 0, 0], [0, 7, 8, 16, 6159])
    assert hops[0] == []
    assert hops[1] == [("gpu0", "nvswitch0"), ("nvswitch0", "gpu7")]
    assert hops[2] == [("gpu0", "rack0"), ("rack0", "gpu8")]
    assert hops[3] == [("gpu0", "rack0"), ("rack0", "pod0"), ("pod0", "rack1"), ("rack1", "gpu16")]
    stops = ["gpu0", "rack0", "pod0", "spine0", "pod2", "rack384", "gpu6159"]
    assert hops[4] == list(pairwise(stops))


@pytest.mark.parametrize("cluster", HIERARCHIES[1:], ids=str)
def test_levels_are_the_shortest_paths_of_the_graph(cluster):
    sources, destinations = (place.ravel() for place in np.indices((cluster.size, cluster.size)))
    by_search = topologies.from_graph(cluster.graph)
    assert ends(cluster, sources, destinations) == ends(by_search, sources, destinations)


def test_latency_of_a_route_is_the_sum_of_its_hops():
    """Two cards, two PCIe passages and one switch (rack), three (pod) or five (spine)."""
    for destination, switches in [(8, 1), (16, 3), (6159, 5)]:
        latency = sum(link.latency for link in LLAMA3.route(0, destination))
        assert latency == pytest.approx((2 * 1.0 + 2 * 0.5 + switches * 0.8) * MICRO)


@pytest.mark.parametrize(("shift", "share"), [(1, 50e9), (8, 50e9), (16, 50e9), (3072, 50e9 / 7)])
def test_all_gpus_sending_at_once_get_full_rate_except_between_pods(shift, share):
    """Each sends `shift` ranks on; the most loaded link decides: a card, or a pod's uplink with 1/7 of its cards."""
    cluster = topologies.build("llama3_cluster,gpus=6144")
    ranks = np.arange(cluster.size)
    _, link = cluster.routes(ranks, (ranks + shift) % cluster.size)
    load = np.bincount(link, minlength=len(cluster.links))
    assert (cluster.links.bandwidth[load > 0] / load[load > 0]).min() == pytest.approx(share)


@st.composite
def networks(draw):
    """Connected graphs with a few latencies, so that equal paths are common; every second node is a device."""
    size = draw(st.integers(2, 9))
    graph = nx.path_graph(size, create_using=draw(st.sampled_from([nx.Graph, nx.DiGraph])))
    graph.add_edge(size - 1, 0)
    node = st.integers(0, size - 1)
    graph.add_edges_from(edge for edge in draw(st.lists(st.tuples(node, node), max_size=12)) if edge[0] != edge[1])
    for *_, edge in graph.edges(data=True):
        edge.update(bandwidth=1e9, latency=draw(st.sampled_from([0.25, 0.5, 1.0])))
    for place in range(0, size, 2):
        graph.nodes[place]["device"] = True
    return graph


@given(networks())
def test_searched_routes_have_fewest_links_then_least_latency(graph):
    cluster = topologies.from_graph(graph)
    sources, destinations = (place.ravel() for place in np.indices((cluster.size, cluster.size)))
    costs = dict(nx.all_pairs_dijkstra_path_length(graph, weight=lambda u, v, edge: 1000 + edge["latency"]))
    for source, destination, hops in zip(sources, destinations, ends(cluster, sources, destinations), strict=True):
        check_walk(cluster, source, destination, hops)
        cost = sum(1000 + graph.edges[hop]["latency"] for hop in hops)
        assert cost == costs[cluster.devices[source]][cluster.devices[destination]]


def test_equal_paths_go_by_the_order_of_the_graph_not_by_hashes():
    code = """if True:
        import networkx as nx, topologies
        graph = nx.complete_multipartite_graph(3, 5)
        names = {node: f"node {node}" for node in graph}
        nx.set_node_attributes(graph, {node: node < 3 for node in graph}, "device")
        nx.set_edge_attributes(graph, 1e9, "bandwidth")
        cluster = topologies.from_graph(nx.relabel_nodes(graph, names))
        print([cluster.links.ends[link] for link in cluster.routes([0, 1, 2], [1, 2, 0])[1]])
    """
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in "12"
    }
    (output,) = outputs
    assert output.decode().count("node 3") == 2 * 3


@given(st.integers(0, 7), st.integers(1, 7))
def test_degraded_clusters_keep_their_routes(rank, shift):
    cluster = topologies.from_graph(topologies.build("dgx_h100").graph)
    slow = cluster.degrade(rank=rank, compute=0.5, link=(f"gpu{rank}", "nvswitch0"), bandwidth=0.1)
    assert ends(cluster, [rank], [(rank + shift) % 8]) == ends(slow, [rank], [(rank + shift) % 8])


@pytest.mark.parametrize(
    ("sources", "destinations", "message"),
    [
        ([0, 1], [2], "2 sources but 1 destinations"),
        ([0], [5], "rank 5 is not on flat,.*: its ranks are 0 to 4"),
        ([-1], [0], "rank -1 is not on flat"),
        ([0.5], [0], "ranks are a flat list of whole numbers"),
        (0, 1, "ranks are a flat list of whole numbers"),
    ],
)
def test_impossible_pairs_fail_in_one_line(sources, destinations, message):
    with pytest.raises(ValueError, match=message):
        HIERARCHIES[-1].routes(sources, destinations)


def test_no_pairs_have_no_links():
    for cluster in (HIERARCHIES[-1], topologies.from_graph(HIERARCHIES[-1].graph)):
        assert [array.tolist() for array in cluster.routes([], [])] == [[], []]
