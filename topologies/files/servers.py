"""A cluster of servers, which may differ, below levels of switches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from topologies import accelerators
from topologies.accelerator import Accelerator
from topologies.clusters._servers import Cards
from topologies.files.entries import Entry
from topologies.hierarchy import Part, Tier, assemble, chain, gpus, mesh
from topologies.link import NVSWITCH_LATENCY, Integers, Link
from topologies.options import MAXIMUM_DEVICES, check_number, check_size
from topologies.routing.levels import Level
from topologies.routing.router import NONE
from topologies.scale_up import MESH_LATENCY, PAIRED, PCIE_GENERATION, SWITCHED, nvlink, pair
from topologies.topology import Topology
from topologies.transport import card, fabric, own_card, pcie

MOST_GPUS = 256
_TAKEN = ("gpu", "nic", "nvswitch")

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Kind:
    """Equal servers of a file: how many, and what one of their GPUs has."""

    count: int
    cards: Cards
    chip: Accelerator
    scale_up: Link
    meshed: bool

    @property
    def shares(self) -> bool:
        """Whether GPUs share a card."""
        return self.cards.nics < self.cards.gpus

    @property
    def uplink(self) -> Link:
        """A GPU's part of the links from cards to the first switch."""
        make = card if self.shares else own_card
        return make(self.cards.transport, self.cards.rate)


def servers(name: str, file: Entry) -> Topology:
    """The topology of the keys `servers` and `network`.

    >>> small = {"gpus": 2, "accelerator": "a100_40gb", "nics": 1, "nic_gbit": 100}
    >>> file = Entry.of("the file", {"servers": [{"gpus": 8, "accelerator": "h100", "nic_gbit": 400}, small]})
    >>> cluster = servers("lab", file)
    >>> cluster.hosts.tolist(), [link.kind for link in cluster.route(0, 9)]
    ([0, 0, 0, 0, 0, 0, 0, 0, 1, 1], ['infiniband', 'infiniband', 'pcie'])
    """
    file.only("servers", "network")
    kinds = [_kind(entry) for entry in file.parts("servers")]
    if not kinds:
        raise ValueError("servers is an empty list; a cluster has at least 1 server")
    check_size("GPUs in all servers", sum(kind.count * kind.cards.gpus for kind in kinds), MAXIMUM_DEVICES)
    of_node = np.repeat(np.arange(len(kinds)), [kind.count for kind in kinds])
    sizes = np.array([kind.cards.gpus for kind in kinds])
    hosts = np.repeat(np.arange(len(of_node)), sizes[of_node])
    which = of_node[hosts]
    inside = _inside(kinds, which, hosts)
    before = sum(len(part.edges) for part in inside)
    network = chain(gpus(len(hosts)), [*_cards(kinds, which, hosts), *_levels(file, kinds, which, hosts)], before)
    return assemble(name, _each([kind.chip for kind in kinds], which), gpus(len(hosts)), hosts, [*inside, network])


def _kind(entry: Entry) -> _Kind:
    entry.only("count", "gpus", "accelerator", "scale_up", "nics", "nic_gbit", "transport", "pcie")
    count = check_size(f"{entry.where}: count", entry.get("count", 1), MAXIMUM_DEVICES)
    size = check_size(f"{entry.where}: gpus", entry.get("gpus"), MOST_GPUS)
    try:
        chip = accelerators.build(str(entry.get("accelerator")))
        cards = Cards(
            chip,
            nics=entry.get("nics", size),
            nic_gbit=entry.number("nic_gbit"),
            transport=str(entry.get("transport", "infiniband")),
            gpus=size,
            generation=entry.get("pcie", PCIE_GENERATION.get(chip.name, 5)),
        )
    except ValueError as error:
        raise ValueError(f"{entry.where}: {error}".replace(f"{entry.where}: {entry.where}", entry.where)) from None
    scale_up, meshed = _scale_up(entry, chip, size)
    return _Kind(count, cards, chip, scale_up, meshed)


def _scale_up(entry: Entry, chip: Accelerator, size: int) -> tuple[Link, bool]:
    """The link of a GPU to the others of its server, and whether one leads to each of them."""
    if entry.get("scale_up", None) is None:
        if PAIRED.get(chip.name, ("", 0))[0] == "xgmi":
            return pair(chip), True
        if chip.name not in SWITCHED and size > 1:
            raise ValueError(f"{entry.where} has no scale_up, and none is known for {chip.name}")
        return nvlink(chip, otherwise=1.0), False
    scale_up = entry.part("scale_up").only("kind", "bandwidth", "latency", "mesh")
    meshed = scale_up.flag("mesh")
    latency = scale_up.number("latency", MESH_LATENCY if meshed else NVSWITCH_LATENCY / 2)
    return Link(str(scale_up.get("kind", "nvlink")), scale_up.number("bandwidth"), latency), meshed


def _inside(kinds: Sequence[_Kind], which: Integers, hosts: Integers) -> list[Part[Level]]:
    """What joins the GPUs of each server: a switch above them, or a mesh of links."""
    devices, links = gpus(len(hosts)), _each([kind.scale_up for kind in kinds], which)
    meshed = np.array([kind.meshed for kind in kinds])[which]
    switched = np.array([not kind.meshed and kind.cards.gpus > 1 for kind in kinds])[which]
    parts: list[Part[Level]] = []
    if switched.any():
        units = np.full(len(hosts), NONE)
        units[switched] = np.unique(hosts[switched], return_inverse=True)[1]
        parts.append(chain(devices, [Tier("nvswitch", units, links)]))
    if meshed.any():
        begins = np.append(True, np.diff(hosts) > 0) | ~meshed
        parts.append(mesh(devices, np.cumsum(begins) - 1, links, sum(len(part.edges) for part in parts)))
    return parts


def _cards(kinds: Sequence[_Kind], which: Integers, hosts: Integers) -> list[Tier]:
    """The cards that GPUs share, where they do."""
    shares = np.array([kind.shares for kind in kinds])[which]
    if not shares.any():
        return []
    per_card = np.array([max(1, kind.cards.gpus // kind.cards.nics) for kind in kinds])[which]
    first = np.searchsorted(hosts, hosts)
    place = (np.arange(len(hosts)) - first) // per_card
    units = np.full(len(hosts), NONE)
    units[shares] = np.cumsum(np.append(True, (np.diff(hosts) > 0) | (np.diff(place) > 0))[shares]) - 1
    return [Tier("nic", units, _each([pcie(kind.cards.generation) for kind in kinds], which))]


def _levels(file: Entry, kinds: Sequence[_Kind], which: Integers, hosts: Integers) -> list[Tier]:
    """Switches above all cards: those of the file, or one."""
    network = file.part("network", {}).only("levels")
    levels = network.parts("levels", [{"switch": kinds[0].cards.transport}])
    if not levels:
        raise ValueError("levels of the network is an empty list; at least 1 joins the servers")
    tiers: list[Tier] = []
    names, above, nodes = [*_TAKEN], 1, int(hosts[-1]) + 1
    for level in levels:
        level.only("switch", "nodes", *(["bandwidth", "latency", "oversubscription"] if tiers else []))
        switch = str(level.get("switch"))
        if switch in names:
            raise ValueError(f"{level.where}: there are two kinds of node called {switch}")
        above = check_size(f"{level.where}: nodes", level.get("nodes", -(-nodes // above) * above), 2**31, above)
        names.append(switch)
        oversubscription = check_number(f"{level.where}: oversubscription", level.number("oversubscription", 1.0), 1)
        links = [_fabric(level, kind) if tiers else kind.uplink for kind in kinds]
        tiers.append(Tier(switch, hosts // above, _each(links, which), oversubscription))
    if above < nodes:
        raise ValueError(f"{levels[-1].where} has a switch per {above} of {nodes} nodes; the last level joins all")
    return tiers


def _fabric(level: Entry, kind: _Kind) -> Link:
    link = fabric(kind.cards.transport, level.number("bandwidth", kind.cards.rate))
    return Link(link.kind, link.bandwidth, level.number("latency", link.latency))


def _each(values: Sequence[Value], which: Integers) -> list[Value]:
    """The value of each device's kind of server."""
    return [values[place] for place in which.tolist()]
