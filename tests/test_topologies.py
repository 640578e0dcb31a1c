"""Cluster families, graphs of the user's own, degradations: what a topology says about itself."""

import math
import pickle
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from cluster_names import EVERY, VARIANTS, built
from hypothesis import given
from hypothesis import strategies as st

import topologies
from topologies import Link, accelerators


@pytest.fixture(params=EVERY)
def family(request):
    return built(request.param)


@pytest.fixture
def servers():
    return topologies.build("dgx_h100", nodes=2)


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, topologies; topologies.names(); sys.exit(bool({'numpy', 'networkx'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_name_is_the_text_that_builds_it(family):
    again = topologies.build(family.name)
    assert again.name == family.name
    assert again.devices == family.devices
    assert again.grid == family.grid
    assert again.links.ends == family.links.ends
    assert np.array_equal(again.links.bandwidth, family.links.bandwidth)
    ranks = np.arange(family.size)
    assert again.routes(ranks, ranks[::-1])[1].tolist() == family.routes(ranks, ranks[::-1])[1].tolist()


@pytest.mark.parametrize("text", VARIANTS)
def test_names_say_no_more_than_needed(text):
    assert set(topologies.build(text).name.split(",")) == set(text.split(","))


def test_links_are_the_graph_edges_both_ways(family):
    edges = {(u, v): link for u, v, link in family.graph.edges(data="link")}
    edges |= {(v, u): link for (u, v), link in edges.items()}
    assert {end: family.links[index] for index, end in enumerate(family.links.ends)} == edges
    assert len(family.links) == 2 * family.graph.number_of_edges()


def test_tails_and_heads_are_the_ends(family):
    links = family.links
    assert links.nodes == tuple(family.graph)
    assert links.nodes[: family.size] == family.devices
    ends = zip(links.tails.tolist(), links.heads.tolist(), strict=True)
    assert [(links.nodes[tail], links.nodes[head]) for tail, head in ends] == list(links.ends)


def test_description_is_one_line_of_what_it_is(family):
    text = family.description
    assert "\n" not in text
    assert text.startswith(f"{family.size} {family.accelerators[0].name} ")
    assert all(f" {kind} " in text for kind in family.links.kinds)


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("dgx_h100,nodes=2", "16 H100-SXM5 in 2 nodes; nvlink 450 GB/s; infiniband 8 × 400 Gb/s a node"),
        ("ethernet", "64 A100-SXM4-80GB in 8 nodes; nvlink 300 GB/s; pcie 32 GB/s; ethernet 10 Gb/s a node"),
        ("gb300_nvl72", "72 GB300 in 1 node; nvlink 900 GB/s; infiniband 72 × 800 Gb/s a node"),
        ("full_mesh", "8 MI300X in 1 node; xgmi 7 × 64 GB/s; roce 8 × 400 Gb/s a node"),
        ("torus,shape=4x4,accelerator=trainium2", "16 Trainium2 on a torus of 4x4; neuronlink 4 × 128 GB/s"),
        (
            "hpn,nodes=2,routing=ecmp",
            "16 H800-SXM in 2 nodes; nvlink 200 GB/s; roce 16 × 200 Gb/s a node; fabric 46.88 GB/s",
        ),
    ],
)
def test_descriptions(text, description):
    assert topologies.build(text).description == description


def test_every_link_can_be_degraded(family):
    end = family.links.ends[-1] if len(family.links) else None
    if end:
        weak = family.degrade(link=end, bandwidth=0.5)
        assert np.flatnonzero(weak.links.bandwidth != family.links.bandwidth).tolist() == [len(family.links) - 1]
        assert weak.description == family.description


def test_every_family_pickles_without_its_cache(family):
    family.cache["something"] = object
    again = pickle.loads(pickle.dumps(family))
    assert again.cache == {}
    assert again.routes([0], [family.size - 1])[1].tolist() == family.routes([0], [family.size - 1])[1].tolist()


def test_compiled_arrays_cannot_be_written(family):
    links = family.links
    for array in (links.bandwidth, links.latency, links.codes, links.tails, links.heads, family.speeds, family.hosts):
        assert not array.flags.writeable


@pytest.mark.parametrize(("name", "nvlink", "card"), [("dgx_h100", 450e9, 400e9 / 8), ("dgx_a100", 300e9, 200e9 / 8)])
def test_dgx_servers_have_eight_gpus_and_a_card_each(name, nvlink, card):
    cluster = topologies.build(f"{name},nodes=3")
    assert np.bincount(cluster.hosts).tolist() == [8, 8, 8]
    assert cluster.route(8, 15) == [Link("nvlink", nvlink, 0.3e-6)] * 2
    assert [link.bandwidth for link in cluster.route(0, 8)] == [card, card]


def test_llama3_cluster_has_eight_pods_of_192_racks():
    cluster = topologies.build("llama3_cluster")
    kinds = nx.get_node_attributes(cluster.graph, "device")
    assert cluster.size == len(kinds) == 8 * 192 * 2 * 8 == 24_576
    assert sum(str(node).startswith("rack") for node in cluster.graph) == 8 * 192
    assert cluster.graph.edges["rack5", "pod0"]["link"].bandwidth == 16 * 50e9
    assert cluster.graph.edges["pod7", "spine0"]["link"].bandwidth == 3072 * 50e9 / 7


def test_partly_used_pod_keeps_its_uplinks_in_proportion():
    cluster = topologies.build("llama3_cluster,gpus=16384")
    assert 16_384 == 5 * 3072 + 1024
    assert cluster.graph.edges["pod4", "spine0"]["link"].bandwidth == 3072 * 50e9 / 7
    assert cluster.graph.edges["pod5", "spine0"]["link"].bandwidth == 1024 * 50e9 / 7
    assert topologies.build("llama3_cluster,gpus=24").graph.edges["rack1", "pod0"]["link"].bandwidth == 8 * 50e9


def test_flat_takes_free_links_and_ideal_devices():
    cluster = topologies.build("flat", ranks=4, bandwidth=math.inf, latency=0.5, accelerator="ideal")
    assert cluster.route(1, 2) == [Link("port", math.inf, 0.5)] * 2
    assert cluster.hosts.tolist() == [0, 1, 2, 3]
    assert cluster.accelerators == (accelerators.build("ideal"),) * 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dgx_h100,nodes=0", "nodes=0 is not a whole number from 1 to 131072; nearest: 1"),
        ("dgx_a100,nodes=-1", "nodes=-1 is not a whole number"),
        ("dgx_h100,nodes=2.5", "nodes=2.5 .* nearest: 2, 3"),
        ("dgx_h100,nodes=many", "nodes=many is not a whole number"),
        ("dgx_h100,nodes=on", "nodes=True is not a whole number"),
        ("dgx_h100,node=2", "unknown option of dgx_h100 'node'; did you mean nodes"),
        ("llama3_cluster,gpus=12", "gpus=12 is not a multiple of 8 from 8 to 1048576; nearest: 8, 16"),
        ("llama3_cluster,gpus=1e12", "nearest: 1048576"),
        ("lama3_cluster", "unknown topology 'lama3_cluster'; did you mean llama3_cluster"),
        ("flat,ranks=0", "ranks=0 is not a whole number from 1"),
        ("flat,bandwidth=0", "bandwidth=0: bytes/s must be at least 1"),
        ("flat,bandwidth=fast", "bandwidth=fast: bytes/s must be at least 1"),
        ("flat,bandwidth=nan", "bandwidth=nan"),
        ("flat,latency=inf", "latency=inf: seconds must be between 0 and"),
        ("flat,accelerator=h10", "did you mean h100"),
        ("dgx_h100,nics=3", "nics=3 of 8 GPUs: cards of a node are 1, 2, 4 or a multiple of 8"),
        ("dgx_h100,gpus_per_node=3", "gpus_per_node=3 of 8 GPUs: used are all 8, or 1, 2, 4 of them"),
        ("ethernet,gpus_per_node=16", "gpus_per_node=16 is not a whole number from 1 to 8; nearest: 8"),
        ("hpn,gpus_per_node=on", "gpus_per_node=True is not a whole number from 1 to 8"),
        ("gb200_nvl72,gpus_per_node=2", "unknown option of gb200_nvl72 'gpus_per_node'; did you mean gpus_per_rack"),
        ("dgx_h100,nics=0", "nics=0 is not a whole number from 1"),
        ("dgx_h100,nic_gbit=0", "nic_gbit=0 is not a number of at least 0.001"),
        ("dgx_h100,nic_gbit=on", "nic_gbit=True is not a number"),
        ("dgx_h100,oversubscription=0.5", "oversubscription=0.5 is not a number of at least 1"),
        ("dgx_h100,transport=tcp", "unknown transport 'tcp'; did you mean tcpx"),
        ("dgx_h100,nvlink_bandwidth=-1", "bandwidth=-1: bytes/s must be at least 1"),
        ("dgx_b200,accelerator=b20", "unknown accelerator 'b20'; did you mean b200"),
        ("gb200_nvl72,gpus_per_rack=6", "gpus_per_rack=6 is not a multiple of 4 from 4 to 72; nearest: 4, 8"),
        ("gb200_nvl72,racks=1e9", "racks=1000000000.0 is not a whole number from 1 to 14563"),
        ("gb200_nvl72,rack=2", "unknown option of gb200_nvl72 'rack'; did you mean racks"),
        ("rail_optimized,pxn=maybe", "unknown pxn 'maybe'.* Known: off, on"),
        ("rail_optimized,nodes_per_unit=0", "nodes_per_unit=0 is not a whole number"),
        ("fat_tree,levels=4", "levels=4: a fat tree has 2 .* or 3"),
        ("fat_tree,routing=ecpm", "unknown routing 'ecpm'; did you mean ecmp"),
        ("fat_tree,routing=ecmp,uplinks=0", "uplinks=0 is not a whole number"),
        ("fat_tree,routing=ecmp,seed=-1", "seed=-1 is not a whole number from 0"),
        ("hpn,planes=0", "planes=0 is not a whole number from 1 to 16"),
        ("torus,shape=4x", "shape=4x: a torus has 1 to 6 sizes, such as 4x4x4"),
        ("torus,shape=1e3", "shape=1000.0: a torus has 1 to 6 sizes"),
        ("torus,shape=0x4", "shape=0x4: size=0 is not a whole number"),
        ("torus,shape=4096x4096", "size=16777216 is not a whole number from 1 to 1048576"),
        ("torus,accelerator=h100", "bandwidth of a torus of H100-SXM5 is not known; give bytes/s"),
        ("dragonfly,groups=0", "groups=0 is not a whole number"),
        ("dragonfly,groups=1000,nodes_per_switch=1000", "switches_per_group × nodes_per_switch=8000000 is not a whole"),
        ("full_mesh,accelerator=h100", "pair_bandwidth of H100-SXM5 in a full mesh is not known; give bytes/s"),
        ("full_mesh,gpus_per_node=65", "gpus_per_node=65 is not a whole number from 1 to 64"),
        (
            "full_mesh,nvlink_bandwidth=1e9",
            "unknown option of full_mesh 'nvlink_bandwidth'; did you mean pair_bandwidth",
        ),
        ("pcie_box,generation=7", "PCIe generation 7 is not known; known are 3, 4, 5, 6"),
        ("ethernet,nodes=0", "nodes=0 is not a whole number"),
    ],
)
def test_absurd_sizes_fail_in_one_line(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        topologies.build(text)
    assert "\n" not in str(caught.value)


def test_an_option_is_given_once():
    with pytest.raises(ValueError, match="nodes is given twice: 2 in the text, 3 beside it"):
        topologies.build("dgx_h100,nodes=2", nodes=3)


def test_a_slow_device_shows_in_speeds_and_name(servers):
    slow = servers.degrade(rank=13, compute=0.8)
    assert slow.speeds.tolist() == [1.0] * 13 + [0.8] + [1.0] * 2
    assert slow.name == "dgx_h100,nodes=2 [rank 13 compute 0.8]"
    assert slow.graph is servers.graph
    assert set(servers.speeds) == {1.0}


def test_a_weak_link_is_weak_in_one_direction(servers):
    weak = servers.degrade(link=("gpu13", "nvswitch1"), bandwidth=0.5)
    assert [link.bandwidth for link in weak.route(13, 12)] == [225e9, 450e9]
    assert [link.bandwidth for link in weak.route(12, 13)] == [450e9, 450e9]
    assert (weak.links.bandwidth != servers.links.bandwidth).sum() == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.01, 1)), max_size=6))
def test_degradations_multiply(faults):
    cluster = topologies.build("flat", ranks=4)
    for rank, factor in faults:
        cluster = cluster.degrade(rank=rank, compute=factor, link=(f"gpu{rank}", "switch0"), bandwidth=factor)
    for rank in range(4):
        left = math.prod(factor for place, factor in faults if place == rank)
        assert cluster.speeds[rank] == left
        assert cluster.route(rank, (rank + 1) % 4)[0].bandwidth == 50e9 * left


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({}, "degrade takes rank= with compute="),
        ({"rank": 3}, "degrade takes rank= with compute="),
        ({"rank": 3, "bandwidth": 0.5}, "degrade takes rank= with compute="),
        ({"rank": 16, "compute": 0.5}, "rank 16 is not on dgx_h100,nodes=2: its ranks are 0 to 15"),
        ({"rank": 1, "compute": 0}, "compute=0: a degradation is a factor above 0"),
        ({"rank": 1, "compute": 1.5}, "compute=1.5: a degradation is a factor above 0 and at most 1"),
        ({"link": ("gpu0", "nvswitch0"), "bandwidth": math.nan}, "bandwidth=nan"),
        ({"link": ("gpu0", "nvswitch1"), "bandwidth": 0.5}, "links of gpu0 lead to nvswitch0, infiniband0"),
    ],
)
def test_impossible_degradations_fail_in_one_line(servers, fault, message):
    with pytest.raises(ValueError, match=message):
        servers.degrade(**fault)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"speed_factors": {0: -1}}, r"speed_factors\[0\]=-1: a degradation is a factor above 0 and at most 1"),
        ({"speed_factors": {0: 1.5}}, r"speed_factors\[0\]=1.5"),
        ({"speed_factors": {0: "slow"}}, r"speed_factors\[0\]=slow"),
        ({"speed_factors": {99: 0.5}}, "rank 99 is not on dgx_h100,nodes=2: its ranks are 0 to 15"),
        ({"speed_factors": {1.5: 0.5}}, "ranks are a flat list of whole numbers"),
        ({"link_factors": {("gpu0", "nvswitch0"): 0}}, r"link_factors\[gpu0->nvswitch0\]=0: a degradation"),
        ({"link_factors": {("gpu0", "nvswitch0"): math.nan}}, r"link_factors\[gpu0->nvswitch0\]=nan"),
        ({"link_factors": {("gpu0", "nvswitch1"): 0.5}}, "links of gpu0 lead to nvswitch0, infiniband0"),
        ({"link_factors": {"gpu0": 0.5}}, "'gpu0' is no edge of dgx_h100,nodes=2; links lead from a node"),
    ],
)
def test_impossible_factors_fail_at_construction_in_one_line(servers, factors, message):
    with pytest.raises(ValueError, match=message) as caught:
        servers.replace(**factors)
    assert "\n" not in str(caught.value)


def test_factors_of_every_rank_and_link_are_legal(servers):
    links = dict.fromkeys(servers.links.ends, 0.5)
    slow = servers.replace(speed_factors=dict.fromkeys(range(16), 0.25), link_factors=links)
    assert set(slow.speeds) == {0.25}
    assert np.array_equal(slow.links.bandwidth, servers.links.bandwidth / 2)


def test_replace_changes_a_field_and_forgets_the_cache(servers):
    upgraded = servers.replace(accelerators=(accelerators.build("a100_80gb"),) * 16)
    assert upgraded.accelerators[0].name == "A100-SXM4-80GB"
    assert upgraded.router is servers.router
    with pytest.raises(ValueError, match="15 accelerators for 16 devices"):
        servers.replace(accelerators=servers.accelerators[1:])
    with pytest.raises(ValueError, match="unknown field of a topology 'node'"):
        servers.replace(node=3)


def test_replaced_devices_are_routed_anew(servers):
    turned = servers.replace(devices=servers.devices[::-1])
    assert turned.router is None
    ends = servers.links.ends
    assert [turned.links.ends[index] for index in turned.routes([0], [15])[1]] == [
        ends[index] for index in servers.routes([15], [0])[1]
    ]


def pair(**edge):
    graph = nx.Graph()
    graph.add_nodes_from("ab", device=True)
    graph.add_edge("a", "b", **edge)
    return graph


def test_nodes_of_a_graph_say_their_accelerator_and_host():
    graph = nx.star_graph(4)
    nx.set_edge_attributes(graph, Link("ethernet", 10e9, 1e-6), "link")
    for node in (3, 1, 4, 2):
        graph.nodes[node]["device"] = True
    graph.nodes[1]["host"] = graph.nodes[4]["host"] = "left"
    graph.nodes[2]["accelerator"] = "a100_80gb"
    cluster = topologies.from_graph(graph, name="star", accelerator="h100")
    assert cluster.devices == (1, 2, 3, 4)
    assert cluster.hosts.tolist() == [0, 1, 2, 0]
    assert [chip.name for chip in cluster.accelerators] == ["H100-SXM5", "A100-SXM4-80GB", "H100-SXM5", "H100-SXM5"]
    assert cluster.route(0, 1) == [Link("ethernet", 10e9, 1e-6)] * 2


def test_a_graph_is_copied():
    graph = pair(bandwidth=1e9, latency=1e-6)
    cluster = topologies.from_graph(graph)
    graph.remove_edge("a", "b")
    assert cluster.route(0, 1) == [Link("link", 1e9, 1e-6)]


def test_a_directed_edge_is_one_link():
    ring = nx.cycle_graph(5, create_using=nx.DiGraph)
    nx.set_node_attributes(ring, True, "device")
    nx.set_edge_attributes(ring, 1e9, "bandwidth")
    cluster = topologies.from_graph(ring)
    assert len(cluster.links) == 5
    assert [len(cluster.route(0, rank)) for rank in range(5)] == [0, 1, 2, 3, 4]
    assert [len(cluster.route(rank, 0)) for rank in range(5)] == [0, 4, 3, 2, 1]


def test_a_family_survives_its_own_graph(servers):
    again = topologies.from_graph(servers.graph)
    assert again.devices == servers.devices
    assert again.hosts.tolist() == servers.hosts.tolist()


def disconnected():
    graph = pair(bandwidth=1e9)
    graph.add_node("c", device=True)
    return graph


def one_way():
    graph = nx.DiGraph()
    graph.add_nodes_from("ab", device=True)
    graph.add_edge("a", "b", bandwidth=1e9)
    return graph


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.path_graph(3), "none of the 3 nodes of graph is marked device=True"),
        (pair(), "the edge a to b has no bandwidth"),
        (pair(bandwidth=-1.0), "the edge a to b: link of kind 'link' with bandwidth=-1.0"),
        (disconnected(), "no path leads from device a to device c"),
        (one_way(), "no path leads from device b to device a"),
        (nx.MultiGraph(pair(bandwidth=1e9)), "graph is a multigraph"),
    ],
)
def test_unusable_graphs_fail_in_one_line(graph, message):
    with pytest.raises(ValueError, match=message):
        topologies.from_graph(graph)
