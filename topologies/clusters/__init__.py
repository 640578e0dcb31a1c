"""Families of clusters: one file is one family; `topologies.build` and `topologies.names` are these."""

from typing import TYPE_CHECKING, Any

from topologies.plugins import Folder, parse

if TYPE_CHECKING:
    from topologies.topology import Topology

FOLDER = Folder("topologies.clusters", "topology")


def names() -> list[str]:
    """Every cluster family there is.

    >>> "flat" in names()
    True
    """
    return FOLDER.names()


def build(text: str, /, **sizes: Any) -> "Topology":
    """The cluster that a text names, with options in the text, as keywords, or both; or that of a YAML file.

    >>> build("dgx_h100,nodes=4").size, build("dgx_h100", nodes=4).name
    (32, 'dgx_h100,nodes=4')
    >>> build("nowhere.yaml")
    Traceback (most recent call last):
    ValueError: nowhere.yaml: No such file or directory
    """
    if text.endswith((".yaml", ".yml")):
        return _load(text, **sizes)
    name, sizes = parse(text, **sizes)
    topology: Topology = FOLDER.build(name, **sizes)
    return topology


def _load(path: str, **sizes: Any) -> "Topology":
    from topologies.files import load

    if sizes:
        raise ValueError(f"{path} takes no options, such as {next(iter(sizes))}; the file says everything")
    return load(path)
