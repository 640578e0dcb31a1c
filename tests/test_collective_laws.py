"""Laws of collectives: what doubling, relabelling, degrading and mixing do, on ideal and on real clusters."""

import numpy as np
import pytest
from collective_cases import (
    DOES,
    GIBI,
    KIBI,
    LAYOUTS,
    LEGAL,
    ORDERED,
    PASSES,
    STEADY,
    S,
    built,
    bytes_on_links,
    exactly,
    flat,
    seconds,
    timed,
)
from hypothesis import given, settings
from hypothesis import strategies as some

import topologies
from topologies import accelerators

# ------------------------------------------------------------------------------------------- metamorphic

CASES = [
    (algorithm, kind, layout)
    for algorithm in sorted(DOES)
    for layout in sorted(LEGAL[algorithm])
    for kind in DOES[algorithm]
]


def of_cases(test):
    return STEADY(given(some.sampled_from(CASES), some.data())(test))


def slower(cluster, factor, links=None):
    """Some links, by id, or all at a share of their bandwidth."""
    links = range(len(cluster.links)) if links is None else links
    return cluster.replace(link_factors={cluster.links.ends[link]: factor for link in links})


@pytest.mark.parametrize(("algorithm", "kind", "layout"), CASES)
def test_half_the_bandwidth_takes_twice_as_long(algorithm, kind, layout):
    """Exactly, on links without latency or software."""
    group = LAYOUTS[layout]
    whole, half = (
        seconds(algorithm, kind, each, ranks=group.members) for each in (group.cluster, slower(group.cluster, 0.5))
    )
    assert half == 2 * whole


@of_cases
def test_a_link_that_carries_nothing_changes_nothing(case, data):
    algorithm, kind, layout = case
    group = LAYOUTS[layout]
    whole = built(algorithm, kind, group.cluster, ranks=group.members)
    idle = np.flatnonzero(bytes_on_links(whole, group.cluster) == 0).tolist()
    some_idle = data.draw(some.sets(some.sampled_from(idle))) if idle else ()
    again = seconds(algorithm, kind, slower(group.cluster, 0.01, some_idle), ranks=group.members)
    assert again == whole.seconds(group.cluster)[0]


@of_cases
def test_a_weaker_link_is_never_faster(case, data):
    """Nor slower than if all were as weak."""
    algorithm, kind, layout = case
    group, factor = LAYOUTS[layout], data.draw(some.floats(0.1, 1.0))
    link = data.draw(some.integers(0, len(group.cluster.links) - 1))
    whole, weak, weaker = (
        seconds(algorithm, kind, each, ranks=group.members)
        for each in (group.cluster, slower(group.cluster, factor, [link]), slower(group.cluster, factor))
    )
    assert whole * (1 - 1e-12) <= weak <= weaker * (1 + 1e-12)


@settings(max_examples=15, derandomize=True, deadline=None)
@given(
    some.sampled_from([each for each in sorted(DOES) if each not in ORDERED]),
    some.sampled_from(["dgx_h100,nodes=4", "full_mesh,nodes=2", "flat"]),
    some.data(),
)
def test_relabelling_members_changes_nothing(algorithm, cluster, data):
    """Members in any order, of hosts in any order."""
    topology, kind = topologies.build(cluster), DOES[algorithm][0]
    order = data.draw(some.permutations(range(topology.size)))
    try:
        whole = timed(kind, 1e8, topology, algorithm=algorithm).seconds
    except ValueError:
        return
    assert timed(kind, 1e8, topology, order, algorithm).seconds == exactly(whole)


@pytest.mark.parametrize("way", [("gpu3", "switch0"), ("switch0", "gpu3")])
@pytest.mark.parametrize("kind", PASSES)
def test_the_slowest_member_decides(kind, way):
    """One port at half its rate slows a ring as much as if all were."""
    one, all_of_them = flat(8).degrade(link=way, bandwidth=0.5), slower(flat(8), 0.5)
    assert seconds("ring", kind, one) == seconds("ring", kind, all_of_them)


def test_only_the_direction_in_use_matters():
    """The first member of a broadcast receives nothing, the last one of a chain sends nothing."""
    for link, slow in {("gpu0", "switch0"): 2, ("switch0", "gpu0"): 1, ("gpu7", "switch0"): 1}.items():
        weak = flat(8).degrade(link=link, bandwidth=0.5)
        assert seconds("broadcast", "broadcast", weak) == exactly(slow * S / 50e9)


@pytest.mark.parametrize("kind", PASSES)
@pytest.mark.parametrize("other", ["a100_80gb", "b200", "mi300x"])
def test_a_mixed_group_is_no_faster_than_any_of_its_kind(kind, other):
    """The worse of every constant."""
    h100 = topologies.build("dgx_h100,nodes=2")
    others = h100.replace(accelerators=(accelerators.build(other),) * 16)
    mixed = h100.replace(accelerators=h100.accelerators[:8] + others.accelerators[8:])
    for size in (KIBI, 1e8, GIBI):
        pure = [timed(kind, size, each, algorithm="ring").seconds for each in (h100, others)]
        assert timed(kind, size, mixed, algorithm="ring").seconds >= max(pure) * (1 - 1e-12)


@pytest.mark.parametrize("kind", PASSES)
@pytest.mark.parametrize("other", ["a100_80gb", "b200", "mi300x"])
def test_accelerators_outside_a_group_change_nothing(kind, other):
    h100 = topologies.build("dgx_h100,nodes=2")
    mixed = h100.replace(accelerators=h100.accelerators[:8] + (accelerators.build(other),) * 8)
    alone, beside = (timed(kind, GIBI, each, range(8)) for each in (h100, mixed))
    assert (beside.algorithm, beside.seconds) == (alone.algorithm, alone.seconds)
