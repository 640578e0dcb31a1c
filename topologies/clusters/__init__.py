"""Families of clusters: one file is one family; `topologies.build` and `topologies.names` are these."""

from typing import TYPE_CHECKING, Any

from topologies.plugins import Folder, parse

if TYPE_CHECKING:
    from topologies.topology import Topology

HOSTS = {
    "host_bandwidth": "bandwidth",
    "nvme_read": "nvme_read",
    "nvme_write": "nvme_write",
    "host_memory_bandwidth": "memory_bandwidth",
    "host_devices": "devices",
}
"""Options that every family of clusters takes, and the fields of `topologies.Hosts` that they set."""
FOLDER = Folder("topologies.clusters", "topology", beside=tuple(HOSTS))


def names() -> list[str]:
    """Every cluster family there is.

    >>> "flat" in names()
    True
    """
    return FOLDER.names()


def build(text: str, /, **sizes: Any) -> "Topology":
    """The cluster that a text names, with options in the text, as keywords, or both; or that of a YAML file.

    Beside a family's own options all take those of hosts, for programs that copy to them: `host_bandwidth` of a
    device's link to its host, `nvme_read` and `nvme_write` of a host's drives together, `host_memory_bandwidth` at
    which its CPUs update, all in bytes/s, and `host_devices`, how many neighbouring ranks share a host.

    >>> build("dgx_h100,nodes=4").size, build("dgx_h100", nodes=4).name
    (32, 'dgx_h100,nodes=4')
    >>> build("dgx_h100,nvme_write=40e9").host.nvme_write
    40000000000.0
    >>> build("nowhere.yaml")
    Traceback (most recent call last):
    ValueError: nowhere.yaml: No such file or directory
    """
    if text.endswith((".yaml", ".yml")):
        return _load(text, **sizes)
    from topologies.hosts import configured

    name, sizes = parse(text, **sizes)
    topology: Topology = FOLDER.build(name, **{key: value for key, value in sizes.items() if key not in HOSTS})
    return configured(topology, {key: value for key, value in sizes.items() if key in HOSTS}, HOSTS)


def _load(path: str, **sizes: Any) -> "Topology":
    from topologies.files import load

    if sizes:
        raise ValueError(f"{path} takes no options, such as {next(iter(sizes))}; the file says everything")
    return load(path)
