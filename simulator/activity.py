"""Work that progresses fluidly over links: what a collective algorithm makes of a collective.

An activity is built for many groups of one shape at once, so that 2,048 tensor-parallel groups cost one
call. Arrays over groups have shape (groups,); a phase's crossings are rows (group, link, weight).
"""

from dataclasses import dataclass, replace

import numpy as np

from simulator.demand import Demand, Floats, Ints, achievable_bandwidth
from topologies import Topology

TRIFLE = 1e-3


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
        return self.latency + self.flowing(bandwidth)

    def flowing(self, bandwidth: Floats) -> Floats:
        """The part of that time in which bytes are on the links."""
        rate = self.rate_cap.copy()
        np.minimum.at(rate, self.group, bandwidth[self.link] / self.weight)
        return self.work / rate

    def without_trifles(self, bandwidth: Floats) -> "Phase":
        """The same phase, in which groups whose bytes hardly count beside their latency load no link.

        Assumes that bytes which take less than a thousandth of a phase's latency are in nobody's way.
        """
        flowing = self.flowing(bandwidth)
        trifling = (flowing > 0) & (flowing < TRIFLE * self.latency)
        if not trifling.any():
            return self
        kept = ~trifling[self.group]
        return replace(
            self,
            latency=self.latency + np.where(trifling, flowing, 0.0),
            work=np.where(trifling, 0.0, self.work),
            **{name: getattr(self, name)[kept] for name in ("group", "link", "weight")},
        )


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

    def without_trifles(self, topology: Topology) -> "Activity":
        """The same activity, in which bytes that hardly count beside the latency load no link."""
        bandwidth = achievable_bandwidth(topology)
        return replace(self, phases=tuple(phase.without_trifles(bandwidth) for phase in self.phases))
