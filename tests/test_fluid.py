"""Sharing links and SMs: closed forms for small cases, the laws of max-min fairness for random ones."""

import random
from math import inf, isclose

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as some

from simulator.fluid import Sharing, max_min_rates
from simulator.instant import Instant
from simulator.network import SharedNetwork, UnsharedNetwork
from simulator.processor import Processor
from simulator.quotient import Stretch


def stretch(*links, work=1.0, cap=inf, **weights):
    """A stretch over links with weight 1, and over others (`l3=0.5`) with other weights."""
    loads = dict.fromkeys(links, ((1.0, 1),)) | {int(name[1:]): ((weight, 1),) for name, weight in weights.items()}
    return Stretch(0.0, work, cap, loads)


def rates(capacities, *flows):
    """Max-min rates of flows, each a stretch or a pair (stretch, priority)."""
    return max_min_rates([flow if isinstance(flow, tuple) else (flow, 1.0) for flow in flows], capacities)


# ------------------------------------------------------------------------------------------- closed forms


def test_two_flows_on_one_link_get_half_each():
    assert rates([10.0], stretch(0), stretch(0)) == [5.0, 5.0]


def test_a_flow_with_twice_the_priority_gets_twice_the_rate():
    assert rates([12.0], (stretch(0), 2.0), (stretch(0), 1.0)) == [8.0, 4.0]


def test_what_a_capped_flow_leaves_goes_to_the_other():
    assert rates([10.0], stretch(0, cap=3.0), stretch(0)) == [3.0, 7.0]


def test_the_rate_counts_on_the_most_loaded_link():
    """A link of weight 1/4 carries a quarter of the flow's bytes, so it may be four times slower."""
    assert rates([8.0, 2.0], stretch(0, l1=0.25)) == [8.0]
    assert rates([8.0, 1.0], stretch(0, l1=0.25)) == [4.0]


def test_parking_lot():
    """A flow over all of n equal links, and one flow on each: every flow gets half of a link."""
    long, *short = rates([6.0, 6.0, 6.0], stretch(0, 1, 2), stretch(0), stretch(1), stretch(2))
    assert (long, short) == (3.0, [3.0, 3.0, 3.0])


def test_a_flow_held_back_elsewhere_leaves_its_share():
    """Link 1 gives 1 to each of its two flows; link 0 has 10 − 1 left for the other."""
    assert rates([10.0, 2.0], stretch(0, 1), stretch(1), stretch(0)) == [1.0, 1.0, 9.0]


def test_nothing_limits_a_flow_on_free_links():
    assert rates([inf], stretch(0)) == [inf]
    assert rates([], stretch()) == [inf]


def test_one_entry_that_counts_for_many_is_as_many_flows():
    many = Stretch(0.0, 1.0, inf, {0: ((1.0, 3), (0.5, 2))})
    alone = [stretch(0)] * 3 + [stretch(l0=0.5)] * 2
    assert set(rates([7.0], *alone)) == set(rates([7.0], many))


# ------------------------------------------------------------------------------------------- laws


@some.composite
def contention(draw):
    """Capacities of some links, and flows with priorities on them."""
    numbers = some.sampled_from([0.1, 0.3, 1.0, 2.0, 7.0])
    capacities = draw(some.lists(numbers, min_size=1, max_size=5))
    places = some.integers(0, len(capacities) - 1)
    loads = some.dictionaries(places, some.tuples(numbers, some.integers(1, 3)).map(lambda load: (load,)), min_size=1)
    cap = some.sampled_from([inf, inf, 0.2, 1.0])
    stretches = some.builds(lambda load, most: Stretch(0.0, 1.0, most, load), loads, cap)
    return capacities, draw(some.lists(some.tuples(stretches, some.sampled_from([1.0, 2.0])), min_size=1, max_size=6))


def carried(flows, found, link):
    """Bytes per second over a link."""
    return sum(
        rate * weight * count
        for (each, _), rate in zip(flows, found, strict=True)
        for weight, count in each.loads.get(link, ())
    )


@given(contention())
def test_no_link_above_capacity_and_every_flow_has_a_bottleneck(case):
    """Max-min: a flow is at its own cap, or crosses a full link on which no flow has a higher level."""
    capacities, flows = case
    found = max_min_rates(flows, capacities)
    levels = [rate / priority for rate, (_, priority) in zip(found, flows, strict=True)]
    full = set()
    for link, capacity in enumerate(capacities):
        used = carried(flows, found, link)
        assert used <= capacity * (1 + 1e-12)
        full |= {link} if isclose(used, capacity, rel_tol=1e-9) else set()
    for (each, _), rate, level in zip(flows, found, levels, strict=True):
        rivals = {link: [levels[i] for i, (other, _) in enumerate(flows) if link in other.loads] for link in each.loads}
        bottleneck = any(link in full and level >= max(rivals[link]) * (1 - 1e-9) for link in rivals)
        assert bottleneck or rate == pytest.approx(each.rate_cap)


@given(contention(), some.randoms(use_true_random=False))
def test_the_order_of_flows_is_nothing(case, shuffler):
    capacities, flows = case
    order = list(range(len(flows)))
    shuffler.shuffle(order)
    found = max_min_rates(flows, capacities)
    assert max_min_rates([flows[place] for place in order], capacities) == [found[place] for place in order]


@given(contention())
def test_a_link_that_nobody_crosses_is_nothing(case):
    capacities, flows = case
    assert max_min_rates(flows, [*capacities, 1e-9]) == max_min_rates(flows, capacities)


@given(contention())
def test_links_that_are_left_out_decide_nothing(case):
    capacities, flows = case
    found = Sharing(capacities, [each for each, _ in flows]).rates(flows)
    assert [found[flow] for flow in flows] == pytest.approx(max_min_rates(flows, capacities), rel=1e-12)


@given(contention())
def test_a_faster_link_or_cap_never_slows_a_lone_flow(case):
    capacities, flows = case
    for flow in flows:
        assert max_min_rates([flow], [2 * each for each in capacities])[0] >= max_min_rates([flow], capacities)[0]


# ------------------------------------------------------------------------------------------- in time


def arrivals(capacities, *flows, network=SharedNetwork):
    """When flows, each (start, stretch), arrive."""
    environment = simpy.Environment()
    links = network(environment, Instant(environment), Sharing(capacities))
    found = [None] * len(flows)

    def send(number, start, each):
        yield environment.timeout(start)
        links.start(each, 1.0, each.work, lambda: found.__setitem__(number, environment.now))

    for number, (start, each) in enumerate(flows):
        environment.process(send(number, start, each))
    environment.run()
    return found


def test_a_flow_that_joins_halves_the_rate_from_then_on():
    """100 bytes at 10/s; 5 s in, 20 more bytes come: at 5/s they take 4 s, in which the first moves 20; 30 are left."""
    assert arrivals([10.0], (0, stretch(0, work=100.0)), (5, stretch(0, work=20.0))) == [12.0, 9.0]


def test_unshared_flows_do_not_meet():
    flows = (0, stretch(0, work=100.0)), (5, stretch(0, work=20.0))
    assert arrivals([10.0], *flows, network=UnsharedNetwork) == [10.0, 7.0]


def test_flows_on_different_links_do_not_meet():
    assert arrivals([10.0, 10.0], (0, stretch(0, work=100.0)), (5, stretch(1, work=20.0))) == [10.0, 7.0]


@settings(max_examples=50)
@given(some.lists(some.tuples(some.integers(0, 5), some.integers(1, 50)), min_size=1, max_size=6))
def test_a_link_that_is_always_busy_carries_its_capacity(sizes):
    """However flows of one link overlap, the last byte arrives when the link has worked off what came."""
    clock = 0.0
    for start, work in sorted(sizes):
        clock = max(clock, float(start)) + work / 4.0
    found = arrivals([4.0], *((start, stretch(0, work=float(work))) for start, work in sizes))
    assert max(found) == pytest.approx(clock)


@settings(max_examples=50)
@given(contention(), some.randoms(use_true_random=False))
def test_meeting_only_where_links_are_crowded_is_exact(case, random):
    """Arrivals equal those of a network that solves all flows together at every change."""
    capacities, flows = case
    sent = [
        (random.choice([0, 1, 1.5]), Stretch(0.0, random.choice([1.0, 4.0]), most.rate_cap, most.loads))
        for most, _ in flows
    ]
    assert arrivals(capacities, *sent) == pytest.approx(_fill_step_by_step(capacities, sent), rel=1e-9)


def _fill_step_by_step(capacities, flows):
    """When flows arrive, by solving all that are under way from one event to the next."""
    left, found, clock = [each.work for _, each in flows], [0.0] * len(flows), 0.0
    while any(left):
        there = [place for place, (start, _) in enumerate(flows) if start <= clock and left[place]]
        speeds = max_min_rates([(flows[place][1], 1.0) for place in there], capacities)
        until = [left[place] / speed for place, speed in zip(there, speeds, strict=True)]
        until += [start - clock for start, _ in flows if start > clock]
        for place, speed in zip(there, speeds, strict=True):
            rest = left[place] - speed * min(until)
            left[place] = rest if rest > 1e-12 else 0.0
            found[place] = clock + min(until)
        clock += min(until)
    return found


@given(some.permutations([(0, 4.0), (0, 4.0), (1, 2.0), (1, 8.0), (3, 1.0)]))
def test_equal_times_come_in_any_order(order):
    """The order in which simultaneous flows are started changes no bit of any arrival."""
    reference = dict(
        zip(sorted(order), arrivals([3.0], *((at, stretch(0, work=w)) for at, w in sorted(order))), strict=True)
    )
    found = arrivals([3.0], *((at, stretch(0, work=work)) for at, work in order))
    assert dict(zip(order, found, strict=True)) == reference


# ------------------------------------------------------------------------------------------- SMs


def ends(speed, sm_count, kernels, holds=()):
    """When kernels, each (start, seconds), end on a processor with SMs held, each (start, SMs)."""
    environment = simpy.Environment()
    processor = Processor(environment, Instant(environment), speed, sm_count)
    found = [None] * len(kernels)

    def run(number, start, seconds):
        yield environment.timeout(start)
        yield processor.start(seconds).event
        found[number] = environment.now

    def hold(start, sms):
        yield environment.timeout(start)
        processor.hold(sms)

    for start, sms in holds:
        environment.process(hold(start, sms))
    for number, (start, seconds) in enumerate(kernels):
        environment.process(run(number, start, seconds))
    environment.run()
    return found


def test_a_straggler_takes_longer():
    assert ends(0.5, 4, [(0, 3.0)]) == [6.0]


def test_held_sms_slow_a_kernel_by_their_share():
    """1 of 4 SMs held from 1 to 5: 4 s at 3/4 speed do 3 s of work."""
    assert ends(1.0, 4, [(0, 6.0)], [(1, 1), (5, -1)]) == [7.0]


def test_a_kernel_stands_still_while_all_sms_are_held():
    assert ends(1.0, 4, [(0, 6.0)], [(1, 3), (1, 1), (5, -4)]) == [10.0]


def test_two_kernels_share_evenly():
    """Both at half speed until the shorter one's 1 s is done at 2; 2 s are left of the longer one."""
    assert ends(1.0, 4, [(0, 3.0), (0, 1.0)]) == [4.0, 2.0]


def test_the_order_of_simultaneous_holds_is_nothing():
    holds = [(1, 1), (1, 2), (2, -1), (2, 3), (3, -2), (3, -3)]
    shuffled = random.Random(1).sample(holds, len(holds))
    kernels = [(0, 1.7), (1, 0.3), (2, 0.9)]
    assert ends(0.7, 10, kernels, holds) == ends(0.7, 10, kernels, shuffled)
