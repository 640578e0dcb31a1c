"""Where a plan's process groups lie on a cluster: which switches, and which links, each axis has to cross."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

import topologies
from simulator.demand import Ints
from topologies import Topology
from topologies.transport import SWITCH_LATENCY
from workloads.mesh import DeviceMesh
from workloads.program import Program

if TYPE_CHECKING:
    import pandas

DIRECT = "direct"
"""The level of groups whose links lead from device to device, without a switch."""
OUTSIDE = frozenset([*SWITCH_LATENCY, "fabric", "port"])
"""Kinds of links that make up networks between hosts."""
DEVICE = -1
"""The order of devices, below all families of switches."""


class Programmed(Protocol):
    """Whatever has a program: a TrainingStep, or a hand-made Program itself."""

    def program(self) -> Program:
        """The ops of one step for every rank."""
        ...


class Families(NamedTuple):
    """The switches of a topology by family: `names` from the lowest to the topmost.

    `orders` [nodes] gives each node's place in `names`, -1 for a device; `heights` [nodes] how many links each node is
    above the nearest device. Nodes are in the order of the topology's links.
    """

    names: tuple[str, ...]
    orders: Ints
    heights: Ints


class Placed(NamedTuple):
    """Groups of one axis that reach equally high: how many they are, and what their ring neighbours cross.

    `hosts` is the greatest number of hosts in a group, `narrowest` the bandwidth of the slowest link, bytes/s.
    """

    axis: str
    degree: int
    groups: int
    level: str
    hosts: int
    kinds: tuple[str, ...]
    narrowest: float


def placement(step: Programmed, topology: Topology | str) -> "pandas.DataFrame":
    """Which level of a cluster each process group crosses: a row per axis of the plan, and per level within it.

    `level` is the topmost family of switches (`nvswitch`, `rack`, `pod`, `spine` …) between ring neighbours of a group,
    or `direct` where there is none; `hosts_per_group` is the most that a group of the row spans; `kinds` are those of
    the links crossed, `narrowest_bytes_per_second` the slowest of them as it is, shared by whoever else crosses it.

    >>> from workloads import TrainingStep
    >>> frame = placement(TrainingStep("llama3_8b", "dp=4 tp=8", batch=4, sequence=8192), "llama3_cluster,gpus=32")
    >>> frame[["axis", "groups", "level", "hosts_per_group"]].values.tolist()
    [['dp', 8, 'pod', 4], ['tp', 4, 'nvswitch', 1]]
    """
    topology = topologies.build(topology) if isinstance(topology, str) else topology
    return frame(places(step.program().mesh, topology))


def places(mesh: DeviceMesh, topology: Topology) -> tuple[Placed, ...]:
    """Where the groups of each axis lie, outermost axis first; axes of degree 1 have no groups."""
    if mesh.size != topology.size:
        degrees = " × ".join(f"{axis}={degree}" for axis, degree in mesh.axes.items()) or "an empty plan"
        raise ValueError(f"{degrees} = {mesh.size} ranks, but {topology.name} has {topology.size}")
    grid = np.arange(mesh.size).reshape(list(mesh.axes.values()))
    return tuple(
        placed
        for dimension, (axis, degree) in enumerate(mesh.axes.items())
        if degree > 1
        for placed in _places(axis, np.moveaxis(grid, dimension, -1).reshape(-1, degree), topology)
    )


def frame(found: tuple[Placed, ...]) -> "pandas.DataFrame":
    """What was found as a frame, units in the column names."""
    import pandas

    columns = {"hosts": "hosts_per_group", "narrowest": "narrowest_bytes_per_second"}
    rows = [each._replace(kinds=" ".join(each.kinds)) for each in found]  # type: ignore[arg-type]
    return pandas.DataFrame(rows, columns=list(Placed._fields)).rename(columns=columns)


def words(found: tuple[Placed, ...]) -> str:
    """The levels of every axis in one line, the innermost axis first.

    >>> words((Placed("dp", 4, 8, "pod", 4, ("roce",), 5e10), Placed("tp", 8, 4, "nvswitch", 1, ("nvlink",), 4e11)))
    'tp: nvswitch · dp: pod'
    """
    levels: dict[str, list[str]] = {}
    for each in found:
        levels.setdefault(each.axis, []).append(each.level)
    return " · ".join(f"{axis}: {', '.join(names)}" for axis, names in reversed(levels.items()))


def family(node: object) -> str:
    """The family of a switch: its name without digits; of a tuple, its first text.

    >>> family("rack12"), family(("leaf", 3)), family(7)
    ('rack', 'leaf', 'switch')
    """
    name = next((part for part in node if isinstance(part, str)), "") if isinstance(node, tuple) else node
    return re.sub(r"\d+", "", name).strip(" -_.:") or "switch" if isinstance(name, str) else "switch"


def families(topology: Topology) -> Families:
    """The families of a topology's switches, lowest first: by height, then by how many hosts one of them joins.

    >>> import topologies
    >>> families(topologies.build("rail_optimized", nodes=2)).names
    ('nvswitch', 'leaf', 'spine')
    """
    return topology.once("families of switches", lambda: _families(topology))


def _families(topology: Topology) -> Families:
    heights, hosts, network = _heights(topology), _hosts_joined(topology), _of_network(topology)
    nodes = topology.links.nodes
    switches = np.flatnonzero(heights != 0)
    named = np.array([family(nodes[place]) for place in switches.tolist()], object)
    keys = {
        name: (int(heights[mine].min()), int(hosts[mine].max()), bool(network[mine].any()), -len(mine), name)
        for name in dict.fromkeys(named.tolist())
        for mine in [switches[named == name]]
    }
    names = tuple(sorted(keys, key=lambda name: keys[name]))
    orders = np.full(len(nodes), DEVICE)
    orders[switches] = [names.index(name) for name in named.tolist()]
    return Families(names, orders, heights)


def _heights(topology: Topology) -> Ints:
    """Links between each node and the nearest device, [nodes]."""
    links = topology.links
    heights = np.full(len(links.nodes), -1)
    devices = set(topology.devices)
    heights[[place for place, node in enumerate(links.nodes) if node in devices]] = 0
    level = 0
    while True:
        new = links.heads[(heights[links.tails] == level) & (heights[links.heads] < 0)]
        if not len(new):
            return heights
        level += 1
        heights[new] = level


def _hosts_joined(topology: Topology) -> Ints:
    """How many hosts each node has devices of beside it, [nodes]."""
    links = topology.links
    host = np.full(len(links.nodes), -1)
    ranks = {node: rank for rank, node in enumerate(topology.devices)}
    own = [(place, ranks[node]) for place, node in enumerate(links.nodes) if node in ranks]
    if own:
        at, rank = np.array(own).T
        host[at] = topology.hosts[rank]
    down = host[links.tails] >= 0
    pairs = np.unique(np.stack([links.heads[down], host[links.tails[down]]], axis=1), axis=0)
    return np.bincount(pairs[:, 0], minlength=len(links.nodes))


def _of_network(topology: Topology) -> "np.ndarray":
    """Which nodes have links of a network between hosts, whether or not there are several hosts, [nodes]."""
    links = topology.links
    found = np.zeros(len(links.nodes), np.bool_)
    found[links.heads[np.array([kind in OUTSIDE for kind in links.kinds], np.bool_)[links.codes]]] = True
    return found


def _places(axis: str, groups: Ints, topology: Topology) -> Iterator[Placed]:
    """The groups of an axis, [groups, members], by the level that they reach, the lowest first."""
    known, links = families(topology), topology.links
    count, degree = groups.shape
    pair, link = topology.routes(groups.ravel(), np.roll(groups, -1, axis=1).ravel())
    group = pair // degree
    reached = np.full(count, DEVICE)
    np.maximum.at(reached, group, known.orders[links.heads[link]])
    hosts = np.sort(topology.hosts[groups], axis=1)
    spanned = 1 + (np.diff(hosts, axis=1) > 0).sum(axis=1)
    for order in np.unique(reached).tolist():
        mine = reached == order
        crossed = np.unique(link[mine[group]])
        yield Placed(
            axis,
            degree,
            int(mine.sum()),
            known.names[order] if order >= 0 else DIRECT,
            int(spanned[mine].max()),
            tuple(links.kinds[code] for code in np.unique(links.codes[crossed]).tolist()),
            float(links.bandwidth[crossed].min()),
        )
