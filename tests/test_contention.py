"""Collectives and messages that meet on links: fair shares, collisions, pods that all cross at once."""

from dataclasses import replace

import numpy as np
import pytest
from collective_cases import servers
from hypothesis import given, settings
from hypothesis import strategies as some
from random_programs import attempt, plans

import topologies
from simulator import simulate
from simulator.fabrics import published
from workloads.mesh import DeviceMesh
from workloads.ops import P2P, Collective
from workloads.program import Program

S = 1e9
STEADY = settings(max_examples=25, derandomize=True, deadline=None)


def flat(ranks, bandwidth=50e9):
    """One ideal switch without latency."""
    return topologies.build("flat", ranks=ranks, bandwidth=bandwidth, latency=0.0, accelerator="ideal")


def alike(mesh, *ops):
    """A program in which every rank does the same."""
    return Program.of(DeviceMesh(mesh), {(): ops}, varies=())


def stages(mesh, *ops):
    """A program with the ops of each place on pp."""
    return Program.of(DeviceMesh(mesh), {(stage,): each for stage, each in enumerate(ops)})


def together(name, axis="dp", size=S, kind="all_reduce"):
    """A collective on a stream of its own."""
    return Collective(name=name, stream=name, kind=kind, axes=(axis,), bytes=size)


def message(kind, name, size=S, **options):
    """A message one stage up, if not said otherwise, on a stream of its own."""
    return P2P(**{"axis": "pp", "offset": 1, "tag": name, **options}, kind=kind, name=name, stream=name, bytes=size)


def ends(program, cluster, **options):
    """When every op of every rank ends, by (rank, name)."""
    spans = simulate(program, cluster, **options).to_frame("spans", expand=True)
    return dict(zip(zip(spans["rank"], spans["name"], strict=True), spans["end_seconds"], strict=True))


def end(program, cluster, **options):
    return max(ends(program, cluster, **options).values())


def exactly(value):
    return pytest.approx(value, rel=1e-12)


# ------------------------------------------------------------------------------------------- fair shares


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("many", [1, 2, 3, 5])
def test_collectives_at_once_share_their_links(many, fold):
    """Several rings over the same ports take as many times 2(n−1)/n · S/B, each of them."""
    program = alike({"dp": 4}, *(together(f"{k}") for k in range(many)))
    times = ends(program, flat(4), fold=fold)
    assert list(times.values()) == [exactly(many * 2 * 3 / 4 * S / 50e9)] * 4 * many


def test_groups_of_two_axes_meet_at_every_port():
    """Rings along dp and along tp are different groups, but every rank has one port for both."""
    program = alike({"dp": 2, "tp": 2}, together("dp", "dp"), together("tp", "tp"))
    assert end(program, flat(4)) == exactly(2 * S / 50e9)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_the_shorter_one_leaves_and_the_longer_one_goes_on_alone(part):
    """The shorter one takes twice its time; the longer one its own time and the shorter one's."""
    alone = 2 * 3 / 4 * S / 50e9
    times = ends(alike({"dp": 4}, together("long"), together("short", size=part * S)), flat(4))
    assert times[0, "short"] == exactly(2 * part * alone)
    assert times[0, "long"] == exactly((1 + part) * alone)


def test_opposite_directions_do_not_meet():
    """Both ways at once take S/B, twice the same way 2S/B."""
    there, back = message("send", "there"), message("send", "back", offset=-1)
    arrives, returns = message("recv", "there"), message("recv", "back", offset=-1)
    assert end(stages({"pp": 2}, [there, returns], [arrives, back]), flat(2)) == exactly(S / 50e9)
    more, also = message("send", "more"), message("recv", "more")
    assert end(stages({"pp": 2}, [there, more], [arrives, also]), flat(2)) == exactly(2 * S / 50e9)


@pytest.mark.parametrize(("kinds", "times"), [(("broadcast", "reduce"), 1), (("broadcast", "broadcast"), 2)])
def test_collectives_of_opposite_directions_do_not_meet(kinds, times):
    """Away from the first of two members and towards it."""
    program = alike({"dp": 2}, *(together(f"{k}", kind=kind) for k, kind in enumerate(kinds)))
    assert end(program, flat(2)) == exactly(times * S / 50e9)


def test_hosts_with_links_of_their_own_do_not_meet():
    """A ring inside each host beside one across: links of either level are the other's business."""
    inside, across = together("tp", "tp"), together("dp", "dp")
    times = ends(alike({"dp": 2, "tp": 4}, inside, across), servers(4, 4))
    assert times[0, "tp"] == exactly(2 * 3 / 4 * S / 400e9)
    assert times[0, "dp"] == exactly(2 * 1 / 2 * S / 25e9)


@pytest.mark.parametrize("senders", [1, 2, 3])
def test_a_port_is_shared_by_all_who_send_to_it(senders):
    """Messages from 1, 2, 4 places below meet at every rank's port, each way."""
    shifts = [message("shift", f"{k}", offset=2**k) for k in range(senders)]
    assert end(alike({"pp": 8}, *shifts), flat(8)) == exactly(senders * S / 50e9)


# ------------------------------------------------------------------------------------------- background


BACKGROUND = {
    "flat": flat(8),
    "leaves": servers(2, 2, 2, 2, leaf=4, above=10e9),
    "nvlink": topologies.build("dgx_h100"),
    "llama": topologies.build("llama3_cluster,gpus=8"),
    "torus": topologies.build("torus,shape=2x4"),
    "mesh": topologies.build("full_mesh"),
    "box": topologies.build("pcie_box,gpus=4,nodes=2"),
}


@some.composite
def backgrounds(draw):
    """Up to four messages of everybody to somebody else, each on a stream of its own."""
    sizes, offsets = some.sampled_from([1e5, 1e7, 1e8, S]), some.sampled_from([-3, -1, 1, 2, 4])
    return [
        message("shift", f"m{k}", draw(sizes), axis="dp", offset=draw(offsets))
        for k in range(draw(some.integers(1, 4)))
    ]


@STEADY
@given(
    some.sampled_from(sorted(BACKGROUND)),
    some.sampled_from(["all_reduce", "all_gather", "all_to_all", "broadcast", "send_receive"]),
    some.sampled_from([(), (0, 1), (0, 7), (0, 2, 4, 6), (1, 2, 5)]),
    some.sampled_from([1e4, 1e7, S]),
    backgrounds(),
)
def test_background_traffic_never_speeds_up_a_collective(cluster, kind, members, size, background):
    """A single collective among some of 8 ranks, and messages from its start on."""
    topology = BACKGROUND[cluster]
    collective = replace(together("it", "dp", size, kind), positions=members)
    orders = ({(k,): _with(k, members, collective, more) for k in range(8)} for more in ([], background))
    alone, disturbed = (ends(Program.of(DeviceMesh({"dp": 8}), each, varies=("dp",)), topology) for each in orders)
    for key, time in alone.items():
        assert disturbed[key] >= time * (1 - 1e-12)


def _with(rank, members, collective, background):
    """What a rank does: the collective if it is a member, and the messages."""
    return [collective, *background] if rank in members or not members else background


# ------------------------------------------------------------------------------------------- crowded uplinks

ROCE = published().fabric("roce", "H100-SXM5").share
PODS = topologies.build("llama3_cluster,gpus=6144")
POD = 3072


def test_all_gpus_of_a_pod_crossing_at_once_get_7_gb_each():
    """1:7 oversubscribed: 50/7 GB/s for each of 3,072 GPUs, at RoCE's share of the line; one class of ranks."""
    result = simulate(alike({"pp": 2, "dp": POD}, message("shift", "cross")), PODS)
    assert result.rank_classes == 1
    assert S / result.step_time == pytest.approx(ROCE * 50e9 / 7, rel=2e-3)


def test_an_eighth_of_the_gpus_of_a_pod_is_not_held_up():
    """1/8 of the cards is less than the 1/7 that the spine carries: as fast as between two racks of one pod."""
    mesh = {"pp": 2, "node": POD // 8, "gpu": 8}
    orders = {(gpu,): [message("shift", "cross")] if gpu == 0 else [] for gpu in range(8)}
    racks = end(alike({"pp": 2, "tp": 16}, message("shift", "cross")), topologies.build("llama3_cluster,gpus=32"))
    assert end(Program.of(DeviceMesh(mesh), orders, ("gpu",)), PODS) == pytest.approx(racks, rel=1e-3)


def test_many_rings_between_pods_share_the_spine():
    """Pairs of GPUs of two pods reduce 1 GB each: S/B with the same 50/7 GB/s, at RoCE's share of the line."""
    assert end(alike({"dp": 2, "tp": POD}, together("dp")), PODS) == pytest.approx(S / (ROCE * 50e9 / 7), rel=0.01)


@pytest.mark.parametrize("flows", [4, 8, 16])
@pytest.mark.parametrize("seed", range(4))
def test_hash_collisions(seed, flows):
    """Flows hashed on as many uplinks of a card's rate: each has 1/k of the uplink that k of them are on."""
    cluster = servers(flows, flows, leaf=flows, card=50e9, planes=flows, seed=seed)
    pair, link = cluster.routes(range(flows), range(flows, 2 * flows))
    uplink = link[np.flatnonzero(np.diff(pair, prepend=-1)) + 1]
    sharing = (uplink == uplink[:, None]).sum(axis=1)
    program = stages({"pp": 2, "dp": flows}, [message("send", "it")], [message("recv", "it")])
    times = ends(program, cluster)
    arrived = [times[flows + flow, "it"] for flow in range(flows)]
    assert arrived == [exactly(count * S / 50e9) for count in sharing.tolist()]
    assert max(arrived) == exactly(np.unique(uplink, return_counts=True)[1].max() * S / 50e9)
    assert end(program, servers(flows, flows, leaf=flows, card=50e9)) == exactly(S / 50e9)


def test_eight_flows_collide_for_some_seed():
    cluster = [servers(8, 8, leaf=8, card=50e9, planes=8, seed=seed) for seed in range(4)]
    program = stages({"pp": 2, "dp": 8}, [message("send", "it")], [message("recv", "it")])
    assert max(end(program, each) for each in cluster) >= 2 * S / 50e9


@pytest.mark.parametrize("axis", ["unit", "pp", "dp"])
def test_a_weak_uplink_slows_those_who_cross_it(axis):
    """Four leaves of 4 ranks. Rings that cross leaf 0 take twice as long; others, and those inside leaves, do not."""
    cluster = servers(2, 2, 2, 2, 2, 2, 2, 2, leaf=4)
    weak = cluster.degrade(link=("leaf0", "spine0"), bandwidth=0.5)
    program = alike({"unit": 2, "pp": 2, "dp": 2, "tp": 2}, together(axis, axis))
    whole, slowed = ends(program, cluster), ends(program, weak)
    crossing = {"unit": {0, 1, 2, 3, 8, 9, 10, 11}, "pp": set(range(8)), "dp": set()}[axis]
    assert slowed == {key: exactly(time * (2 if key[0] in crossing else 1)) for key, time in whole.items()}


@pytest.mark.parametrize(("way", "times"), [(("leaf0", "spine0"), 2), (("spine0", "leaf0"), 1)])
def test_only_the_weak_direction_slows_messages(way, times):
    cluster = servers(4, 4, leaf=4)
    program = stages({"pp": 2, "dp": 4}, [message("send", "it")], [message("recv", "it")])
    assert end(program, cluster.degrade(link=way, bandwidth=0.5)) == exactly(times * end(program, cluster))


@pytest.mark.parametrize("fold", [True, False])
def test_without_contention_equal_messages_do_not_meet(fold):
    """Four messages at once over one uplink of four times 5 GB/s, each as if alone."""
    program = alike({"pp": 2, "dp": 4}, message("shift", "it"))
    assert end(program, servers(4, 4, leaf=4, above=5e9), network="unshared", fold=fold) == exactly(S / 20e9)


# ------------------------------------------------------------------------------------------- folding

SIXTEEN = [
    "fat_tree,nodes=2,nodes_per_leaf=1,routing=ecmp,uplinks=4,seed=3",
    "fat_tree,nodes=2,nodes_per_leaf=1,oversubscription=4",
    "rail_optimized,nodes=2,nodes_per_unit=1,oversubscription=2",
    "rail_optimized,nodes=2,nics=4,pxn=off",
    "torus,shape=4x4,accelerator=tpu_v5e",
    "torus,shape=2x2x4,accelerator=trainium2",
    "full_mesh,nodes=4,gpus_per_node=4,accelerator=gh200",
    "full_mesh,nodes=2",
    "dragonfly,groups=2,switches_per_group=2,nodes_per_switch=1",
    "dragonfly,groups=4,switches_per_group=1,nodes_per_switch=1,oversubscription=4",
    "hpn,nodes=2,nodes_per_segment=1",
    "dgx_h100,nodes=2,nics=2",
    "pcie_box,nodes=2",
    "ethernet,nodes=2",
]
MESHES = [
    *({"pp": 2, "dp": 2, "cp": 2, "tp": 2}, {"pp": 4, "dp": 4, "cp": 1, "tp": 1}, {"pp": 2, "dp": 2, "cp": 1, "tp": 4}),
    *({"pp": 1, "dp": 8, "cp": 1, "tp": 2}, {"pp": 1, "dp": 4, "cp": 4, "tp": 1}, {"pp": 1, "dp": 2, "cp": 1, "tp": 8}),
]


def assert_folded_to_the_bit(program, cluster):
    """Spans of every rank, bytes on every link, and the verdict of deadlock."""
    folded, unfolded = (attempt(program, cluster, fold=fold, shortcuts=False) for fold in (True, False))
    assert (folded is None) == (unfolded is None)
    if folded is not None:
        assert all(folded.spans(rank) == unfolded.spans(rank) for rank in range(cluster.size))
        np.testing.assert_allclose(folded.bytes_on_links(), unfolded.bytes_on_links(), rtol=1e-12)
    return folded


@pytest.mark.parametrize("name", SIXTEEN)
@settings(max_examples=6, derandomize=True, deadline=None)
@given(plans(ranks=16, modes=("latency", "send_block")), some.sampled_from(MESHES), some.data())
def test_folding_is_exact_where_traffic_meets(name, plan, mesh, data):
    """Whole random steps, sometimes with a weak link."""
    cluster = topologies.build(name)
    for link in data.draw(some.lists(some.sampled_from(cluster.links.ends), max_size=1)):
        cluster = cluster.degrade(link=link, bandwidth=0.5)
    assert_folded_to_the_bit(replace(plan, mesh=DeviceMesh(mesh)).program(), cluster)


@pytest.mark.parametrize("name", SIXTEEN)
@pytest.mark.parametrize("mesh", [{"pp": 2, "dp": 8}, {"pp": 4, "dp": 4}, {"pp": 8, "dp": 2}])
def test_folding_is_exact_for_rings_and_messages_at_once(name, mesh):
    """All-reduce along one axis, exchange both ways along the other, all-to-all among all."""
    everybody = Collective(name="all", stream="all", kind="all_to_all", axes=("pp", "dp"), bytes=3e7)
    shifts = message("shift", "up", 5e7), message("shift", "down", 2e7, offset=-1)
    assert_folded_to_the_bit(alike(mesh, together("dp", size=1e8), *shifts, everybody), topologies.build(name))
