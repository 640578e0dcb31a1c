"""Routes in a dragonfly: at most three hops between switches, by arithmetic."""

from dataclasses import dataclass

import numpy as np

from topologies.link import Booleans, Integers
from topologies.routing.levels import MeshLevel, SwitchLevel
from topologies.routing.router import NONE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupLevel:
    """Groups of switches, each a full mesh, with a link between every two groups.

    Devices reach their switch as in `below`; `group` [switches] says a switch's group, `local` the mesh of switches;
    the link from group g to group h is `across[g, h]`, and it leaves g at switch `gateway[g, h]`. A route is the
    shortest: to the gateway, across, from the gateway; the two local hops only where needed.
    """

    below: SwitchLevel
    group: Integers
    local: MeshLevel
    gateway: Integers
    across: Integers

    def joins(self, sources: Integers, destinations: Integers) -> Booleans:
        """Every pair."""
        return np.ones(len(sources), np.bool_)

    def hops(self, sources: Integers, destinations: Integers) -> Integers:
        """Up to the switch, over one to three links between switches, down from the last."""
        start, end = self.below.switch[sources], self.below.switch[destinations]
        near, far = self.group[start], self.group[end]
        leave = np.where(near == far, end, self.gateway[near, far])
        enter = np.where(near == far, end, self.gateway[far, near])
        between = [self._local(start, leave), self.across[near, far][:, None], self._local(enter, end)]
        return np.hstack([self.below.up[sources], *between, self.below.down[destinations]])

    def _local(self, start: Integers, end: Integers) -> Integers:
        return np.where((start == end)[:, None], NONE, self.local.hops(start, end))
