"""Work that progresses fluidly over links: what a collective algorithm makes of a collective.

An activity is built for many groups of one shape at once, so that 2,048 tensor-parallel groups cost one
call. Arrays over groups have shape (groups,); a phase's crossings are rows (group, link, weight).
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from simulator.demand import Demand, Floats, Ints, achievable_bandwidth, constants, price
from simulator.fabrics import published
from topologies import Topology


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """One stretch of an activity: latency first, then bytes over links.

    `work` is the bytes on the group's most loaded link, whose weight is 1; every other link of the
    group carries weight × work. `rate_cap` is the protocol's limit on the most loaded link, bytes/s.
    `demand` is what the phase was priced from.
    """

    latency: Floats
    work: Floats
    rate_cap: Floats
    group: Ints
    link: Ints
    weight: Floats
    demand: Demand

    def seconds(self, bandwidth: Floats) -> Floats:
        """Time of each group when nothing else uses its links, given every link's bandwidth."""
        rate = self.rate_cap.copy()
        np.minimum.at(rate, self.group, bandwidth[self.link] / self.weight)
        return self.latency + self.work / rate

    def scaled(self, factor: float, topology: Topology) -> "Phase":
        """The same phase of a collective of so many times the bytes."""
        demand = replace(self.demand, line_seconds=factor * self.demand.line_seconds)
        latency, least, _ = price(demand, constants(topology, demand.chips))
        return replace(
            self, latency=latency, work=factor * self.work, rate_cap=capped(factor * self.work, least), demand=demand
        )

    def as_latency(self, topology: Topology) -> "Phase":
        """The same phase without the bytes of groups that a known fabric joins; on ideal links they may be all."""
        known = np.array([published().known(kind) for kind in topology.links.kinds])
        real: npt.NDArray[np.bool_] = np.any(self.demand.steps[:, known] > 0, axis=1)
        empty, kept = replace(self.demand, line_seconds=0.0 * self.demand.line_seconds), ~real[self.group]
        return replace(
            self,
            latency=np.where(real, price(empty, constants(topology, empty.chips)).latency, self.latency),
            work=np.where(real, 0.0, self.work),
            rate_cap=np.where(real, np.inf, self.rate_cap),
            **{name: getattr(self, name)[kept] for name in ("group", "link", "weight")},
        )


def capped(work: Floats, least: Floats) -> Floats:
    """The rate at which some work takes at least so many seconds, bytes/s."""
    return np.asarray(np.divide(work, least, out=np.full(len(work), np.inf), where=least > 0))


@dataclass(frozen=True, slots=True, eq=False)
class Activity:
    """The phases of one collective on groups of equal shape, and what it takes from the ranks.

    `sm_share` is the share of a rank's SMs held from launch to end, shape (groups,); `priority` weighs
    the activity against others on a link.
    """

    algorithm: str
    phases: tuple[Phase, ...]
    sm_share: Floats
    priority: float = 1.0

    def seconds(self, topology: Topology) -> Floats:
        """Time of each group without contention, shape (groups,)."""
        bandwidth = achievable_bandwidth(topology)
        return np.asarray(sum(phase.seconds(bandwidth) for phase in self.phases))

    def scaled(self, factor: float, topology: Topology) -> "Activity":
        """The same activity of a collective of so many times the bytes."""
        return replace(self, phases=tuple(phase.scaled(factor, topology) for phase in self.phases))

    def as_latency(self, topology: Topology) -> "Activity":
        """The same activity of a few numbers, as latency alone.

        Assumes that a few numbers take no time on the links of real fabrics, and are in nobody's way there.
        """
        return replace(self, phases=tuple(phase.as_latency(topology) for phase in self.phases))
