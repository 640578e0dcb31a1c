"""Collectives by themselves: closed forms on ideal links, bytes by definition, laws, trends of the real constants."""

import math

import networkx as nx
import numpy as np
import pytest
from collective_cases import (
    CROSSED,
    DOES,
    LAYOUTS,
    LEGAL,
    OWN_PATHS,
    PASSES,
    RING_KINDS,
    Layout,
    S,
    built,
    bytes_on_links,
    exactly,
    flat,
    ideal_torus,
    seconds,
    servers,
    timed,
)

import topologies
from simulator import collectives


def test_the_tables_of_algorithms_agree():
    """What an algorithm does, where it is legal, what it moves; for one that is not in them the rest holds."""
    assert sorted(DOES) == sorted(LEGAL) == sorted(CROSSED)
    assert set(DOES) <= set(collectives.names())


# ------------------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize(("algorithm", "steps"), [("ring", 14), ("direct", 2)])
def test_100_mb_among_8_ranks_of_one_switch(algorithm, steps):
    """2(n−1)/n · S/B = 3.50 ms, whichever way; each of the steps costs a hop of 10 ns."""
    done = timed("all_reduce", 100e6, flat(8, latency=5e-9), algorithm=algorithm)
    assert done.seconds == pytest.approx(3.5e-3, rel=1e-3)
    assert done.seconds - timed("all_reduce", 100e6, flat(8), algorithm=algorithm).seconds == pytest.approx(
        steps * 10e-9
    )


@pytest.mark.parametrize("ranks", [2, 3, 8, 17])
@pytest.mark.parametrize(("kind", "passes"), RING_KINDS)
@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_on_one_switch(algorithm, kind, passes, ranks):
    """Passes · (n−1)/n · S/B."""
    assert seconds(algorithm, kind, flat(ranks)) == exactly(passes * (ranks - 1) / ranks * S / 50e9)


@pytest.mark.parametrize("ranks", [2, 3, 8, 72])
def test_in_switch(ranks):
    """(1 + 1/n) · S/B."""
    assert seconds("in_switch", "all_reduce", flat(ranks)) == exactly((1 + 1 / ranks) * S / 50e9)


@pytest.mark.parametrize(("hosts", "times"), [(2, 1), (3, 1.5), *((hosts, 2) for hosts in range(4, 18))])
def test_tree_between_single_members(hosts, times):
    """The busiest host carries the buffer once with two hosts, 1.5 times with three, twice from four on."""
    assert seconds("tree", "all_reduce", flat(hosts)) == exactly(times * S / 50e9)


@pytest.mark.parametrize(("hosts", "times"), [(2, 1), (3, 1.5), (4, 2), (7, 2)])
@pytest.mark.parametrize("each", [2, 4, 8])
def test_tree_between_hosts_uses_all_their_cards(hosts, each, times):
    assert seconds("tree", "all_reduce", servers(*[each] * hosts, inside=math.inf)) == exactly(times * S / each / 25e9)


@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
@pytest.mark.parametrize(("kind", "passes"), RING_KINDS)
def test_recursive(kind, passes, ranks):
    """A pass halves or doubles: S/2 + S/4 + … = (n−1)/n · S, one phase each."""
    done = built("recursive", kind, flat(ranks))
    assert done.seconds(flat(ranks)) == exactly(passes * (ranks - 1) / ranks * S / 50e9)
    assert len(done.phases) == passes * math.log2(ranks)


@pytest.mark.parametrize("inside", [10e9, 100e9, 1000e9])
@pytest.mark.parametrize(("hosts", "each"), [(2, 2), (2, 8), (3, 4), (5, 3)])
@pytest.mark.parametrize(("kind", "passes"), RING_KINDS)
def test_ring_over_hosts(kind, passes, hosts, each, inside):
    """Passes · (n−1)/n · S over the slower of K cards and of links inside, which (g−1)/g of a ring's hops cross."""
    ranks = hosts * each
    slowest = min(each * 25e9, inside * each / (each - 1))
    time = seconds("ring", kind, servers(*[each] * hosts, inside=inside))
    assert time == exactly(passes * (ranks - 1) / ranks * S / slowest)


@pytest.mark.parametrize(("kind", "passes"), RING_KINDS)
def test_ring_over_uneven_hosts(kind, passes):
    """As many rings as the smallest of 4, 3 and 2 has members, one card each."""
    time = seconds("ring", kind, servers(4, 3, 2, inside=math.inf))
    assert time == exactly(passes * 8 / 9 * S / (2 * 25e9))


@pytest.mark.parametrize("inside", [10e9, 100e9, 1000e9])
@pytest.mark.parametrize(("hosts", "each"), [(2, 2), (2, 8), (3, 4), (5, 3)])
@pytest.mark.parametrize(("kind", "passes"), RING_KINDS)
def test_hierarchical(kind, passes, hosts, each, inside):
    """The slower of passes·(g−1)/g·S/B inside and passes·(N−1)/N·(S/g)/B across."""
    levels = (each - 1) / each * S / inside, (hosts - 1) / hosts * S / each / 25e9
    time = seconds("hierarchical", kind, servers(*[each] * hosts, inside=inside))
    assert time == exactly(passes * max(levels))


@pytest.mark.parametrize("inside", [10e9, 1000e9])
@pytest.mark.parametrize(("hosts", "times"), [(2, 1), (3, 1.5), (4, 2)])
def test_in_switch_tree(hosts, times, inside):
    """The slower of (1 + 1/g)·S/B inside and c·S/(K·B) across."""
    time = seconds("in_switch_tree", "all_reduce", servers(*[4] * hosts, inside=inside))
    assert time == exactly(max((1 + 1 / 4) * S / inside, times * S / 4 / 25e9))


@pytest.mark.parametrize("inside", [10e9, 1000e9])
@pytest.mark.parametrize(("hosts", "each"), [(2, 8), (3, 4), (6, 1)])
def test_in_network(hosts, each, inside):
    """S/(K·B), or (1 + 1/g)·S/B inside if that is slower."""
    time = seconds("in_network", "all_reduce", servers(*[each] * hosts, inside=inside))
    assert time == exactly(max(S / each / 25e9, (each > 1) * (1 + 1 / each) * S / inside))


def test_in_network_above_leaves():
    """Two hosts of 4 below each of two leaves: their uplinks carry the buffer once, merged, not once a host."""
    cluster = servers(4, 4, 4, 4, leaf=8, inside=math.inf, card=math.inf, above=25e9)
    assert seconds("in_network", "all_reduce", cluster) == exactly(S / (8 * 25e9))


@pytest.mark.parametrize("inside", [1e9, 10e9, 1000e9])
@pytest.mark.parametrize(("hosts", "each"), [(2, 2), (2, 8), (3, 4)])
def test_all_to_all(hosts, each, inside):
    """The slower of (g−1)/n·S/B inside and (n−g)/n·S/B across, by every member's own card."""
    ranks, cluster = hosts * each, servers(*[each] * hosts, inside=inside)
    levels = (each - 1) / ranks * S / inside, (ranks - each) / ranks * S / 25e9
    assert seconds("pairwise", "all_to_all", cluster) == exactly(max(levels))


@pytest.mark.parametrize("inside", [1e9, 10e9, 1000e9])
@pytest.mark.parametrize(("hosts", "each"), [(2, 2), (2, 8), (3, 4)])
def test_rail_local(hosts, each, inside):
    """(g−1)/g of the buffer inside, (N−1)/N of it along the rail: as much over cards as without, more inside."""
    levels = (each - 1) / each * S / inside, (hosts - 1) / hosts * S / 25e9
    assert seconds("rail_local", "all_to_all", servers(*[each] * hosts, inside=inside)) == exactly(max(levels))


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
def test_broadcast(kind):
    """A pipelined chain moves S/B on one switch; S/(K·B) across hosts, by all cards."""
    assert seconds("broadcast", kind, flat(8)) == exactly(S / 50e9)
    assert seconds("broadcast", kind, servers(4, 4, 4, inside=math.inf)) == exactly(S / (4 * 25e9))


def test_send_receive():
    """Every member sends its buffer to the next one: S/B."""
    assert seconds("send_receive", "send_receive", flat(8)) == exactly(S / 50e9)
    assert seconds("send_receive", "send_receive", servers(4, 4)) == exactly(S / 25e9)


@pytest.mark.parametrize("sides", [(4, 4, 4), (8, 8), (3, 3, 3), (5,)])
@pytest.mark.parametrize(("kind", "passes"), RING_KINDS)
def test_torus_of_equal_sides(kind, passes, sides):
    """Passes · (n−1)/n · S over 2d links."""
    ranks = math.prod(sides)
    expected = passes * (ranks - 1) / ranks * S / (2 * len(sides) * 50e9)
    assert seconds("torus", kind, ideal_torus(*sides)) == exactly(expected)


@pytest.mark.parametrize("sides", [(2, 8), (2, 3, 4), (1, 4, 6)])
@pytest.mark.parametrize("kind", PASSES)
def test_a_turned_torus_is_the_same(kind, sides):
    """Parts go through the dimensions in a cycle, so turned means each dimension one place on."""
    times = [seconds("torus", kind, ideal_torus(*sides[turn:], *sides[:turn])) for turn in range(len(sides))]
    assert times == [exactly(times[0])] * len(sides)


@pytest.mark.parametrize("sides", [(2, 8), (4, 4, 4)])
def test_halves_of_an_all_reduce_on_a_torus(sides):
    whole, *halves = (seconds("torus", kind, ideal_torus(*sides)) for kind in PASSES)
    assert halves == [exactly(whole / 2)] * 2


# ------------------------------------------------------------------------------------------- bytes on links


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("algorithm", sorted(DOES))
def test_bytes_are_those_of_the_definition_or_it_refuses(algorithm, layout):
    """Over all links together, for all kinds of collectives; what does not fit is refused in one line."""
    group = LAYOUTS[layout]
    for kind in collectives.KINDS:
        if kind in DOES[algorithm] and layout in LEGAL[algorithm]:
            carried = bytes_on_links(built(algorithm, kind, group.cluster, ranks=group.members), group.cluster)
            if (algorithm, layout) not in OWN_PATHS:
                assert carried.sum() == exactly(CROSSED[algorithm](group, PASSES.get(kind, 1)) * S)
        else:
            with pytest.raises(ValueError, match=r"need|do") as caught:
                built(algorithm, kind, group.cluster, ranks=group.members)
            assert "\n" not in str(caught.value)


def in_and_out(algorithm, kind, group):
    """Bytes that leave and reach every member of a group."""
    carried, links = (
        bytes_on_links(built(algorithm, kind, group.cluster, ranks=group.members), group.cluster),
        group.cluster.links,
    )
    devices = [group.cluster.devices[rank] for rank in group.members]
    return [
        np.array([carried[[pair[end] == device for pair in links.ends]].sum() for device in devices]) for end in (0, 1)
    ]


@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - {"torus", "part of a torus"}))
@pytest.mark.parametrize("algorithm", ["ring", "direct", "recursive", "pairwise"])
def test_every_member_sends_and_receives_its_part(algorithm, layout):
    """Passes · (n−1)/n of the buffer out of every member and into it, however unequal the hosts are."""
    group = LAYOUTS[layout]
    for kind in DOES[algorithm] if layout in LEGAL[algorithm] else ():
        expected = PASSES.get(kind, 1) * (len(group.members) - 1) / len(group.members) * S
        for flow in in_and_out(algorithm, kind, group):
            np.testing.assert_allclose(flow, expected, rtol=1e-12)


@pytest.mark.parametrize(("kind", "passes"), RING_KINDS)
@pytest.mark.parametrize("hosts", [2, 3, 4])
def test_rings_use_all_cards_alike(hosts, kind, passes):
    """With as many rings as cards, each card carries its part out and in; and so does each link inside."""
    cluster, ranks = servers(*[4] * hosts), 4 * hosts
    carried, kinds = bytes_on_links(built("ring", kind, cluster), cluster), np.array(cluster.links.kinds)
    ring = passes * (ranks - 1) / ranks * S
    across = kinds[cluster.links.codes] == "across"
    np.testing.assert_allclose(carried[across], ring / 4, rtol=1e-12)
    np.testing.assert_allclose(carried[~across], ring * 3 / 4, rtol=1e-12)


@pytest.mark.parametrize("kind", PASSES)
def test_all_links_of_a_square_torus_work_alike(kind):
    carried = bytes_on_links(built("torus", kind, ideal_torus(4, 4)), ideal_torus(4, 4))
    np.testing.assert_allclose(carried, PASSES[kind] * 15 / 16 * S / 4, rtol=1e-12)


def test_a_root_receives_nothing_and_all_others_the_whole_buffer():
    _, received = in_and_out("broadcast", "broadcast", Layout.of(servers(4, 4)))
    np.testing.assert_allclose(received, [0.0] + [S] * 7, rtol=1e-12)


def test_the_root_is_the_first_member():
    """Rank 1 sends to rank 0, over its own weak uplink."""
    weak = flat(4).degrade(link=("gpu1", "switch0"), bandwidth=0.5)
    assert seconds("broadcast", "broadcast", weak, ranks=[1, 0]) == exactly(2 * S / 50e9)
    assert seconds("broadcast", "reduce", weak, ranks=[1, 0]) == exactly(S / 50e9)


# ------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("algorithm", sorted(DOES))
def test_a_refusal_of_a_kind_names_the_algorithm(algorithm):
    layout = LAYOUTS[sorted(LEGAL[algorithm])[0]]
    for kind in set(collectives.KINDS) - set(DOES[algorithm]):
        with pytest.raises(ValueError, match=f"{algorithm}.* do(es)? not do {kind}"):
            built(algorithm, kind, layout.cluster, ranks=layout.members)


@pytest.mark.parametrize(
    ("algorithm", "kind", "layout", "why"),
    [
        ("recursive", "all_reduce", "uneven hosts", "recursive needs a power of two of members, not 9; nearest: 8, 16"),
        ("in_switch", "all_reduce", "mesh", "in_switch needs all 4 members below one switch"),
        ("in_switch", "all_reduce", "two hosts", "in_switch needs all 8 members below one switch"),
        ("in_switch_tree", "all_reduce", "two meshes", "in_switch_tree needs two hosts or more, .* switch"),
        ("in_switch_tree", "all_reduce", "one host", "in_switch_tree needs two hosts or more, .* 8 members are on 1"),
        ("in_network", "all_reduce", "one host", "in_network needs two hosts or more; all 8 members are on one"),
        ("hierarchical", "all_gather", "one of each host", "hierarchical needs .* two or more, on each"),
        ("hierarchical", "all_gather", "uneven hosts", "hierarchical needs .* equally many"),
        ("rail_local", "all_to_all", "uneven hosts", "rail_local needs .* equally many"),
        ("rail_local", "all_to_all", "one host", "rail_local needs two hosts or more"),
        ("torus", "all_reduce", "one host", "torus needs groups that fill a box of a grid"),
    ],
)
def test_a_refusal_of_a_group_says_why(algorithm, kind, layout, why):
    group = LAYOUTS[layout]
    with pytest.raises(ValueError, match=f"^{why}"):
        built(algorithm, kind, group.cluster, ranks=group.members)


def test_a_torus_refuses_what_is_no_box():
    with pytest.raises(ValueError, match=r"^torus needs groups that fill a box of a grid; 3 members"):
        built("torus", "all_reduce", ideal_torus(4, 4), ranks=[0, 1, 4])


def test_networks_that_do_not_reduce():
    with pytest.raises(ValueError, match=r"^in_network needs switches that reduce: those of efa do not, of infiniband"):
        built("in_network", "all_reduce", topologies.build("dgx_h100,nodes=2,transport=efa"))


def test_in_network_without_a_switch():
    wires = nx.cycle_graph(3)
    nx.set_node_attributes(wires, True, "device")
    nx.set_edge_attributes(wires, 50e9, "bandwidth")
    with pytest.raises(ValueError, match=r"^in_network needs"):
        built("in_network", "all_reduce", topologies.from_graph(wires))


@pytest.mark.parametrize(("algorithm", "kind"), [("direct", "all_reduce"), ("pairwise", "all_to_all")])
def test_too_many_pairs(algorithm, kind):
    with pytest.raises(ValueError, match=algorithm):
        built(algorithm, kind, flat(1025))
