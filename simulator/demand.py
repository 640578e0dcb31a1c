"""What a collective asks of a network, before any software: bytes over links and steps in turn; and its price.

Shapes: G groups, A distinct accelerators of the topology, K kinds of links.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.fabrics import BETWEEN, NETWORK, SHARES, Fabrics, published
from topologies import Topology

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """One phase of a collective on G groups.

    `line_seconds` [G, K] is what the busiest link of each kind takes at its line rate; `steps` [G, K] how many steps in
    turn cross each kind; `hops` [G] the seconds that signals travel in all these steps; `chips` [A, G] tells which
    accelerators take part. The bytes go `passes` times through the group, so often a pipeline fills. `share` names the
    share of the line rate that counts; `starts` is false for a phase that goes on where another ended; without `quick`
    the low-latency protocol is out of question.
    """

    line_seconds: Floats
    steps: Floats
    hops: Floats
    chips: npt.NDArray[np.bool_]
    passes: Floats
    share: str = "share"
    starts: bool = True
    quick: bool = True


class Price(NamedTuple):
    """Seconds without contention, each [G]: latency, what the protocol needs for the bytes at least, what links need.

    `least` is 0 where the protocol is no slower than the links.
    """

    latency: Floats
    least: Floats
    links: Floats

    @property
    def seconds(self) -> Floats:
        """The phase's time, [G]."""
        return self.latency + np.maximum(self.least, self.links)


def price(demand: Demand, constant: Callable[[str], Floats]) -> Price:
    """What a demand costs with the faster protocol, without contention.

    `constant(name)` gives a fabric's constant by name, [G, K]. Set-up, steps and ramp are latency, which contention
    does not stretch: a ramp r adds r × (1 − exp(−t / r)) to an ideal time t. Reduction in switches knows the bulk
    protocol alone.
    """
    used = demand.steps > 0
    free = _busiest(demand.line_seconds / constant("share"))
    bulk = free if demand.share == "share" else _busiest(demand.line_seconds / _reached(demand.share, constant))
    quick = _busiest(demand.line_seconds / (constant("share") * constant("low_latency_share")))
    in_switch = demand.share.startswith("in_switch")
    launch, setup, ramp = (
        np.max(constant(name) * used, axis=1, initial=0.0) if demand.starts else 0.0 * free
        for name in ("launch", "setup", "ramp")
    )
    ramp = ramp * demand.passes
    ramped = ramp * -np.expm1(-np.divide(bulk, ramp, out=np.zeros_like(bulk), where=ramp > 0))
    step = constant("step") + constant("software_step") * constant("turns")
    slow = launch + setup + ((step + constant("bulk_step")) * demand.steps).sum(axis=1) + ramped
    fast = launch + (step * demand.steps).sum(axis=1)
    quicker = (fast + quick < slow + bulk) & (demand.quick and not in_switch)
    least = np.where(quicker, quick, bulk)
    return Price(demand.hops + np.where(quicker, fast, slow), np.where(least > free, least, 0.0), free)


def _reached(share: str, constant: Callable[[str], Floats]) -> Floats:
    """The share of the line rate that counts, [G, K]; that of trees is a share of what the switches reach."""
    own = constant(share)
    return own * constant("in_switch_share") if share == "in_switch_tree_share" else own


def _busiest(seconds: Floats) -> Floats:
    return np.asarray(seconds.max(axis=1, initial=0.0))


def constants(
    topology: Topology, chips: npt.NDArray[np.bool_], fabrics: Fabrics | None = None
) -> Callable[[str], Floats]:
    """The constants of groups, [G, K]: those of the members' accelerators, of several the worst.

    Assumes that the slowest member of a mixed group sets its pace.
    """
    fabrics = fabrics or published()
    names, kinds = accelerators(topology), topology.links.kinds
    rows = [fabrics.of_kinds(kinds, chip) for chip in names]

    def constant(name: str) -> Floats:
        table = np.array([[getattr(each, name) for each in row] for row in rows], float)
        if len(names) == 1:
            return np.broadcast_to(table, (chips.shape[1], len(kinds)))
        neutral, worst = (np.inf, np.min) if name in SHARES else (-np.inf, np.max)
        return np.asarray(worst(np.where(chips[:, :, None], table[:, None, :], neutral), axis=0))

    return constant


def accelerators(topology: Topology) -> tuple[str, ...]:
    """Names of the distinct accelerators of a topology."""
    return topology.once("distinct accelerators", lambda: tuple(dict.fromkeys(c.name for c in topology.accelerators)))


def chips(topology: Topology, ranks: Ints) -> npt.NDArray[np.bool_]:
    """Which accelerators take part in each group, [A, G]; ranks of shape [G, members]."""
    names = accelerators(topology)
    if len(names) == 1:
        return np.ones((1, len(ranks)), np.bool_)
    number = {name: index for index, name in enumerate(names)}
    codes = np.array([number[chip.name] for chip in topology.accelerators])[ranks]
    return np.stack([(codes == index).any(axis=1) for index in range(len(names))])


def achievable_bandwidth(topology: Topology) -> Floats:
    """What communication reaches of every link's line rate, bytes/s, [links].

    Assumes that protocol and packet overhead take the same share of a link, however many share it.
    """
    return topology.once("achievable bandwidth", lambda: _achievable_bandwidth(topology))


def _achievable_bandwidth(topology: Topology) -> Floats:
    names, links = accelerators(topology), topology.links
    shares = np.array([[each.share for each in published().of_kinds(links.kinds, chip)] for chip in names])
    if len(names) == 1:
        return np.asarray(links.bandwidth * shares[0, links.codes])
    number = {name: index for index, name in enumerate(names)}
    at = {device: number[chip.name] for device, chip in zip(topology.devices, topology.accelerators, strict=True)}
    ends = [[at[end] for end in pair if end in at] for pair in links.ends]
    share = [shares[own or range(len(names)), code].min() for own, code in zip(ends, links.codes.tolist(), strict=True)]
    return np.asarray(links.bandwidth * share)


def unmeasured(topology: Topology) -> tuple[str, ...]:
    """A warning of each kind of link that has no constants although its name is not that of an ideal one."""
    ideal = ("port", "link", "nvme", "dram", BETWEEN)
    kinds = [kind for kind in topology.links.kinds if kind not in ideal and not published().known(kind)]
    return tuple(f"links of kind {kind!r} have no constants: taken as ideal, at their line rate" for kind in kinds)


def precedence(kind: str) -> int:
    """Which kind of a route decides what its steps cost: networks before scale-up links before ideal ones."""
    return 2 if kind in NETWORK else int(published().known(kind))
