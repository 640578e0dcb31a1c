"""Messages that run at once, turned into a phase: routes, link weights and latency."""

from dataclasses import dataclass

import numpy as np

from simulator.activity import Floats, Ints, Phase, achievable_bandwidth
from simulator.constants import fabric
from topologies import Topology


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """`carried` bytes from every source to its destination, in `steps` steps; arrays (groups, messages)."""

    carried: float
    steps: int
    sources: Ints
    destinations: Ints


def phase(topology: Topology, *messages: Messages) -> tuple[Phase, Floats]:
    """One phase in which all `messages` run at once, and the share of SMs that it holds, per group.

    What they put on a link adds up, and the link that takes longest decides; their latencies add up. Set-up
    and ramp are latency, which contention does not stretch: ramp × (1 − exp(−ideal time / ramp)).
    """
    groups, links = len(messages[0].sources), len(topology.links)
    routed = [_routed(each, topology) for each in messages]
    rows, inverse = np.unique(np.concatenate([row for row, _, _ in routed]), return_inverse=True)
    loaded = np.bincount(inverse, np.concatenate([load for _, load, _ in routed])).astype(float)
    group, link = rows // links, rows % links
    heaviest = _per_group(np.maximum, loaded, group, groups, 0.0)
    ideal = _per_group(np.maximum, loaded / achievable_bandwidth(topology)[link], group, groups, 0.0)
    ramp, sm_share = (_greatest(topology, name, group, link, groups) for name in ("ramp", "sm_share"))
    ramped = ramp * -np.expm1(-np.divide(ideal, ramp, out=np.zeros(groups), where=ramp > 0))
    latency = np.sum([each for _, _, each in routed], axis=0) + ramped
    weight = np.divide(loaded, heaviest[group], out=np.ones(len(loaded)), where=heaviest[group] > 0)
    return Phase(latency, heaviest, np.full(groups, np.inf), group, link, weight), sm_share


def _routed(messages: Messages, topology: Topology) -> tuple[Ints, Floats, Floats]:
    """Rows group × links + link with the bytes on each, and each group's latency."""
    groups, each = messages.sources.shape
    links = topology.links
    pair, link = topology.routes(messages.sources.ravel(), messages.destinations.ravel())
    hops = np.bincount(pair, links.latency[link], minlength=groups * each).reshape(groups, each).max(axis=1)
    row, count = np.unique(pair // each * len(links) + link, return_counts=True)
    group, link = row // len(links), row % len(links)
    setup, step = (_greatest(topology, name, group, link, groups) for name in ("setup", "step"))
    return row, np.asarray(count * messages.carried, float), setup + messages.steps * (hops + step)


def _greatest(topology: Topology, name: str, group: Ints, link: Ints, groups: int) -> Floats:
    """The greatest value of a fabric's constant over the links that each group crosses."""
    constants = np.array([getattr(fabric(kind), name) for kind in topology.links.kinds])
    return _per_group(np.maximum, constants[topology.links.codes[link]], group, groups, 0.0)


def _per_group(reduce: np.ufunc, values: Floats, group: Ints, groups: int, start: float) -> Floats:
    out = np.full(groups, start)
    reduce.at(out, group, values)
    return out
