"""All-to-all over rails: first inside the host to the member on the destination's rail, then along the rail (PXN)."""

import numpy as np

from simulator.activity import Activity
from simulator.collectives._groups import in_one_pattern
from simulator.collectives._messages import Messages, activity, phase
from simulator.collectives.direct import all_pairs
from simulator.demand import Ints
from topologies import Topology
from workloads.ops import Collective


def build(collective: Collective, ranks: Ints, topology: Topology) -> Activity:
    """Both legs as a pipeline; equally many members, two or more, on each of two hosts or more.

    With g members on each of N hosts, a member hands every other one in its host 1/g of its buffer, and sends g/n of
    it to each of the N − 1 others on its rail: no message leaves its rail, and n − g become N − 1.
    """
    groups = in_one_pattern(ranks, topology)
    hosts, each = len(groups.counts), groups.counts[0]
    if collective.kind != "all_to_all":
        raise ValueError(f"rail_local does not do {collective.kind}; it does all_to_all")
    if hosts < 2 or each < 2 or not groups.even:
        raise ValueError(
            f"rail_local needs two hosts or more with equally many members, two or more, on each; "
            f"{ranks.shape[1]} members are on {hosts} hosts of {topology.name}"
        )
    members, shape = groups.by_host(), (len(ranks), -1)
    local = all_pairs("rail_local", collective.bytes / each, 1, members.reshape(-1, each))
    rails = all_pairs("rail_local", collective.bytes / hosts, 1, np.swapaxes(members, 1, 2).reshape(-1, hosts))
    legs = [
        Messages(leg.carried, 1, leg.sources.reshape(shape), leg.destinations.reshape(shape)) for leg in (local, rails)
    ]
    return activity("rail_local", [phase(topology, ranks, legs)], topology)
