"""Copies between accelerators and their hosts: closed forms, sharing, frames and pictures, exact folding."""

import pickle
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from random_programs import attempt, check, same_spans, systems

import topologies
from simulator import simulate
from simulator.fabrics import published
from topologies.hosts import NVME_LATENCY, NVME_READ, NVME_WRITE, Hosts
from topologies.link import PCIE_LATENCY
from workloads.mesh import DeviceMesh
from workloads.ops import Compute, HostCopy
from workloads.program import Program

GB = 1e9
SHARE = published().fabric("pcie", "H100-SXM5").share
PCIE5 = 63e9 * SHARE
ORDERS = ("1f1b", "gpipe", "shuffled")


def alike(ranks, *ops):
    """A program in which every rank does the same."""
    return Program.of(DeviceMesh({"dp": ranks}), {(): ops}, varies=())


def lone(ranks, *ops):
    """A program in which rank 0 alone does anything."""
    orders = {(place,): ops if place == 0 else () for place in range(ranks)}
    return Program.of(DeviceMesh({"dp": ranks}), orders, varies=("dp",))


def copy(kind="to_host", size=GB, name="copy", **options):
    return HostCopy(name=name, kind=kind, bytes=size, **options)


def gemm(name="gemm", after=()):
    return Compute(name=name, kind="gemm", flops=2.0 * 2**45, shape=(2**15, 2**15, 2**15), after=after)


def seconds(program, cluster, **options):
    return simulate(program, cluster, **options).step_time


# ------------------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("kind", ["to_host", "from_host"])
@pytest.mark.parametrize(
    ("accelerator", "rate"), [("h100", 63e9), ("a100_80gb", 31.5e9), ("gh200", 450e9), ("v100", 15.8e9)]
)
def test_a_copy_takes_its_bytes_over_the_achieved_rate_and_the_latency(kind, accelerator, rate):
    cluster = topologies.build("flat", ranks=2, accelerator=accelerator)
    assert seconds(alike(2, copy(kind)), cluster) == pytest.approx(GB / (rate * SHARE) + PCIE_LATENCY, rel=1e-12)


@pytest.mark.parametrize(("kind", "rate"), [("to_host", NVME_WRITE), ("from_host", NVME_READ)])
def test_eight_gpus_of_a_node_share_its_drives(kind, rate):
    """Each gets an eighth, and two nodes take no longer than one."""
    cluster = topologies.build("dgx_h100")
    latency = PCIE_LATENCY + NVME_LATENCY
    one = seconds(lone(8, copy(kind, medium="nvme")), cluster)
    assert one == pytest.approx(GB / rate + latency, rel=1e-12)
    eight = seconds(alike(8, copy(kind, medium="nvme")), cluster)
    assert eight - latency == pytest.approx(8 * (one - latency), rel=1e-12)
    assert seconds(alike(16, copy(kind, medium="nvme")), topologies.build("dgx_h100", nodes=2)) == eight


def test_fast_drives_leave_the_links_to_hosts_to_decide():
    cluster = topologies.build("dgx_h100,nvme_read=1e12")
    expected = GB / PCIE5 + PCIE_LATENCY + NVME_LATENCY
    assert seconds(alike(8, copy("from_host", medium="nvme")), cluster) == pytest.approx(expected, rel=1e-12)


def test_the_two_directions_do_not_hinder_each_other():
    """Nor do links to hosts of different devices: eight copies each way take one's time."""
    cluster = topologies.build("dgx_h100")
    both = alike(8, copy(), copy("from_host", name="in", stream="host_in"))
    assert seconds(both, cluster) == pytest.approx(seconds(lone(8, copy()), cluster), abs=1e-5)


def test_copies_of_one_stream_follow_each_other():
    cluster = topologies.build("dgx_h100")
    result = simulate(alike(8, copy(name="first"), copy("from_host", name="second")), cluster)
    assert result.step_time == pytest.approx(2 * (GB / PCIE5 + PCIE_LATENCY), rel=1e-9)


def test_two_streams_share_a_link_evenly():
    cluster = topologies.build("dgx_h100")
    program = alike(8, copy(name="short"), copy(name="long", size=3 * GB, stream="more"))
    ends = simulate(program, cluster).to_frame("spans").set_index("name")["end_seconds"]
    assert ends["short"] == pytest.approx(2 * GB / PCIE5, rel=1e-3)
    assert ends["long"] == pytest.approx(4 * GB / PCIE5, rel=1e-3)


def test_memory_and_drives_share_the_link_of_a_device():
    """A device's 44 GB/s carry 12.5 GB/s to the drives, and what is left to memory."""
    cluster = topologies.build("dgx_h100")
    program = lone(8, copy(name="drives", size=NVME_WRITE, medium="nvme"), copy(name="memory", size=GB, stream="more"))
    ends = simulate(program, cluster).to_frame("spans").set_index("name")["end_seconds"]
    assert ends["drives"] == pytest.approx(1.0, rel=1e-3)
    assert ends["memory"] == pytest.approx(GB / (PCIE5 - NVME_WRITE), rel=1e-2)


def test_a_copy_runs_beside_compute_and_takes_no_sms():
    cluster = topologies.build("dgx_h100")
    kernel = seconds(alike(8, gemm()), cluster)
    program = alike(8, copy(size=4e9), gemm())
    result = simulate(program, cluster)
    spans = result.to_frame("spans").set_index("name")
    assert kernel > 4e9 / PCIE5
    assert result.step_time == pytest.approx(kernel, abs=1e-5)
    assert spans.loc["copy", "end_seconds"] == pytest.approx(4e9 / PCIE5, rel=1e-3)
    assert result.exposed.get("host", 0.0) == 0.0


def test_a_copy_may_hold_the_compute_stream():
    """As older software copies: nothing runs meanwhile, and the wait is exposed."""
    cluster = topologies.build("dgx_h100")
    result = simulate(alike(8, gemm("first"), copy(stream="compute"), gemm("second")), cluster)
    assert result.step_time == pytest.approx(2 * seconds(alike(8, gemm()), cluster) + GB / PCIE5, rel=1e-3)
    assert result.exposed["host"] == pytest.approx(GB / PCIE5, rel=1e-3)


def test_without_contention_everybody_has_the_drives_alone():
    program, cluster = alike(8, copy(medium="nvme")), topologies.build("dgx_h100")
    assert seconds(program, cluster, network="unshared") == pytest.approx(GB / NVME_WRITE + 80.5e-6, rel=1e-12)


def test_a_copy_of_nothing_takes_the_latency():
    assert seconds(alike(2, copy(size=0.0)), "flat,ranks=2") == pytest.approx(PCIE_LATENCY, rel=1e-12)


def test_a_free_link_to_the_host_takes_the_latency():
    cluster = topologies.build("flat,ranks=2,accelerator=ideal")
    assert seconds(alike(2, copy()), cluster) == pytest.approx(PCIE_LATENCY, rel=1e-12)


# ------------------------------------------------------------------------------------------- rates and places


def test_rates_are_options_of_every_family():
    text = "dgx_h100,nodes=1,host_bandwidth=4e+10,nvme_write=5e+09"
    cluster = topologies.build(text)
    assert cluster.name == text
    assert seconds(alike(8, copy()), cluster) == pytest.approx(GB / (40e9 * SHARE) + PCIE_LATENCY, rel=1e-12)
    assert seconds(lone(8, copy(medium="nvme")), cluster) == pytest.approx(GB / 5e9 + 80.5e-6, rel=1e-12)


def test_rates_are_a_field_of_topologies():
    cluster = topologies.build("dgx_h100")
    changed = cluster.replace(host=Hosts(nvme_read=2 * NVME_READ))
    program = alike(8, copy("from_host", medium="nvme"))
    assert seconds(program, changed) == pytest.approx(seconds(program, cluster) / 2, rel=1e-2)


def test_a_file_says_how_fast_hosts_are(tmp_path):
    path = tmp_path / "lab.yaml"
    servers = "servers: [{gpus: 8, accelerator: h100, nic_gbit: 400}, {gpus: 4, accelerator: a100_80gb, nic_gbit: 200}]"
    path.write_text(f"{servers}\nhost: {{nvme_write: 50e9, devices: 4}}\n")
    cluster = topologies.build(str(path))
    assert cluster.host == Hosts(nvme_write=50e9, devices=4)
    assert seconds(alike(12, copy(medium="nvme")), cluster) == pytest.approx(4 * GB / 50e9 + 80.5e-6, rel=1e-12)
    path.write_text(f"{servers}\nhost: {{nvme: 50e9}}\n")
    with pytest.raises(ValueError, match="unknown key of host of the file 'nvme'; did you mean nvme_"):
        topologies.build(str(path))


def test_unequal_nodes_and_mixed_accelerators_use_what_they_have(tmp_path):
    """Eight H100 and four A100: drives are shared by eight and by four, links to hosts are of two generations."""
    path = tmp_path / "lab.yaml"
    entries = [("h100", 8, 400), ("a100_80gb", 4, 200)]
    lines = [f"  - {{gpus: {gpus}, accelerator: {chip}, nic_gbit: {rate}}}" for chip, gpus, rate in entries]
    path.write_text("\n".join(["servers:", *lines]))
    cluster = topologies.build(str(path))
    result = simulate(alike(12, copy(name="memory"), copy(name="drives", medium="nvme", stream="drives")), cluster)
    spans = result.to_frame("spans", expand=True).set_index(["rank", "name"])["end_seconds"]
    assert spans[0, "drives"] == pytest.approx(8 * GB / NVME_WRITE, rel=1e-3)
    assert spans[11, "drives"] == pytest.approx(4 * GB / NVME_WRITE, rel=1e-3)
    assert spans[0, "memory"] == pytest.approx(GB / (PCIE5 - NVME_WRITE / 8), rel=1e-2)
    assert spans[11, "memory"] == pytest.approx(GB / (31.5e9 * SHARE - NVME_WRITE / 4), rel=1e-2)


def test_gpus_of_a_tray_share_drives_not_those_of_a_rack():
    rack = topologies.build("gb200_nvl72")
    assert seconds(alike(72, copy(medium="nvme")), rack) == pytest.approx(4 * GB / NVME_WRITE + 80.5e-6, rel=1e-12)


def test_cards_in_a_box_copy_over_the_links_they_have():
    """Four of eight cards share the 16 lanes from their switch to the CPU, with what they send to each other."""
    box = topologies.build("pcie_box")
    assert seconds(lone(8, copy()), box) == pytest.approx(GB / (32e9 * SHARE) + 2 * PCIE_LATENCY, rel=1e-12)
    assert seconds(alike(8, copy()), box) == pytest.approx(4 * GB / (32e9 * SHARE) + 2 * PCIE_LATENCY, rel=1e-12)
    drives = box.with_hosts().links.kinds
    assert (len(box.links), len(box.with_hosts().links), drives) == (20, 23, ("pcie", "nvme", "dram"))
    warned = topologies.build("pcie_box,host_bandwidth=5e9").warnings
    assert warned == ("host_bandwidth=5e+09 has no effect: its CPUs are in the graph",)


@pytest.mark.parametrize("make", [nx.Graph, nx.DiGraph])
def test_a_graph_may_have_cpus_of_its_own(make):
    graph = make()
    graph.add_nodes_from(["a", "b"], device=True)
    graph.add_node("socket", cpu=True)
    rates = {("a", "socket"): 8e9, ("b", "socket"): 4e9, ("a", "b"): 1e9}
    for (tail, head), rate in rates.items():
        graph.add_edge(tail, head, bandwidth=rate)
        graph.add_edge(head, tail, bandwidth=rate)
    result = simulate(alike(2, copy()), topologies.from_graph(graph))
    assert sorted(result.to_frame("spans", expand=True)["end_seconds"]) == pytest.approx([GB / 8e9, GB / 4e9])


def test_cpus_and_drives_have_names_that_are_free():
    graph = nx.Graph()
    for rank in range(2):
        graph.add_node(rank, device=True, host=0)
        graph.add_edge(rank, "cpu0", bandwidth=1e9)
    with_hosts = topologies.from_graph(graph).with_hosts()
    assert set(with_hosts.graph) == {0, 1, "cpu0", "host-cpu0", "host-nvme0", "host-dram0"}


def test_an_accelerator_without_a_known_link_is_one_line():
    cluster = topologies.build("torus,shape=4x4,accelerator=tpu_v5e")
    with pytest.raises(ValueError, match=r"^rank 0 copies to_host, but no link of TPU v5e to its host is known; .*$"):
        simulate(alike(16, copy()), cluster)
    given = cluster.replace(host=Hosts(bandwidth=16e9))
    assert seconds(alike(16, copy()), given) == pytest.approx(GB / (16e9 * SHARE) + PCIE_LATENCY, rel=1e-12)


def test_only_ranks_that_copy_need_a_link():
    graph = nx.Graph()
    for rank, chip in enumerate(["h100", "tpu_v5e"]):
        graph.add_node(rank, device=True, accelerator=chip)
        graph.add_edge(rank, "switch", bandwidth=1e9)
    cluster = topologies.from_graph(graph)
    assert seconds(lone(2, copy()), cluster) == pytest.approx(GB / PCIE5 + PCIE_LATENCY, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nvme_read": 0.0}, "nvme_read=0.0 of hosts: bytes/s must be at least 1"),
        ({"bandwidth": 0.0}, "bandwidth=0.0 of hosts"),
        ({"devices": 1.5}, "devices=1.5 of hosts is not a whole number"),
        ({"devices": 0}, "devices=0 of hosts is not a whole number from 1"),
        ({"memory_bandwidth": None}, "memory_bandwidth=None of hosts: bytes/s must be at least 1"),
    ],
)
def test_impossible_hosts_fail_at_construction(changes, message):
    with pytest.raises(ValueError, match=message):
        Hosts(**changes)


@pytest.mark.parametrize("changes", [{"kind": "to_disk"}, {"medium": "tape"}, {"bytes": -1.0}])
def test_impossible_copies_fail_at_construction(changes):
    facts = {"name": "save", "kind": "to_host", "bytes": 1.0}
    with pytest.raises(ValueError, match=f"save: {next(iter(changes))}="):
        HostCopy(**(facts | changes))


# ------------------------------------------------------------------------------------------- the topology


def test_nobody_carries_more_links_unless_programs_copy():
    cluster = topologies.build("dgx_h100", nodes=2)
    result = simulate(alike(16, gemm()), cluster)
    assert result.timeline.quotient.topology is result.topology is cluster
    assert "with hosts" not in cluster.cache
    copied = simulate(alike(16, copy()), cluster)
    assert copied.topology is cluster
    assert copied.timeline.quotient.topology is cluster.with_hosts()


@pytest.mark.parametrize("text", ["dgx_h100,nodes=2", "torus,shape=2x2x2", "pcie_box,nodes=2"])
def test_hosts_lie_behind_the_links_that_a_topology_has(text):
    cluster = topologies.build(text)
    hosted = cluster.with_hosts()
    assert hosted.with_hosts() is hosted is cluster.with_hosts()
    assert hosted.bare is cluster
    count = len(cluster.links)
    assert hosted.links.ends[:count] == cluster.links.ends
    assert np.array_equal(hosted.links.bandwidth[:count], cluster.links.bandwidth)
    ranks = np.arange(cluster.size)
    for mine, theirs in zip(cluster.routes(ranks, ranks[::-1]), hosted.routes(ranks, ranks[::-1]), strict=True):
        assert np.array_equal(mine, theirs)
    assert np.array_equal(hosted.hosts, cluster.hosts)
    assert all(hosted.graph.edges[end]["link"] == hosted.links[link] for link, end in enumerate(hosted.links.ends))
    copied = pickle.loads(pickle.dumps(hosted))
    assert (copied.links.ends, copied.bare.name) == (hosted.links.ends, cluster.name)


def test_a_link_to_a_host_degrades_like_any_other():
    cluster = topologies.build("dgx_h100").degrade(link=("gpu3", "cpu0"), bandwidth=0.5)
    result = simulate(alike(8, copy()), cluster)
    ends = result.to_frame("spans", expand=True)["end_seconds"]
    assert result.rank_classes == 2
    assert ends[3] == pytest.approx(2 * GB / PCIE5, rel=1e-3)
    assert ends[4] == pytest.approx(GB / PCIE5, rel=1e-3)
    assert result.warnings == ()
    links = result.to_frame("links")
    assert links[links["degraded"] < 1][["source", "destination"]].values.tolist() == [["gpu3", "cpu0"]]
    back = simulate(alike(8, copy("from_host")), cluster)
    assert back.warnings == ("gpu3->cpu0 is degraded, but nothing crosses it in this run",)
    assert simulate(alike(8, gemm()), cluster).warnings == back.warnings
    weaker = cluster.with_hosts().degrade(link=("cpu0", "nvme0"), bandwidth=0.5)
    assert weaker.bare.link_factors == {("gpu3", "cpu0"): 0.5, ("cpu0", "nvme0"): 0.5}
    with pytest.raises(ValueError, match="links of gpu3 lead to nvswitch0, infiniband0, cpu0"):
        cluster.degrade(link=("gpu3", "cpu1"), bandwidth=0.5)


def test_other_accelerators_on_a_topology_with_hosts():
    hosted = topologies.build("dgx_h100").with_hosts()
    slower = hosted.replace(accelerators=(topologies.accelerators.build("v100"),) * 8)
    assert slower.links[slower.host_routes([0], "to_host")[1][0]].bandwidth == 15.8e9


# ------------------------------------------------------------------------------------------- what users see


@pytest.fixture(scope="module")
def offloaded():
    """Optimizer states come from drives before a kernel and go back after it, beside a copy to memory."""
    program = alike(
        16,
        copy("from_host", name="states", medium="nvme", stream="host_in"),
        copy(name="save"),
        gemm("forward"),
        gemm("optimizer", after=("states",)),
        copy(name="kept", medium="nvme", after=("optimizer",)),
    )
    return simulate(program, topologies.build("dgx_h100", nodes=2))


def test_spans_say_what_a_copy_was(offloaded):
    spans = offloaded.to_frame("spans").set_index("name")
    words = spans.loc[["states", "save", "kept"], ["work", "kind", "axis", "algorithm", "bytes", "stream"]]
    assert words.values.tolist() == [
        ["host_copy", "from_host", "host", "nvme_copy", GB, "host_in"],
        ["host_copy", "to_host", "host", "host_copy", GB, "host"],
        ["host_copy", "to_host", "host", "nvme_copy", GB, "host"],
    ]


def test_collectives_frame_has_a_row_for_each_kind_of_copy(offloaded):
    frame = offloaded.to_frame("collectives")
    assert frame[["axis", "kind", "algorithm", "ops"]].values.tolist() == [
        ["host", "from_host", "nvme_copy", 1],
        ["host", "to_host", "host_copy", 1],
        ["host", "to_host", "nvme_copy", 1],
    ]
    assert frame["transfer_seconds"].iloc[0] == pytest.approx(8 * GB / NVME_READ, rel=1e-3)


def test_links_of_hosts_carry_the_bytes_of_copies(offloaded):
    links = offloaded.to_frame("links")
    used = links[links["carried_bytes"] > 0].set_index(["source", "destination"])
    assert used["carried_bytes"].to_dict() == {
        ("gpu0", "cpu0"): 2 * GB,
        ("cpu0", "gpu0"): GB,
        ("cpu0", "nvme0"): 8 * GB,
        ("nvme0", "cpu0"): 8 * GB,
    }
    assert used["links_in_class"].tolist() == [16, 16, 2, 2]
    assert set(used["crossed_by"]) == {"host"}
    assert used["peak_flows"].max() == 8


def test_waiting_for_a_copy_is_exposed_under_host(offloaded):
    kernels = offloaded.mean_seconds["compute_seconds"]
    exposed = offloaded.step_time - kernels
    assert offloaded.exposed["host"] == pytest.approx(exposed, rel=1e-3)
    assert sum(offloaded.mean_seconds.values()) == pytest.approx(offloaded.step_time, rel=1e-9)
    assert "exposed host" in str(offloaded)


@pytest.mark.parametrize("plot", ["gantt", "links", "topology"])
def test_pictures_take_copies(offloaded, plot):
    axes = offloaded.plot(plot)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert {"gantt": "host copies", "links": "nvme", "topology": "nvlink"}[plot] in " ".join(labels)


def test_traces_have_a_thread_for_copies(offloaded, tmp_path):
    path = tmp_path / "step.json"
    offloaded.save_trace(path)
    text = path.read_text()
    assert '"cat":"host_copy"' in text
    assert '"name":"host_in"' in text


# ------------------------------------------------------------------------------------------- exact folding


@settings(max_examples=40, derandomize=True, deadline=None)
@given(systems(orders=ORDERS, copies=True), some.booleans())
def test_copies_fold_to_the_bit(system, launch):
    """On random plans and clusters, with copies to memory and drives, stragglers and weak links, also to hosts."""
    check(*system, launch=launch)


@settings(max_examples=15, derandomize=True, deadline=None)
@given(systems(orders=ORDERS, copies=True), some.booleans())
def test_copies_fold_with_short_cuts_and_actions(system, launch):
    for options in ({"detail": "ops"}, {"detail": "actions"}):
        folded, unfolded = (attempt(*system, fold=fold, launch=launch, **options) for fold in (True, False))
        assert (folded is None) == (unfolded is None)
        if folded is not None:
            same_spans(folded, unfolded, tolerance=1e-9)


@pytest.mark.slow
@settings(max_examples=1000, derandomize=True, deadline=None)
@given(systems(orders=ORDERS, copies=True), some.booleans())
def test_many_systems_with_copies_to_the_bit(system, launch):
    check(*system, launch=launch)


@settings(max_examples=15, derandomize=True, deadline=None)
@given(systems(ranks=16, orders=ORDERS, modes=("latency",), copies=True))
def test_links_of_hosts_carry_what_is_copied(system):
    program, cluster = system
    played = attempt(program, cluster)
    if played is None:
        return
    expected = {"to_host": 0.0, "from_host": 0.0}
    for rank_class in played.quotient.rank_classes:
        for entry in rank_class.order:
            for op in program.blocks[entry.block].ops:
                if isinstance(op, HostCopy):
                    expected[op.kind] += rank_class.ranks * op.bytes
    carried, ranks = played.bytes_on_links(), np.arange(cluster.size)
    ends, devices = cluster.with_hosts().links.ends, set(cluster.devices)
    for kind, size in expected.items():
        _, links = cluster.host_routes(ranks, kind)
        own = [link for link in links if not devices.isdisjoint(ends[link])]
        if min(own) < len(cluster.links):  # the links of a box carry messages, too
            assert carried[own].sum() >= size * (1 - 1e-9)
        else:
            assert carried[own].sum() == pytest.approx(size)


def test_one_straggler_splits_only_what_waits_for_it():
    """Eight GPUs write to drives after a kernel, of which one is slow: two classes, exact."""
    cluster = topologies.build("dgx_h100", nodes=2).degrade(rank=5, compute=0.5)
    program = alike(16, gemm(), copy(medium="nvme", after=("gemm",)))
    folded, unfolded = (simulate(program, cluster, fold=fold, shortcuts=False) for fold in (True, False))
    assert folded.rank_classes == 3
    times = ["start_seconds", "end_seconds"]
    assert np.array_equal(folded.to_frame("spans", expand=True)[times], unfolded.to_frame("spans", expand=True)[times])


def test_another_host_link_is_another_class():
    chips = [topologies.accelerators.build("h100")] * 8
    chips[2] = replace(chips[2], host_bandwidth=31.5e9)
    cluster = topologies.build("dgx_h100").replace(accelerators=tuple(chips))
    assert simulate(alike(8, copy()), cluster).rank_classes == 2
