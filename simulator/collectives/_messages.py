"""Messages that run at once, turned into a phase: routes, link weights, protocol limits and latency."""

from dataclasses import dataclass

import numpy as np

from simulator.activity import Floats, Ints, Phase
from simulator.constants import fabric
from topologies import Topology


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """`carried` bytes from every source to its destination, in `steps` steps; arrays (groups, messages)."""

    carried: float
    steps: int
    sources: Ints
    destinations: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Tier:
    """Messages on their routes: crossings counted per (group, link), and per group the fabric's constants."""

    group: Ints
    link: Ints
    loaded: Floats
    seconds: Floats
    latency: Floats
    ramp: Floats
    sm_share: Floats


def phase(topology: Topology, *messages: Messages) -> tuple[Phase, Floats]:
    """One phase in which all `messages` run at once, and the share of SMs that it holds, per group.

    The most loaded link and the slowest protocol decide; latencies of the parts add up. Set-up and
    ramp are latency, which contention does not stretch: ramp × (1 − exp(−ideal time / ramp)).
    """
    tiers = [_tier(each, topology) for each in messages]
    groups, links = len(messages[0].sources), len(topology.links.bandwidth)
    rows = np.concatenate([tier.group * links + tier.link for tier in tiers])
    rows, inverse = np.unique(rows, return_inverse=True)
    loaded = np.bincount(inverse, np.concatenate([tier.loaded for tier in tiers]))
    group, link = rows // links, rows % links
    heaviest = np.zeros(groups)
    np.maximum.at(heaviest, group, loaded)
    seconds = np.max([tier.seconds for tier in tiers], axis=0)
    rate_cap = np.divide(heaviest, seconds, out=np.full(groups, np.inf), where=seconds > 0)
    ramp = np.max([tier.ramp for tier in tiers], axis=0)
    ramped = ramp * -np.expm1(-np.divide(seconds, ramp, out=np.zeros(groups), where=ramp > 0))
    latency = np.sum([tier.latency for tier in tiers], axis=0) + ramped
    weight = np.divide(loaded, heaviest[group], out=np.ones(len(loaded)), where=heaviest[group] > 0)
    return Phase(latency, heaviest, rate_cap, group, link, weight), np.max([tier.sm_share for tier in tiers], axis=0)


def _tier(messages: Messages, topology: Topology) -> _Tier:
    groups, each = messages.sources.shape
    links = topology.links
    pair, link = topology.routes(messages.sources.ravel(), messages.destinations.ravel())
    hops = np.bincount(pair, links.latency[link], minlength=groups * each).reshape(groups, each).max(axis=1)
    row, count = np.unique(pair // each * len(links.bandwidth) + link, return_counts=True)
    group, link = row // len(links.bandwidth), row % len(links.bandwidth)
    share, setup, step, ramp, sm_share = _fabrics(topology)[:, links.codes[link]]
    rate = _per_group(np.minimum, links.bandwidth[link] * share, group, groups, np.inf)
    setup, step, ramp, sm_share = (
        _per_group(np.maximum, each, group, groups, 0.0) for each in (setup, step, ramp, sm_share)
    )
    latency = setup + messages.steps * (hops + step)
    loaded, seconds = np.asarray(count * messages.carried, float), np.asarray(messages.carried / rate, float)
    return _Tier(group, link, loaded, seconds, latency, ramp, sm_share)


def _fabrics(topology: Topology) -> Floats:
    """Constants of every kind of link, shape (constants, kinds)."""
    constants = [fabric(kind) for kind in topology.links.kinds]
    return np.array([(each.rate_share, each.setup, each.step, each.ramp, each.sm_share) for each in constants]).T


def _per_group(reduce: np.ufunc, values: Floats, group: Ints, groups: int, start: float) -> Floats:
    out = np.full(groups, start)
    reduce.at(out, group, values)
    return out
