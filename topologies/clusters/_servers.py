"""What families of servers share: their options, the scale-up switch inside a server, the network cards outside."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypedDict

from topologies import accelerators
from topologies.accelerator import Accelerator
from topologies.clusters import HOSTS
from topologies.hierarchy import Part, Tier, blocks, chain, cluster, gpus
from topologies.link import Integers, Link
from topologies.options import MAXIMUM_DEVICES, check_number, check_size, family, idle, own_options, title
from topologies.plugins import unknown
from topologies.routing.levels import SwitchLevel
from topologies.scale_up import nvlink
from topologies.topology import Topology
from topologies.transport import card, fabric, own_card, pcie, switch_latency
from topologies.units import GBIT, GIGA

GPUS_PER_SERVER = 8
FACTS = ("gpus", "generation", "nvlink")
"""What a family says of its servers without asking."""


class CardOptions(TypedDict, total=False):
    """Options of everything with network cards; each family's file has the defaults.

    `nics` cards a node, of `nic_gbit` Gb/s each way; the `transport` names the kind of their links; `oversubscription`
    of the level above the leaves, 1 is none; the `accelerator` of every device.
    """

    accelerator: str | Accelerator
    nics: int
    nic_gbit: float
    transport: str
    oversubscription: float


class SwitchOptions(CardOptions, total=False):
    """And of those with a scale-up switch: `nvlink_bandwidth` in bytes/s each way, else what the accelerator has."""

    nvlink_bandwidth: float | None


class ServerOptions(SwitchOptions, total=False):
    """And of those that may be used in part: the first `gpus_per_node` of each, and the cards that are theirs."""

    gpus_per_node: int


@dataclass(frozen=True, slots=True)
class Cards:
    """Servers of so many `gpus`, each with `nics` cards; PCIe `generation` joins GPUs and cards that they share."""

    accelerator: str | Accelerator
    nics: int
    nic_gbit: float
    transport: str
    oversubscription: float = 1
    gpus: int = GPUS_PER_SERVER
    generation: int = 5

    def __post_init__(self) -> None:
        accelerators.build(self.accelerator)
        switch_latency(self.transport)
        pcie(self.generation)
        check_number("nic_gbit", self.nic_gbit, least=1e-3)
        check_number("oversubscription", self.oversubscription, least=1)
        nics = check_size("nics", self.nics, limit=2**10)
        if nics % self.gpus and self.gpus % nics:
            raise ValueError(
                f"nics={nics} of {self.gpus} GPUs: cards of a node are {_parts(self.gpus)} or a multiple of {self.gpus}"
            )

    def changed(self, build: Callable[..., Any], options: Mapping[str, Any]) -> Self:
        """With the options that a user gave a family beside those in its signature."""
        own = [each.name for each in fields(self) if each.name not in FACTS]
        for key in options:
            if key not in own:
                raise ValueError(unknown(f"option of {family(build)}", key, [*own_options(build), *own, *HOSTS]))
        return replace(self, **options)

    def beside(self, defaults: "Cards") -> dict[str, Any]:
        """Options that differ from a family's defaults."""
        pairs = ((each.name, getattr(self, each.name), getattr(defaults, each.name)) for each in fields(defaults))
        return {name: value for name, value, default in pairs if value != default and name not in FACTS}

    @property
    def chip(self) -> Accelerator:
        """The accelerator of every device."""
        return accelerators.build(self.accelerator)

    @property
    def used(self) -> int:
        """GPUs of a node that are used."""
        return self.gpus

    @property
    def cards(self) -> int:
        """Cards of a node that its used GPUs have: in proportion, and one at least.

        Assumes that the libraries leave cards of unused GPUs alone.
        """
        return max(1, self.nics * self.used // self.gpus)

    @property
    def rate(self) -> float:
        """A used GPU's part of its node's cards, bytes/s each way."""
        return self.nic_gbit * GBIT * self.cards / self.used

    def devices(self, nodes: int, option: str = "nodes") -> int:
        """How many devices so many nodes have, if there can be so many."""
        return self.used * check_size(option, nodes, MAXIMUM_DEVICES // self.used)

    def network(self, devices: int, *above: tuple[str, Integers]) -> list[Tier]:
        """From devices to the first named switches, by their cards, and on to the others.

        A GPU with cards of its own reaches its switch by one link; GPUs that share a card reach it over PCIe first.
        Assumes that switches above the leaves add up to one ideal switch, unless the family says otherwise.
        """
        (first, units), *others = above
        if self.cards >= self.used:
            tiers = [Tier(first, units, own_card(self.transport, self.rate))]
        else:
            shared = blocks(devices, self.used // self.cards)
            tiers = [Tier("nic", shared, pcie(self.generation)), Tier(first, units, card(self.transport, self.rate))]
        link = fabric(self.transport, self.rate)
        return tiers + [Tier(name, upper, link, self.oversubscription) for name, upper in others]

    def above_servers(self, hosts: Integers) -> list[Tier]:
        """One ideal switch above all cards or, oversubscribed, a leaf switch above each host below one spine."""
        devices = len(hosts)
        if self.oversubscription == 1:
            return self.network(devices, (self.transport, blocks(devices, devices)))
        return self.network(devices, ("leaf", hosts), ("spine", blocks(devices, devices)))


def _parts(gpus: int) -> str:
    """The divisors of a number of GPUs below it."""
    return ", ".join(str(part) for part in range(1, gpus) if gpus % part == 0)


@dataclass(frozen=True, slots=True)
class Switched(Cards):
    """Servers or trays whose GPUs are joined by an NVSwitch."""

    nvlink_bandwidth: float | None = None
    nvlink: float = 450 * GIGA

    def cluster(self, name: str, network: Sequence[Tier], hosts: Integers) -> Topology:
        """An NVSwitch in each host, a network between them.

        The switch has the bytes/s of the option, else of the accelerator, else `nvlink`.
        """
        inside = nvswitch(hosts, nvlink(self.chip, self.nvlink, self.nvlink_bandwidth))
        return cluster(name, self.chip, network, hosts, inside)


@dataclass(frozen=True, slots=True)
class Servers(Switched):
    """Servers with an NVSwitch, each with `gpus_per_node` of its `gpus` in use: all, or an even part."""

    gpus_per_node: int = GPUS_PER_SERVER

    def __post_init__(self) -> None:
        Switched.__post_init__(self)
        used = check_size("gpus_per_node", self.gpus_per_node, limit=self.gpus)
        if self.gpus % used:
            raise ValueError(
                f"gpus_per_node={used} of {self.gpus} GPUs: used are all {self.gpus}, or {_parts(self.gpus)} of them"
            )

    @property
    def used(self) -> int:
        """As the option says."""
        return self.gpus_per_node


def nvswitch(hosts: Integers, link: Link) -> Part[SwitchLevel]:
    """A switch above the GPUs of each host."""
    return chain(gpus(len(hosts)), [Tier("nvswitch", hosts, link)])


def servers_on_a_switch(build: Callable[..., Any], defaults: Servers, nodes: int, options: ServerOptions) -> Topology:
    """So many servers of a family, their cards on one ideal switch or, oversubscribed, on a leaf switch per server."""
    servers = defaults.changed(build, options)
    devices = servers.devices(nodes)
    hosts = blocks(devices, servers.used)
    changed = servers.beside(defaults)
    built = servers.cluster(title(build, nodes=nodes, **changed), servers.above_servers(hosts), hosts)
    return built.replace(warnings=outside(changed, nodes, "node"))


def outside(changed: Mapping[str, Any], count: int, what: str) -> tuple[str, ...]:
    """A warning where options of a network that joins nothing were changed."""
    names = ("nics", "nic_gbit", "transport", "oversubscription")
    return idle(changed, names, f"one {what} has nobody to reach by its cards") if count == 1 else ()
