"""Clusters in YAML files: servers, graphs, and every mistake in one line that names the file."""

import pickle
from pathlib import Path

import numpy as np
import pytest

import topologies
from topologies import Link

DATA = Path(__file__).parent / "data"
SERVERS, GRAPH = DATA / "servers.yaml", DATA / "graph.yaml"


@pytest.fixture
def write(tmp_path):
    def written(text):
        path = tmp_path / "lab.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.mark.parametrize("path", [SERVERS, GRAPH], ids=lambda path: path.stem)
def test_name_is_the_path_that_builds_it_again(path):
    cluster = topologies.load(path)
    again = topologies.build(cluster.name)
    assert again.name == cluster.name == str(path)
    assert again.devices == cluster.devices
    assert np.array_equal(again.links.bandwidth, cluster.links.bandwidth)
    assert [chip.name for chip in again.accelerators] == [chip.name for chip in cluster.accelerators]
    assert pickle.loads(pickle.dumps(cluster)).links.ends == cluster.links.ends


def test_unequal_servers_of_mixed_accelerators():
    cluster = topologies.load(SERVERS)
    assert np.bincount(cluster.hosts).tolist() == [8, 8, 8, 8, 4, 4]
    assert [cluster.accelerators[rank].name for rank in (0, 31, 32, 39)] == 2 * ["H100-SXM5"] + 2 * ["A100-SXM4-40GB"]
    assert cluster.route(0, 7) == [Link("nvlink", 450e9, 0.3e-6)] * 2
    assert cluster.route(32, 35) == [Link("nvlink", 100e9, 0.6e-6)]
    assert [link.kind for link in cluster.route(0, 8)] == ["infiniband"] * 2
    assert [link.kind for link in cluster.route(0, 39)] == ["infiniband", "fabric", "fabric", "ethernet", "pcie"]
    assert [link.kind for link in cluster.route(32, 36)] == ["pcie", "ethernet", "ethernet", "pcie"]


def test_uplinks_follow_the_cards_below_them():
    cluster = topologies.load(SERVERS)
    up = {leaf: cluster.graph.edges[leaf, "spine0"]["link"].bandwidth for leaf in ("leaf0", "leaf2")}
    assert up == {"leaf0": 16 * 50e9 / 2, "leaf2": 2 * 25e9 / 2}
    assert cluster.graph.edges["nic0", "leaf2"]["link"] == Link("ethernet", 25e9, 1.4e-6)
    assert cluster.degrade(link=("nic0", "leaf2"), bandwidth=0.5).route(32, 36)[1].bandwidth == 12.5e9


@pytest.mark.parametrize(
    ("family", "entry"),
    [
        ("dgx_h100,nodes=3", "count: 3, gpus: 8, accelerator: h100, nic_gbit: 400"),
        ("dgx_a100,nodes=2,nics=2", "count: 2, gpus: 8, accelerator: A100-SXM4-80GB, nics: 2, nic_gbit: 200"),
        ("full_mesh,nodes=2", "count: 2, gpus: 8, accelerator: mi300x, nic_gbit: 400, transport: roce"),
    ],
)
def test_equal_servers_are_the_family(write, family, entry):
    ours, theirs = topologies.build(family), topologies.load(write(f"servers: [{{{entry}}}]"))
    assert theirs.links.ends == ours.links.ends
    assert np.array_equal(theirs.links.bandwidth, ours.links.bandwidth)
    assert theirs.description == ours.description
    sources, destinations = (place.ravel() for place in np.indices((ours.size, ours.size)))
    assert theirs.routes(sources, destinations)[1].tolist() == ours.routes(sources, destinations)[1].tolist()


def test_a_graph_is_what_it_lists():
    cluster = topologies.load(GRAPH)
    assert cluster.devices == ("left", "right", "far")
    assert cluster.hosts.tolist() == [0, 0, 1]
    assert [link.bandwidth for link in cluster.route(1, 2)] == [25e9, 12.5e9]
    assert [link.bandwidth for link in cluster.route(2, 1)] == [12.5e9, 50e9, 450e9]
    assert (
        cluster.description == "2 H100-SXM5 + 1 A100-SXM4-80GB in 2 nodes; nvlink 450 GB/s; ethernet 3 × 100-400 Gb/s"
    )


SERVER = "gpus: 8, accelerator: h100, nic_gbit: 400"
PAIR = "devices: [{name: a, accelerator: h100}, {name: b, accelerator: h100}]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is None, not a mapping of keys"),
        ("servers: [", "is not YAML: .*line 1"),
        ("server: []", "either 'servers' or 'devices', not neither"),
        ("servers: []\ndevices: []", "not servers and devices"),
        ("servers: []", "servers is an empty list"),
        ("servers: 3", "servers of the file is 3, not a list"),
        ("servers: [3]", r"servers\[0\] is 3, not a mapping of keys"),
        (f"servers: [{{{SERVER}}}]\nnetworks: 1", "unknown key of the file 'networks'; did you mean network"),
        (f"servers: [{{{SERVER}, nic: 4}}]", r"unknown key of servers\[0\] 'nic'; did you mean nics"),
        (f"servers: [{{{SERVER}, nics: 3}}]", r"servers\[0\]: nics=3 of 8 GPUs"),
        (f"servers: [{{{SERVER}, count: 0}}]", r"servers\[0\]: count=0 is not a whole number"),
        (f"servers: [{{{SERVER}, count: 1000000}}]", "GPUs in all servers=8000000 is not a whole number"),
        (
            f"servers: [{{{SERVER}, transport: infinband}}]",
            r"servers\[0\]: unknown transport 'infinband'; did you mean inf",
        ),
        ("servers: [{gpus: 8, accelerator: h100}]", r"servers\[0\] has no nic_gbit"),
        ("servers: [{gpus: 8, accelerator: h10, nic_gbit: 400}]", r"servers\[0\]: unknown accelerator 'h10'"),
        ("servers: [{gpus: 8, accelerator: tpu_v4, nic_gbit: 100}]", "no scale_up, and none is known for TPU v4"),
        (f"servers: [{{{SERVER}, scale_up: {{kind: nvlink}}}}]", r"scale_up of servers\[0\] has no bandwidth"),
        (f"servers: [{{{SERVER}, scale_up: {{bandwidth: fast}}}}]", "bandwidth of scale_up .* is 'fast', not a number"),
        (
            f"servers: [{{{SERVER}, scale_up: {{bandwidth: 1, mesh: 2}}}}]",
            "mesh of scale_up .* is 2, not true or false",
        ),
        (f"servers: [{{{SERVER}}}]\nnetwork: {{levels: []}}", "levels of the network is an empty list"),
        (
            f"servers: [{{{SERVER}, count: 6}}]\nnetwork: {{levels: [{{switch: leaf, nodes: 4}}]}}",
            r"levels\[0\] has a switch per 4 of 6 nodes; the last level joins all",
        ),
        (
            f"servers: [{{{SERVER}}}]\nnetwork: {{levels: [{{switch: a, nodes: 2}}, {{switch: b, nodes: 3}}]}}",
            r"levels\[1\]: nodes=3 is not a multiple of 2",
        ),
        (
            f"servers: [{{{SERVER}}}]\nnetwork: {{levels: [{{switch: a, nodes: 2}}, {{switch: a}}]}}",
            r"levels\[1\]: there are two kinds of node called a",
        ),
        ("devices: []", "none of the 0 nodes of .* is marked device=True"),
        ("devices: [{name: a}]", r"devices\[0\] has no accelerator"),
        (PAIR + "links: [{from: a, to: b}]", r"links\[0\] has no bandwidth"),
        (PAIR + "links: [{from: a, to: c, bandwidth: 1e9}]", r"links\[0\]: 'c' is no device and no switch"),
        (PAIR + "links: [{from: a, to: b, bandwidth: 0}]", "bandwidth=0.0: bytes/s must be at least 1"),
        (PAIR + "links: []", "no path leads from device a to device b"),
        (PAIR + "switches: [a]", r"switches\[0\]: 'a' is not a name, or there are two of it"),
        (
            PAIR + "links: [{from: a, to: b, bandwidth: 1e9}, {from: b, to: a, bandwidth: 1e9}]",
            "there are two links b to a",
        ),
        (
            PAIR + "links: [{from: a, to: b, bandwith: 1e9}]",
            r"unknown key of links\[0\] 'bandwith'; did you mean bandwi",
        ),
    ],
)
def test_mistakes_are_one_line_with_the_file(write, text, message):
    path = write(text)
    with pytest.raises(ValueError, match=message) as caught:
        topologies.load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_other_files_are_refused_in_one_line(tmp_path):
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00")
    for text, message in [
        (str(tmp_path / "lost.yaml"), "lost.yaml: No such file"),
        (str(tmp_path / "binary.yml"), "binary.yml is not"),
    ]:
        with pytest.raises(ValueError, match=message):
            topologies.build(text)
    with pytest.raises(ValueError, match="takes no options, such as nodes"):
        topologies.build(str(SERVERS), nodes=3)
