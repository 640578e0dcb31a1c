"""Placement: which level of a cluster each process group crosses."""

import networkx as nx
import pytest

import simulator
import topologies
from simulator import placement, simulate
from simulator.placements import families, family, places, words
from workloads import TrainingStep
from workloads.mesh import DeviceMesh
from workloads.program import Program

COLUMNS = ["axis", "degree", "groups", "level", "hosts_per_group", "kinds", "narrowest_bytes_per_second"]


def levels(axes: dict[str, int], cluster: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in places(DeviceMesh(axes), topologies.build(cluster)):
        found.setdefault(each.axis, []).append(each.level)
    return found


def test_the_llama3_plan_keeps_tp_in_the_node_and_pp_crosses_the_spine():
    """A pod has 3,072 GPUs: 8 x 128 x 3 of them are 3 of the 16 stages, so every pipeline crosses the spine."""
    axes = {"pp": 16, "dp": 128, "tp": 8}
    assert levels(axes, "llama3_cluster,gpus=16384") == {"pp": ["spine"], "dp": ["pod"], "tp": ["nvswitch"]}


def test_groups_of_one_axis_may_differ():
    """Groups of 12 GPUs in racks of 16: the second and the third of four lie in two racks."""
    mixed = placement(Program.of(DeviceMesh({"dp": 4, "tp": 12}), {(): []}, varies=()), "llama3_cluster,gpus=48")
    tp = mixed[mixed["axis"] == "tp"].set_index("level")
    assert tp.index.tolist() == ["rack", "pod"]
    assert tp["groups"].tolist() == [2, 2]
    assert tp["hosts_per_group"].tolist() == [2, 2]


def test_columns_and_numbers():
    program = Program.of(DeviceMesh({"dp": 2, "tp": 8}), {(): []}, varies=())
    frame = placement(program, topologies.build("dgx_h100,nodes=2"))
    assert frame.columns.tolist() == COLUMNS
    assert frame.to_numpy().tolist() == [
        ["dp", 2, 8, "infiniband", 2, "infiniband", 50e9],
        ["tp", 8, 2, "nvswitch", 1, "nvlink", 450e9],
    ]


def test_a_degraded_link_is_the_narrowest():
    cluster = topologies.build("dgx_h100,nodes=2").degrade(link=("gpu3", "nvswitch0"), bandwidth=0.5)
    found = {each.axis: each for each in places(DeviceMesh({"dp": 2, "tp": 8}), cluster)}
    assert found["tp"].narrowest == 225e9
    assert found["dp"].narrowest == 50e9


@pytest.mark.parametrize("cluster", ["torus,shape=4x4x4", "full_mesh,nodes=1", "torus,shape=8"])
def test_links_without_a_switch_are_direct(cluster):
    size = topologies.build(cluster).size
    assert levels({"dp": size // 4, "tp": 4}, cluster) == {"dp": ["direct"], "tp": ["direct"]}


def test_a_mesh_within_the_node_and_a_switch_between_nodes():
    assert levels({"dp": 4, "tp": 8}, "full_mesh,nodes=4") == {"dp": ["roce"], "tp": ["direct"]}


def test_routes_through_a_relay_still_name_the_network():
    """PXN: a message to another rail crosses NVLink first, yet its level is that of the leaf switches."""
    assert levels({"dp": 2, "tp": 8}, "rail_optimized,nodes=2")["dp"] == ["leaf"]
    found = places(DeviceMesh({"tp": 16}), topologies.build("rail_optimized,nodes=2"))
    assert [each.level for each in found] == ["leaf"]
    assert set(found[0].kinds) == {"nvlink", "infiniband"}


@pytest.mark.parametrize(
    ("cluster", "names"),
    [
        ("llama3_cluster,gpus=6144", ("nvswitch", "rack", "pod", "spine")),
        ("rail_optimized,nodes=8", ("nvswitch", "leaf", "spine")),
        ("dgx_h100,nodes=1", ("nvswitch", "infiniband")),
        ("ethernet,nodes=2", ("nvswitch", "nic", "ethernet")),
        ("torus,shape=2x2", ()),
    ],
)
def test_families_from_the_lowest_to_the_topmost(cluster, names):
    assert set(families(topologies.build(cluster)).names) == set(names)
    assert families(topologies.build(cluster)).names[1:] == names[1:]


@pytest.mark.parametrize("name", topologies.names())
def test_every_cluster_has_a_level_for_every_axis(name):
    cluster = topologies.build(name)
    found = places(DeviceMesh({"dp": cluster.size // 2, "tp": 2} if cluster.size > 1 else {"dp": 1}), cluster)
    for each in found:
        assert each.level
        assert each.kinds
        assert each.narrowest > 0
        assert 1 <= each.hosts <= each.degree
        assert sum(other.groups for other in found if other.axis == each.axis) * each.degree == cluster.size


def test_switches_of_any_name():
    graph = nx.Graph()
    for rank in range(4):
        graph.add_node(rank, device=True)
        graph.add_edge(rank, ("leaf", rank // 2), bandwidth=1e9)
        graph.add_edge(("leaf", rank // 2), 99, bandwidth=1e9)
    cluster = topologies.from_graph(graph)
    found = {each.axis: each.level for each in places(DeviceMesh({"dp": 2, "tp": 2}), cluster)}
    assert found == {"dp": "switch", "tp": "leaf"}
    assert family("pod3-leaf12") == "pod-leaf"


def test_results_have_it_in_frame_and_words():
    step = TrainingStep("llama3_8b,layers=2", "pp=2 dp=1 tp=8", batch=4, sequence=1024)
    result = simulate(step, "dgx_h100,nodes=2")
    assert result.placement.equals(result.to_frame("placement"))
    assert result.placement.equals(simulator.placement(step, "dgx_h100,nodes=2"))
    assert result.placement["axis"].tolist() == ["pp", "tp"]
    assert ["placement", "tp: nvswitch · pp: infiniband"] in [
        line.split(maxsplit=1) for line in str(result).splitlines()
    ]
    assert words(result.places) == "tp: nvswitch · pp: infiniband"


def test_a_plan_of_another_size_is_refused():
    step = TrainingStep("llama3_8b", "dp=4 tp=8", batch=4, sequence=1024)
    with pytest.raises(ValueError, match=r"^dp=4 × tp=8 = 32 ranks, but dgx_h100,nodes=2 has 16$"):
        placement(step, "dgx_h100,nodes=2")
