"""Reduction in the switch that joins all members, as NVLink SHARP does."""

from simulator.activity import Activity
from simulator.collectives._groups import one_switch, reduces_in_switch
from simulator.collectives._messages import Messages, activity, phase
from simulator.demand import Ints, accelerators
from topologies import Topology
from workloads.ops import Collective


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """An all-reduce in one step: S·(1 + 1/n) each way between every member and the switch.

    Every member's whole buffer goes up to be reduced and comes down reduced; the n-th part that a member is in charge
    of goes both ways once more.
    """
    if collective.kind != "all_reduce":
        raise ValueError(f"in_switch does not do {collective.kind}; it does all_reduce")
    if not reduces_in_switch(ranks, topology).all():
        raise ValueError(
            f"in_switch needs all {ranks.shape[1]} members below one switch that reduces; ranks {ranks[0, 0]} to "
            f"{ranks[0, -1]} of {topology.name} {_lack(ranks, topology)}"
        )
    return activity(
        "in_switch",
        [phase(topology, ranks, [around(collective.bytes, ranks)], passes=2, share="in_switch_share")],
        topology,
    )


def around(size: float, members: Ints) -> Messages:
    """What goes up from and down to every member of a switch; `members` (…, members of one switch)."""
    each = members.shape[-1]
    following = members[..., [*range(1, each), 0]]
    shape = (len(members), -1)
    return Messages(size * (1 + 1 / each), 1, members.reshape(shape), following.reshape(shape))


def _lack(ranks: Ints, topology: Topology) -> str:
    """What keeps the switch of some groups from reducing."""
    chips = " and ".join(accelerators(topology))
    return f"have one, but that of {chips} does not" if one_switch(ranks, topology).all() else "do not share a switch"
