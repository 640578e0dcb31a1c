"""Messages that run at once, turned into a phase: routes, link weights, latency."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from simulator.activity import Activity, Phase, capped
from simulator.demand import Demand, Floats, Ints, chips, constants, precedence, price
from topologies import Topology


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """`carried` bytes from every source to its destination, in `steps` steps in turn; arrays (groups, messages).

    A step costs what the messages cost on average, as a piece that goes round a ring crosses every edge once. With
    `trees` of shape (messages,), switches merge or multiply what belongs to one tree: each link carries it once.
    """

    carried: float
    steps: float
    sources: Ints
    destinations: Ints
    trees: Ints | None = None


def activity(algorithm: str, phases: Iterable[Phase], topology: Topology) -> Activity:
    """The activity of some phases; its kernels hold the greatest share of SMs that any of its links takes."""
    phases = tuple(phases)
    first = phases[0].demand
    held = constants(topology, first.chips)("sm_share") * (np.sum([each.demand.steps for each in phases], axis=0) > 0)
    return Activity(algorithm, phases, held.max(axis=1, initial=0.0))


def phase(
    topology: Topology,
    ranks: Ints,
    messages: Iterable[Messages],
    *,
    passes: int = 1,
    share: str = "share",
    starts: bool = True,
    quick: bool = True,
) -> Phase:
    """One phase in which all messages among `ranks` (groups, members) run at once.

    What they put on a link adds up, and the link that takes longest decides; their steps come one after the other. The
    buffer goes `passes` times through the group; the rest is as in Demand.
    """
    groups, links, kinds = len(ranks), topology.links, len(topology.links.kinds)
    routed = [_routed(each, topology) for each in messages if each.sources.size]
    rows, inverse = np.unique(np.concatenate([row for row, *_ in routed]), return_inverse=True)
    loaded = np.bincount(inverse, np.concatenate([load for _, load, *_ in routed])).astype(float)
    group, link = rows // len(links), rows % len(links)
    heaviest = _greatest(loaded, group, groups)
    line = _greatest(loaded / links.bandwidth[link], group * kinds + links.codes[link], groups * kinds)
    demand = Demand(
        line.reshape(groups, kinds),
        np.sum([steps for *_, steps, _ in routed], axis=0),
        np.sum([hops for *_, hops in routed], axis=0),
        chips(topology, ranks),
        np.full(groups, float(passes)),
        share,
        starts,
        quick,
    )
    latency, least, _ = price(demand, constants(topology, demand.chips))
    weight = np.divide(loaded, heaviest[group], out=np.ones(len(loaded)), where=heaviest[group] > 0)
    return Phase(latency, heaviest, capped(heaviest, least), group, link, weight, demand)


def _routed(messages: Messages, topology: Topology) -> tuple[Ints, Floats, Floats, Floats]:
    """Rows group × links + link, the bytes on each, steps by kind (groups, kinds) and each group's travel time."""
    groups, each = messages.sources.shape
    links = topology.links
    pair, link = topology.routes(messages.sources.ravel(), messages.destinations.ravel())
    travel = np.bincount(pair, links.latency[link], minlength=groups * each).reshape(groups, each).mean(axis=1)
    row = pair // each * len(links) + link
    if messages.trees is None:
        row, count = np.unique(row, return_counts=True)
    else:
        trees = int(messages.trees.max()) + 1
        merged = np.unique(row * trees + messages.trees[pair % each])
        row, count = np.unique(merged // trees, return_counts=True)
    steps = messages.steps * _shares_of_kinds(pair, links.codes[link], groups, each, topology)
    return row, np.asarray(count * messages.carried, float), steps, np.asarray(messages.steps * travel)


def _shares_of_kinds(pair: Ints, code: Ints, groups: int, each: int, topology: Topology) -> Floats:
    """Which share of a group's messages steps over each kind of link, (groups, kinds)."""
    kinds = topology.links.kinds
    order = np.array([precedence(kind) for kind in kinds])
    ranked = np.argsort(order, kind="stable")
    place = np.empty(len(kinds), np.int64)
    place[ranked] = np.arange(len(kinds))
    first = np.full(groups * each, -1)
    np.maximum.at(first, pair, place[code])
    cell = (np.arange(groups * each) // each * len(kinds) + ranked[first])[first >= 0]
    return np.bincount(cell, minlength=groups * len(kinds)).reshape(groups, len(kinds)) / each


def _greatest(values: Floats, cell: Ints, cells: int) -> Floats:
    out = np.zeros(cells)
    np.maximum.at(out, cell, values)
    return out
