"""Hardware: accelerators, links, and networkx graphs of clusters.

Nothing heavy is imported until it is asked for.

>>> import topologies
>>> topologies.build("dgx_h100,nodes=4").size
32
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topologies import accelerators as accelerators
    from topologies.accelerator import Accelerator as Accelerator
    from topologies.clusters import build as build
    from topologies.clusters import names as names
    from topologies.files import load as load
    from topologies.graph import from_graph as from_graph
    from topologies.hosts import Hosts as Hosts
    from topologies.link import Link as Link
    from topologies.topology import Topology as Topology

_HOMES = {
    "Accelerator": "topologies.accelerator",
    "Hosts": "topologies.hosts",
    "Link": "topologies.link",
    "Topology": "topologies.topology",
    "build": "topologies.clusters",
    "from_graph": "topologies.graph",
    "load": "topologies.files",
    "names": "topologies.clusters",
}

__all__ = ["Accelerator", "Hosts", "Link", "Topology", "accelerators", "build", "from_graph", "load", "names"]


def __getattr__(name: str) -> Any:
    if name == "accelerators":
        return importlib.import_module("topologies.accelerators")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
