"""Each cluster family against what is published about it: rates, counts, and the levels that routes cross."""

import math
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

import topologies
from topologies import Link, accelerators
from topologies.routing.planes import planes
from topologies.transport import SWITCH_LATENCY
from topologies.units import GBIT, MICRO


def kinds(cluster, source, destination):
    return [link.kind for link in cluster.route(source, destination)]


def rates(cluster, source, destination):
    return [link.bandwidth for link in cluster.route(source, destination)]


def stops(cluster, source, destination):
    """The nodes on the way, without the two devices."""
    return [cluster.links.ends[link][1] for link in cluster.routes([source], [destination])[1]][:-1]


@pytest.mark.parametrize(
    ("name", "chip", "nvlink", "gbit"),
    [
        ("dgx_a100", "A100-SXM4-80GB", 300e9, 200),
        ("dgx_h100", "H100-SXM5", 450e9, 400),
        ("dgx_h200", "H200-SXM", 450e9, 400),
        ("dgx_b200", "B200-SXM", 900e9, 400),
    ],
)
def test_dgx_data_sheets(name, chip, nvlink, gbit):
    cluster = topologies.build(name, nodes=2)
    assert cluster.accelerators[0].name == chip
    assert rates(cluster, 0, 7) == [nvlink] * 2
    (card, _) = cluster.route(0, 8)
    assert cluster.route(0, 8) == [Link("infiniband", gbit * GBIT, card.latency)] * 2
    assert card.latency == pytest.approx((0.5 + 1.0 + 0.25 / 2) * MICRO)


@pytest.mark.parametrize(("accelerator", "nvlink"), [("h800", 200e9), ("H20", 450e9), ("mi300x", 450e9)])
def test_scale_up_follows_the_accelerator_in_the_chassis(accelerator, nvlink):
    assert rates(topologies.build("dgx_h100", accelerator=accelerator), 0, 1) == [nvlink] * 2
    assert rates(topologies.build("dgx_h100", accelerator=accelerator, nvlink_bandwidth=1e9), 0, 1) == [1e9] * 2


@pytest.mark.parametrize("transport", SWITCH_LATENCY)
def test_a_transport_names_the_cards_links_and_their_switch(transport):
    cluster = topologies.build("dgx_h100", nodes=2, transport=transport)
    (up, down) = cluster.route(0, 8)
    assert up == down
    assert up.kind == transport
    assert up.latency == pytest.approx(1.5 * MICRO + SWITCH_LATENCY[transport] / 2)


@pytest.mark.parametrize(("nics", "gbit", "rate"), [(8, 400, 50e9), (16, 200, 50e9), (32, 100, 50e9), (8, 800, 100e9)])
def test_own_cards_of_a_gpu_are_one_link(nics, gbit, rate):
    cluster = topologies.build("dgx_h100", nodes=2, nics=nics, nic_gbit=gbit)
    assert rates(cluster, 0, 8) == [rate] * 2


@pytest.mark.parametrize(("name", "pcie"), [("dgx_h100", 64e9), ("dgx_a100", 32e9)])
@pytest.mark.parametrize("nics", [1, 2, 4])
def test_neighbouring_gpus_share_a_card(name, pcie, nics):
    cluster = topologies.build(name, nodes=2, nics=nics, nic_gbit=200)
    share = 8 // nics
    assert cluster.route(0, 8)[:2] == [Link("pcie", pcie, 0.5 * MICRO), Link("infiniband", 25e9, 1.125 * MICRO)]
    assert [stops(cluster, rank, 8)[0] for rank in range(8)] == [f"nic{rank // share}" for rank in range(8)]
    assert kinds(cluster, 0, 1) == ["nvlink"] * 2


def test_shared_cards_cost_no_latency_more_than_own_ones():
    own, shared = (topologies.build("dgx_h100", nodes=2, nics=nics) for nics in (8, 4))
    assert math.isclose(*(sum(link.latency for link in cluster.route(0, 8)) for cluster in (own, shared)))


@pytest.mark.parametrize("used", [1, 2, 4])
@pytest.mark.parametrize("nics", [1, 4, 8, 16])
def test_a_partly_used_node_keeps_its_cards_in_proportion(nics, used):
    options = {"nics": nics, "nic_gbit": 200, "gpus_per_node": used}
    cluster = topologies.build("dgx_a100", nodes=3, **options)
    assert np.bincount(cluster.hosts).tolist() == [used] * 3
    assert topologies.build(cluster.name).name == cluster.name == f"dgx_a100,nodes=3,{written(options)}"
    assert node_rate(cluster, used) == 25e9 * max(1, nics * used // 8)
    if used > 1:
        assert cluster.route(0, used - 1) == topologies.build("dgx_a100").route(0, 7)


def written(options):
    """Options that are no default of a DGX A100, in its family's order."""
    defaults = {"nics": 8, "nic_gbit": 200, "gpus_per_node": 8}
    return ",".join(f"{key}={value}" for key, value in options.items() if value != defaults[key])


def node_rate(cluster, used):
    """Bytes/s at which all used GPUs of the first node together reach the second one."""
    cards = {index for rank in range(used) for index in cluster.routes([rank], [used + rank])[1]}
    leaving = [index for index in cards if cluster.links.kinds[cluster.links.codes[index]] == "infiniband"]
    return sum(cluster.links.bandwidth[index] for index in leaving) / 2


def test_a_partly_used_node_is_all_that_its_line_tells():
    cluster = topologies.build("dgx_h100", nodes=2, gpus_per_node=4, accelerator="h800")
    assert cluster.description == "8 H800-SXM in 2 nodes; nvlink 200 GB/s; infiniband 4 × 400 Gb/s a node"


def test_partly_used_nodes_have_a_rail_for_each_used_gpu():
    cluster = topologies.build("rail_optimized", nodes=4, nodes_per_unit=2, gpus_per_node=4)
    assert {stops(cluster, rank, rank + 4)[0] for rank in range(4)} == {f"leaf{rail}" for rail in range(4)}
    assert cluster.size == 16


def test_oversubscribed_servers_have_a_leaf_each():
    cluster = topologies.build("dgx_h100", nodes=4, oversubscription=2)
    assert stops(cluster, 0, 31) == ["leaf0", "spine0", "leaf3"]
    assert rates(cluster, 0, 31) == [50e9, 200e9, 200e9, 50e9]


def test_ordinary_ethernet_is_a_hundred_and_sixty_times_slower_a_node():
    slow, fast = topologies.build("ethernet"), topologies.build("dgx_a100", nodes=8)
    assert slow.size == fast.size == 64
    cards = {cluster: sum(rates(cluster, rank, 63)[-2] for rank in range(8)) for cluster in (slow, fast)}
    assert rates(slow, 0, 63)[1] == 10 * GBIT
    assert cards[fast] / rates(slow, 0, 63)[1] == 160
    assert rates(slow, 0, 7) == rates(fast, 0, 7) == [300e9] * 2


@pytest.mark.parametrize(("name", "gbit"), [("gb200_nvl72", 400), ("gb300_nvl72", 800)])
def test_nvl72_racks(name, gbit):
    racks = topologies.build(name, racks=2)
    assert racks.size == 2 * 18 * 4
    assert np.bincount(racks.hosts).tolist() == [72, 72]
    assert rates(racks, 0, 71) == [900e9] * 2
    assert rates(racks, 71, 72) == [gbit * GBIT] * 2
    assert np.bincount(topologies.build(name, racks=3, gpus_per_rack=16).hosts).tolist() == [16] * 3


@pytest.mark.parametrize("pxn", [True, False])
def test_a_rail_of_a_unit_crosses_its_leaf_only(pxn):
    cluster = topologies.build("rail_optimized", nodes=4, nodes_per_unit=2, pxn=pxn)
    assert stops(cluster, 3, 11) == ["leaf3"]
    assert stops(cluster, 3, 19) == ["leaf3", "spine0", "leaf11"]
    assert kinds(cluster, 3, 4) == ["nvlink"] * 2


def test_with_pxn_a_message_changes_the_rail_at_home():
    cluster = topologies.build("rail_optimized", nodes=4, nodes_per_unit=2)
    assert stops(cluster, 3, 12) == ["nvswitch0", "gpu4", "leaf4"]
    assert kinds(cluster, 3, 12) == ["nvlink", "nvlink", "infiniband", "infiniband"]
    assert stops(cluster, 3, 20) == ["nvswitch0", "gpu4", "leaf4", "spine0", "leaf12"]


def test_without_pxn_it_changes_the_rail_on_the_spine():
    cluster = topologies.build("rail_optimized", nodes=4, nodes_per_unit=2, pxn=False)
    assert stops(cluster, 3, 12) == ["leaf3", "spine0", "leaf4"]


def test_counts_of_a_superpod_unit():
    cluster = topologies.build("rail_optimized", nodes=64)
    leaves = {str(node) for node in cluster.graph if str(node).startswith("leaf")}
    assert len(leaves) == 2 * 8
    assert all(cluster.graph.degree[leaf] == 32 + 1 for leaf in leaves)
    assert cluster.graph.edges["leaf0", "spine0"]["link"].bandwidth == 32 * 50e9


def test_cards_that_gpus_share_are_the_rails():
    cluster = topologies.build("rail_optimized", nodes=2, nics=4)
    assert stops(cluster, 0, 9) == ["nic0", "leaf0", "nic4"]
    assert stops(cluster, 0, 10) == ["nvswitch0", "gpu2", "nic1", "leaf1", "nic5"]


def test_fat_trees_have_two_or_three_levels():
    two = topologies.build("fat_tree", nodes=8, nodes_per_leaf=2, oversubscription=4)
    three = topologies.build("fat_tree", nodes=8, nodes_per_leaf=2, levels=3, leaves_per_pod=2)
    assert stops(two, 0, 15) == stops(three, 0, 15) == ["leaf0"]
    assert stops(two, 0, 63) == ["leaf0", "spine0", "leaf3"]
    assert rates(two, 0, 63) == [50e9, 200e9, 200e9, 50e9]
    assert stops(three, 0, 31) == ["leaf0", "pod0", "leaf1"]
    assert stops(three, 0, 63) == ["leaf0", "pod0", "core0", "pod1", "leaf3"]
    assert rates(three, 0, 63) == [50e9, 800e9, 1600e9, 1600e9, 800e9, 50e9]


def test_planes_share_the_bandwidth_of_a_leaf():
    spray, ecmp = (topologies.build("fat_tree", nodes=8, routing=each) for each in ("spray", "ecmp"))
    up = [link.bandwidth for *edge, link in ecmp.graph.edges("leaf0", data="link") if "spine" in edge[1]]
    assert up == [50e9] * 32
    assert sum(up) == spray.graph.edges["leaf0", "spine0"]["link"].bandwidth


def test_a_route_keeps_its_plane():
    cluster = topologies.build("fat_tree,nodes=16,levels=3,nodes_per_leaf=2,leaves_per_pod=2,routing=ecmp,uplinks=4")
    for destination in range(64, 128):
        _, up, core, down, _ = stops(cluster, 0, destination)
        numbers = [int(name.strip("podcre")) % 4 for name in (up, core, down)]
        assert len(set(numbers)) == 1


def test_a_seed_decides_the_planes():
    name = "fat_tree,nodes=8,routing=ecmp"
    first, again, other = (topologies.build(f"{name},seed={seed}") for seed in (1, 1, 2))
    pairs = np.arange(32), np.arange(32, 64)
    routes = [cluster.routes(*pairs)[1].tolist() for cluster in (first, again, other)]
    assert routes[0] == routes[1] != routes[2]


def test_as_many_flows_as_uplinks_leave_37_percent_idle():
    """Of m links, a flow misses one with 1 - 1/m; all m do with (1 - 1/m)^m, about 1/e."""
    idle = []
    for seed in range(40):
        cluster = topologies.build("fat_tree", nodes=8, routing="ecmp", seed=seed)
        _, link = cluster.routes(np.arange(32), np.arange(32, 64))
        up = [end for end in np.array(cluster.links.ends, object)[link] if end[0] == "leaf0"]
        assert len(up) == 32
        idle.append(1 - len({spine for _, spine in up}) / 32)
    assert np.mean(idle) == pytest.approx((1 - 1 / 32) ** 32, abs=0.03)
    assert np.mean(idle) == pytest.approx(1 / math.e, abs=0.03)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [2, 7, 64])
def test_planes_are_balanced(seed, count):
    """Chi-squared of all pairs of 128 ranks on so many planes: mean count - 1, variance twice that."""
    sources, destinations = (place.ravel() for place in np.indices((128, 128)))
    loads = np.bincount(planes(sources, destinations, count, seed), minlength=count)
    mean = len(sources) / count
    assert abs(((loads - mean) ** 2 / mean).sum() - (count - 1)) < 5 * math.sqrt(2 * (count - 1))


def test_hpn_cards_have_a_port_on_each_plane():
    cluster = topologies.build("hpn", nodes=2, routing="ecmp")
    assert [link.bandwidth for *_, link in cluster.graph.edges("gpu0", data="link")] == [200e9, 25e9, 25e9]
    seeds = [topologies.build("hpn", nodes=2, routing="ecmp", seed=seed) for seed in range(9)]
    assert {stops(cluster, 0, 8)[0] for cluster in seeds} == {"tor0", "tor1"}


def test_hpn_segments_pods_and_core():
    cluster = topologies.build("hpn", nodes=7, nodes_per_segment=2, segments_per_pod=2, routing="spray")
    assert len(stops(cluster, 0, 8)) == 1
    assert stops(cluster, 0, 9) == ["tor0", "aggregation0", "tor1"]
    assert stops(cluster, 0, 16) == ["tor0", "aggregation0", "tor8"]
    assert stops(cluster, 0, 55)[2] == "core0"


def test_hpn_counts_as_published():
    cluster = topologies.build("hpn", nodes=256, routing="ecmp")
    tors = [node for node in cluster.graph if str(node).startswith("tor")]
    assert len(tors) == 2 * 8 * 2
    assert cluster.graph.degree["tor0"] == 128 + 1
    assert cluster.graph.edges["tor0", "aggregation0"]["link"].bandwidth == pytest.approx(60 * 400 * GBIT)


@pytest.mark.parametrize(
    ("shape", "accelerator", "rate"),
    [("16x16x16", "tpu_v4", 50e9), ("16x16", "tpu_v5e", 50e9), ("16x20x28", "tpu_v5p", 100e9)],
)
def test_pods_of_tpus(shape, accelerator, rate):
    pod = topologies.build("torus", shape=shape, accelerator=accelerator)
    assert pod.size == {"tpu_v4": 4096, "tpu_v5e": 256, "tpu_v5p": 8960}[accelerator]
    assert pod.grid == tuple(int(size) for size in shape.split("x"))
    assert set(pod.links.bandwidth) == {rate}
    assert set(dict(pod.graph.degree).values()) == {2 * len(pod.grid)}
    assert set(pod.hosts) == {0}


def test_ultraserver_is_slower_between_its_four_instances():
    server = topologies.build("torus", shape="4x4x4", accelerator="trainium2")
    assert server.size == 64
    rate = {frozenset(edge): link.bandwidth for *edge, link in server.graph.edges(data="link")}
    assert sorted(rate.values()) == [64e9] * 64 + [128e9] * 128
    assert rate[frozenset(["chip0", "chip1"])] == 128e9
    assert rate[frozenset(["chip0", "chip16"])] == 64e9
    assert set(topologies.build("torus,shape=4x4,accelerator=trainium2").links.bandwidth) == {128e9}


@pytest.mark.parametrize("shape", [(4, 5), (2, 2), (1, 6), (3, 2, 4), (7,), (2, 1, 2)])
def test_routes_go_round_each_ring_the_shorter_way_dimension_by_dimension(shape):
    torus = topologies.build("torus", shape=shape)
    sources, destinations = (place.ravel() for place in np.indices((torus.size, torus.size)))
    here, there = (np.array(np.unravel_index(ranks, shape)) for ranks in (sources, destinations))
    ahead = (there - here) % np.array(shape)[:, None]
    distance = np.minimum(ahead, np.array(shape)[:, None] - ahead)
    pair, link = torus.routes(sources, destinations)
    assert np.bincount(pair, minlength=len(sources)).tolist() == distance.sum(axis=0).tolist()
    tails, heads = (np.array(np.unravel_index(ends[link], shape)) for ends in (torus.links.tails, torus.links.heads))
    turned = np.argmax(tails != heads, axis=0)
    assert (np.diff(turned)[np.diff(pair) == 0] >= 0).all()


def test_an_even_ring_breaks_ties_upward():
    ring = topologies.build("torus", shape="6")
    assert stops(ring, 0, 3) == ["chip1", "chip2"]
    assert stops(ring, 4, 1) == ["chip5", "chip0"]


def test_a_dimension_of_two_has_one_link_and_one_of_one_none():
    torus = topologies.build("torus", shape="2x1x3")
    assert torus.graph.number_of_edges() == 3 + 2 * 3
    assert len(topologies.build("torus", shape="1").links) == 0


def test_slices_of_a_torus_are_joined_by_their_hosts_network():
    """Within a slice routes are those of the torus alone; between slices they go by cards of 25 Gb/s a chip."""
    one = topologies.build("torus,shape=3x4,accelerator=tpu_v5e")
    pod = topologies.build("torus,shape=3x4,accelerator=tpu_v5e,slices=3")
    assert (pod.size, pod.grid) == (36, (3, 3, 4))
    assert pod.hosts.tolist() == [0] * 12 + [1] * 12 + [2] * 12
    for source, destination in ((0, 1), (5, 11), (2, 9)):
        alone = [link.kind for link in one.route(source, destination)]
        assert [link.kind for link in pod.route(24 + source, 24 + destination)] == alone
    assert [(link.kind, link.bandwidth) for link in pod.route(0, 35)] == [("ethernet", 25e9 / 8)] * 2
    assert topologies.build("torus,shape=3x4,accelerator=tpu_v4,slices=2,nic_gbit=40").route(0, 12)[0].bandwidth == 5e9
    with pytest.raises(ValueError, match="nic_gbit of TPU v4 is not known"):
        topologies.build("torus,shape=3x4,accelerator=tpu_v4,slices=2")
    assert "one slice has nobody" in topologies.build("torus,shape=3x4,nic_gbit=40").warnings[0]


def test_another_order_of_devices_is_no_grid():
    torus = topologies.build("torus", shape="2x3")
    assert torus.replace(devices=torus.devices[::-1]).grid == ()
    with pytest.raises(ValueError, match=r"a grid of \(2, 2\) for 6 devices"):
        torus.replace(grid=(2, 2))


def test_at_most_three_hops_between_switches():
    cluster = topologies.build("dragonfly", groups=5, switches_per_group=3, nodes_per_switch=2)
    ranks = np.arange(0, cluster.size, 4)
    sources, destinations = (each.ravel() for each in np.meshgrid(ranks, ranks))
    pair, link = cluster.routes(sources, destinations)
    fabric = cluster.links.codes[link] == cluster.links.kinds.index("fabric")
    hops = np.bincount(pair[fabric], minlength=len(sources))
    assert hops.max() == 3
    group = sources // (3 * 2 * 4) == destinations // (3 * 2 * 4)
    assert hops[group].max() == 1


def test_groups_are_meshes_joined_pairwise():
    cluster = topologies.build("dragonfly", groups=5, switches_per_group=3)
    switches = nx.subgraph(cluster.graph, [f"switch{number}" for number in range(15)])
    assert switches.number_of_edges() == 5 * math.comb(3, 2) + math.comb(5, 2)
    quotient = {frozenset(int(end.removeprefix("switch")) // 3 for end in edge) for edge in switches.edges}
    assert {frozenset(pair) for pair in combinations(range(5), 2)} <= quotient


def test_global_links_of_a_dragonfly_are_tapered():
    cluster = topologies.build("dragonfly", groups=5, switches_per_group=4, nodes_per_switch=2, oversubscription=4)
    cards = 4 * 2 * 4 * 25e9
    across = [
        link.bandwidth
        for tail, head, link in cluster.graph.edges(data="link")
        if link.kind == "fabric" and int(tail[6:]) // 4 != int(head[6:]) // 4
    ]
    assert sum(across) * 2 == pytest.approx(5 * cards / 4)


def test_nodes_are_boards_of_four_or_switched_eights():
    assert rates(topologies.build("dragonfly"), 0, 3) == [100e9]
    assert rates(topologies.build("dragonfly", gpus_per_node=8, accelerator="a100_80gb"), 0, 3) == [300e9] * 2
    single = topologies.build("dragonfly", gpus_per_node=1, accelerator="gh200")
    assert kinds(single, 0, 1) == ["slingshot"] * 2


def test_jean_zay_has_boards_of_four_that_meet_over_pcie():
    """300 GB/s to the board's others; two GPUs share 16 lanes to the rest; four cards of 100 Gb/s serve all eight."""
    cluster = topologies.build("jean_zay", nodes=2)
    assert (cluster.size, {chip.name for chip in cluster.accelerators}) == (16, {"A100-SXM4-80GB"})
    assert rates(cluster, 0, 3) == rates(cluster, 12, 14) == [300e9] * 2
    assert (kinds(cluster, 3, 4), rates(cluster, 3, 4)) == (["pcie"] * 4, [32e9] * 4)
    first, second = (cluster.routes([rank], [8])[1] for rank in (0, 1))
    assert first[0] != second[0]
    assert list(first[1:4]) == list(second[1:4])
    assert kinds(cluster, 0, 8) == ["pcie"] * 2 + ["omnipath"] * 2 + ["pcie"] * 2
    assert rates(cluster, 0, 8) == [32e9] * 2 + [4 * 100 * GBIT] * 2 + [32e9] * 2
    assert topologies.build("jean_zay").size == 48 * 8


@pytest.mark.parametrize(
    ("accelerator", "size", "kind", "rate"),
    [
        ("mi300x", 8, "xgmi", 448e9 / 7),
        ("mi325x", 8, "xgmi", 448e9 / 7),
        ("mi355x", 8, "xgmi", 535.5e9 / 7),
        ("a100_40gb", 4, "nvlink", 300e9 / 3),
        ("gh200", 4, "nvlink", 450e9 / 3),
    ],
)
def test_every_pair_of_a_mesh_has_its_own_link(accelerator, size, kind, rate):
    cluster = topologies.build("full_mesh", nodes=2, accelerator=accelerator, gpus_per_node=size)
    pairs = [(one, other) for one in range(2 * size) for other in range(2 * size) if one // size == other // size]
    for one, other in pairs:
        assert [(link.kind, link.bandwidth) for link in cluster.route(one, other)] == [(kind, rate)] * (one != other)
    assert kinds(cluster, 0, size) == ["roce"] * 2
    assert set(rates(topologies.build("full_mesh", pair_bandwidth=48e9), 0, 5)) == {48e9}


@pytest.mark.parametrize(("generation", "rate"), [(3, 16e9), (4, 32e9), (5, 64e9)])
def test_a_pcie_box_has_sixteen_lanes_everywhere(generation, rate):
    box = topologies.build("pcie_box", generation=generation)
    assert set(box.links.bandwidth) == {rate}
    assert set(box.links.kinds) == {"pcie"}
    assert stops(box, 0, 3) == ["pcieswitch0"]
    assert stops(box, 0, 4) == ["pcieswitch0", "bridge0", "pcieswitch1"]


def test_pcie_boxes_meet_over_cards_at_the_bridge():
    boxes = topologies.build("pcie_box", gpus=6, nodes=2, nics=2, nic_gbit=200, transport="infiniband")
    assert stops(boxes, 0, 11) == [
        "pcieswitch0",
        "bridge0",
        "nic0",
        "infiniband0",
        "nic1",
        "bridge1",
        "pcieswitch3",
    ]
    assert boxes.graph.edges["nic0", "infiniband0"]["link"].bandwidth == 2 * 25e9
    assert boxes.graph.edges["pcieswitch3", "bridge1"]["link"].bandwidth == 32e9


def test_mixed_accelerators_by_replacing_some():
    cluster = topologies.build("dgx_h100", nodes=2)
    mixed = cluster.replace(accelerators=cluster.accelerators[:8] + (accelerators.build("h200"),) * 8)
    assert mixed.description.startswith("8 H100-SXM5 + 8 H200-SXM in 2 nodes")
    assert mixed.router is cluster.router


@pytest.mark.parametrize("name", ["rail_optimized,nodes=3072", "torus,shape=16x20x28,accelerator=tpu_v5p"])
def test_large_clusters_are_routed_at_once(name):
    cluster = topologies.build(name)
    ranks = np.arange(cluster.size)
    pair, link = cluster.routes(ranks, (ranks * 7919 + 13) % cluster.size)
    assert len(np.unique(pair)) >= cluster.size - 1
    assert link.max() < len(cluster.links)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("dgx_h100,nodes=1,transport=efa", "transport=efa has no effect: one node has nobody to reach by its cards"),
        ("full_mesh,nics=4", "nics=4 has no effect: one node"),
        ("gb200_nvl72,nic_gbit=800", "nic_gbit=800 has no effect: one rack"),
        ("fat_tree,uplinks=4", "uplinks=4 has no effect: routing=spray hashes nothing"),
        ("fat_tree,routing=ecmp,seed=3", "routing=ecmp hashes every pair of devices by itself"),
        ("pcie_box,nics=2", "nics=2 has no effect: one box"),
        ("rail_optimized,nodes=1,nic_gbit=200", "nic_gbit=200 has no effect: one node"),
        ("hpn,routing=spray,seed=3", "seed=3 has no effect: routing=spray hashes nothing"),
    ],
)
def test_options_that_change_nothing_are_named(text, warning):
    (found,) = topologies.build(text).warnings
    assert found.startswith(warning)


@pytest.mark.parametrize("text", ["dgx_h100,nodes=2,transport=efa", "fat_tree,oversubscription=2", "dgx_h100"])
def test_options_that_count_are_not(text):
    assert topologies.build(text).warnings == ()


@pytest.mark.parametrize("nodes", [4, 5, 6, 8, 9])
def test_a_partly_filled_leaf_has_all_its_uplinks(nodes):
    """Hashed on parallel uplinks, no pair gets a slower one because its leaf has empty places."""
    cluster = topologies.build("fat_tree", nodes=nodes, routing="ecmp")
    assert {link.bandwidth for link in cluster.route(cluster.size - 1, 0)} == {50e9}
