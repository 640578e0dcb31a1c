"""A cluster that lists its devices, switches and links one by one."""

from typing import Any

import networkx as nx

from topologies.files.entries import Entry
from topologies.graph import from_graph
from topologies.topology import Topology


def explicit(name: str, file: Entry) -> Topology:
    """The topology of the keys `devices`, `switches` and `links`.

    >>> link = {"from": "a", "to": "b", "bandwidth": 50e9, "directed": True}
    >>> devices = [{"name": each, "accelerator": "h100"} for each in "ab"]
    >>> back = {**link, "from": "b", "to": "a", "bandwidth": 25e9}
    >>> cluster = explicit("pair", Entry.of("the file", {"devices": devices, "links": [link, back]}))
    >>> [cluster.route(*pair)[0].bandwidth for pair in [(0, 1), (1, 0)]]
    [50000000000.0, 25000000000.0]
    """
    file.only("devices", "switches", "links")
    links = file.parts("links", [])
    directed = any(link.flag("directed") for link in links)
    graph: nx.Graph[Any] = nx.DiGraph() if directed else nx.Graph()
    for device in file.parts("devices"):
        device.only("name", "accelerator", "host")
        marks = {"host": device.get("host")} if "host" in device.values else {}
        _add(graph, device.where, device.get("name"), device=True, accelerator=device.get("accelerator"), **marks)
    for place, switch in enumerate(file.items("switches", [])):
        _add(graph, f"switches[{place}]", switch)
    for link in links:
        _join(graph, link, both=directed and not link.flag("directed"))
    return from_graph(graph, name)


def _add(graph: "nx.Graph[Any]", where: str, node: Any, **marks: Any) -> None:
    if not isinstance(node, str | int) or node in graph:
        raise ValueError(f"{where}: {node!r} is not a name, or there are two of it")
    graph.add_node(node, **marks)


def _join(graph: "nx.Graph[Any]", link: Entry, *, both: bool) -> None:
    link.only("from", "to", "bandwidth", "latency", "kind", "directed")
    ends = link.get("from"), link.get("to")
    for end in ends:
        if not isinstance(end, str | int) or end not in graph:
            raise ValueError(f"{link.where}: {end!r} is no device and no switch")
    facts = {"bandwidth": link.number("bandwidth"), "latency": link.number("latency", 0.0)}
    for tail, head in [ends, ends[::-1]] if both else [ends]:
        if graph.has_edge(tail, head):
            raise ValueError(
                f"{link.where}: there are two links {tail} to {head}; give one with their summed bandwidth"
            )
        graph.add_edge(tail, head, kind=str(link.get("kind", "link")), **facts)
