"""Any networkx graph of the user's own as a topology."""

from collections.abc import Mapping
from typing import Any

import networkx as nx

from topologies import accelerators
from topologies.accelerator import Accelerator
from topologies.link import Link, Node
from topologies.topology import Topology


def from_graph(graph: "nx.Graph[Any]", name: str = "graph", accelerator: str | Accelerator = "h100") -> Topology:
    """A topology whose ranks are the nodes marked `device=True`, in the order in which they were added.

    Nodes may say `accelerator=` (a name or an Accelerator) where they differ from the given one, and `host=` where
    several devices share one; nodes marked `cpu=True` are CPUs, to whose memory copies go over the graph's links. Edges
    say `link=Link`, or `bandwidth=` in bytes/s with `latency=` in seconds (default 0) and `kind=`; in a Graph an edge
    is two directed links, in a DiGraph one. Devices forward traffic if the shortest path leads through them. The graph
    is copied.

    >>> import networkx as nx
    >>> ring = nx.cycle_graph(4)
    >>> nx.set_node_attributes(ring, True, "device")
    >>> nx.set_edge_attributes(ring, 50e9, "bandwidth")
    >>> len(from_graph(ring).route(0, 2))
    2
    """
    if graph.is_multigraph():
        raise ValueError(f"{name} is a multigraph; merge parallel edges into one link with their summed bandwidth")
    devices = tuple(node for node, marked in graph.nodes(data="device") if marked)
    if not devices:
        raise ValueError(f"none of the {len(graph)} nodes of {name} is marked device=True, so it has no ranks")
    linked = _linked(graph)
    _check_connected(linked, devices)
    chips = tuple(accelerators.build(graph.nodes[node].get("accelerator", accelerator)) for node in devices)
    return Topology(name, linked, devices, chips)


def _linked(graph: "nx.Graph[Any]") -> "nx.Graph[Any]":
    """A copy of the graph in which each edge carries its link and nothing else."""
    copy: nx.Graph[Any] = nx.DiGraph() if graph.is_directed() else nx.Graph()
    copy.add_nodes_from(graph.nodes(data=True))
    copy.add_edges_from((u, v, {"link": _link(u, v, edge)}) for u, v, edge in graph.edges(data=True))
    return copy


def _link(source: Node, destination: Node, edge: Mapping[str, Any]) -> Link:
    if isinstance(edge.get("link"), Link):
        return edge["link"]  # type: ignore[no-any-return]
    if "bandwidth" not in edge:
        raise ValueError(
            f"the edge {source} to {destination} has no bandwidth; give link=Link(…) or bandwidth= in bytes/s"
        )
    try:
        return Link(edge.get("kind", "link"), edge["bandwidth"], edge.get("latency", 0.0))
    except ValueError as error:
        raise ValueError(f"the edge {source} to {destination}: {error}") from None


def _check_connected(graph: "nx.Graph[Any]", devices: tuple[Node, ...]) -> None:
    """All devices reach the first one and are reached from it; then every pair is connected."""
    first = devices[0]
    after, before = nx.descendants(graph, first), nx.ancestors(graph, first)
    for device in devices[1:]:
        if device not in after:
            raise ValueError(f"no path leads from device {first} to device {device}; every pair needs one")
        if device not in before:
            raise ValueError(f"no path leads from device {device} to device {first}; every pair needs one")
