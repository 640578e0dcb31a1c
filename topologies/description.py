"""A cluster in one line: devices, nodes and, for each kind of link, how many there are and how fast."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from topologies.accelerator import Accelerator
from topologies.link import Booleans, Floats, Integers, Links, Node
from topologies.routing.router import NONE
from topologies.transport import SWITCH_LATENCY
from topologies.units import GBIT, GIGA


def describe(
    devices: Sequence[Node], chips: Sequence[Accelerator], hosts: Integers, links: Links, grid: tuple[int, ...] = ()
) -> str:
    """Rates are one direction: Gb/s of a node's network cards, else GB/s of a link, times a device's links.

    >>> import topologies
    >>> topologies.build("flat", ranks=4, bandwidth=12.5e9).description
    '4 H100-SXM5 in 4 nodes; port 12.5 GB/s'
    """
    nodes = int(hosts.max()) + 1
    where = f"in {nodes} node{'s' if nodes > 1 else ''}"
    if grid:
        torus = "x".join(map(str, grid[1:] if nodes > 1 else grid))
        where = f"on {nodes} tori of {torus}" if nodes > 1 else f"on a torus of {torus}"
    what = " + ".join(f"{count} {name}" for name, count in Counter(chip.name for chip in chips).items())
    ranks = {node: rank for rank, node in enumerate(devices)}
    places = np.array([ranks.get(node, NONE) for node in links.nodes])
    rates = (
        _rate(kind, links.codes == code, places[links.tails], hosts, links) for code, kind in enumerate(links.kinds)
    )
    return "; ".join([f"{what} {where}", *rates])


def _rate(kind: str, here: Booleans, ranks: Integers, hosts: Integers, links: Links) -> str:
    """Links of a kind that is `here` [links]; `ranks` [links] leave them. What devices have speaks for all."""
    own = np.flatnonzero(here & (ranks != NONE))
    rates = links.bandwidth[own if len(own) else here]
    if kind not in SWITCH_LATENCY:
        each = len(own) / len(np.unique(ranks[own])) if len(own) else 1
        return f"{kind} {_times(each)}{_span(rates / GIGA)} GB/s"
    count = len(own) or len(rates) / 2
    each = count / (len(np.unique(hosts[ranks[own]])) if len(own) else int(hosts.max()) + 1)
    return f"{kind} {_times(each if each % 1 == 0 else count)}{_span(rates / GBIT)} Gb/s{' a node' * (each % 1 == 0)}"


def _times(count: float) -> str:
    return "" if count == 1 else f"{count:.3g} × "


def _span(rates: Floats) -> str:
    low, high = (f"{rate:.4g}" if rate < 1e4 else f"{rate:,.0f}" for rate in (np.min(rates), np.max(rates)))
    return low if low == high else f"{low}-{high}"
