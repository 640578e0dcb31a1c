"""A cluster as a small picture: devices, switches and links, the first few where there are many."""

from matplotlib.axes import Axes

from simulator.plots import Placed
from simulator.plots._canvas import headline, new_axes
from simulator.plots._graphs import scattered
from simulator.plots._layers import layered
from simulator.plots._levels import layers
from simulator.plots._sketch import NARROWEST, Sketch, legend, paint, weak_links
from simulator.plots._torus import torus
from topologies import Topology


def draw(subject: Topology | Placed, ax: Axes | None = None) -> Axes:
    """Draw a topology, or that of a result or a collective, and return the axes, which are in inches.

    Hosts are in a row below the network's switches, level by level; what joins the devices of a host is within its
    frame. A torus is drawn plane by plane, with dashed ends where links go around; other graphs where springs would
    pull their nodes. Colours are kinds of links, widths their bandwidth, and red is degraded. Of large clusters the
    first hosts of the first switches are drawn, with what is degraded, and the rest is said in words.
    """
    topology = _topology(subject)
    sketch = _sketch(topology)
    left, right, bottom, top = sketch.extent()
    if ax is None:
        ax = new_axes(max(right - left, NARROWEST) + 0.2, top - bottom + 1.15)
    paint(ax, sketch, topology)
    legend(ax, sketch, topology)
    headline(ax, topology.name, _subtitle(sketch, topology, ax.figure.bbox.width / ax.figure.dpi))
    return ax


def _topology(subject: Topology | Placed) -> Topology:
    if isinstance(subject, Topology):
        return subject.bare
    if not hasattr(subject, "topology"):
        raise ValueError(f"topology draws a cluster, or what lies on one, not {subject!r}")
    return subject.topology.bare


def _sketch(topology: Topology) -> Sketch:
    if topology.grid and not topology.hosts.any():
        return torus(topology)
    found = layers(topology)
    return layered(topology, found) if found else scattered(topology)


def _subtitle(sketch: Sketch, topology: Topology, width: float) -> str:
    """The cluster in words, as far as there is room, and how much of what is degraded is not in the picture."""
    parts = topology.description.split("; ")
    while len(parts) > 1 and sum(map(len, parts)) + 3 * len(parts) > 13.5 * width:
        parts.pop()
    shown = {line.link for line in sketch.lines}
    places = {node: place for place, node in enumerate(topology.links.nodes)}
    weak = [node for node, speed in zip(topology.devices, topology.speeds.tolist(), strict=True) if speed < 1]
    missing = sum(places[node] not in sketch.devices for node in weak) if weak else 0
    missing += len(_edges(topology, weak_links(topology)) - _edges(topology, shown))
    return " · ".join([*parts, *([f"{missing:,} degraded not shown"] if missing else [])])


def _edges(topology: Topology, links: "frozenset[int] | set[int]") -> set[frozenset[int]]:
    """The pairs of nodes that some links join."""
    tails, heads = topology.links.tails, topology.links.heads
    return {frozenset((int(tails[link]), int(heads[link]))) for link in links}
