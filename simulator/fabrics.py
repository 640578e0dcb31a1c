"""How communication libraries use links: the constants of every fabric, read from fabrics.yaml.

A *fabric* is what the library of one accelerator makes of one kind of link. A constant is shared by a class of links,
or belongs to an accelerator's family, a technology, or both; the narrowest place that gives it counts. Kinds of which
the file says nothing, such as the ideal port, reach their line rate and cost nothing. Assumes that what was not
measured is like the rest of its class: inter-chip links of other accelerators like NVLink, and copies over PCIe and
NVLink-C2C too, of which boxes measure 0.44 to 0.75 of 16 lanes, and about 0.65 to and 0.9 from the host of a GH200 is
told (not re-checked); ordinary Ethernet like TCP on tuned cards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache

from simulator.constants import Key, read

SCALE_UP = ("nvlink", "xgmi", "ici", "neuronlink")
BETWEEN = "fabric"
"""Links between switches, which carry whatever transport reaches them."""
NETWORK = ("infiniband", "omnipath", "roce", "efa", "tcpx", "tcpxo", "slingshot", "ethernet")
CLASSES = {
    "all": (*SCALE_UP, "pcie", *NETWORK),
    "scale_up": (*SCALE_UP, "pcie"),
    "network": NETWORK,
    "ethernet": ("roce", "efa", "tcpx", "tcpxo", "ethernet"),
    "hosted": ("efa", "tcpx", "tcpxo", "ethernet"),
}
"""Kinds of links that share constants, wide classes first. On Ethernet a single ring falls short of what many reach;
hosted are transports of which host software handles every message, where verbs leave that to the card."""

LIKE = {"c2c": "pcie"}
"""Kinds of links that have the constants of another."""

FAMILIES = {
    **dict.fromkeys(("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIe-80GB"), "A100"),
    **dict.fromkeys(("H100-SXM5", "H100-SXM5-HBM2e", "H100-PCIe", "H200-SXM", "H800-SXM", "H20", "GH200"), "Hopper"),
    **dict.fromkeys(("B200-SXM", "B300-SXM"), "Blackwell"),
    **dict.fromkeys(("GB200", "GB300"), "GB200"),
    **dict.fromkeys(("MI300X", "MI325X", "MI355X"), "MI300"),
    **dict.fromkeys(("TPU v4", "TPU v5e", "TPU v5p", "TPU v6e (Trillium)", "TPU v7x (Ironwood)"), "TPU"),
}
"""Accelerators that share a generation of links, and with it their constants; the rest are `other`."""

SHARED_CARDS = {("A100", "efa"): 2.0}
"""Accelerators that share a network card, whose messages the host's software handles in turn; elsewhere each has its
own, or software's time as it was measured. AWS p4d: four cards of 100 Gb/s for eight A100."""

# About 15 % of the SMs on NVLink and 2 % on network cards in the literature. TPUs, Trainium and copies over PCIe have
# engines of their own.
SM_SHARES = {"nvlink": 0.15, "xgmi": 0.15, **dict.fromkeys(NETWORK, 0.02)}


@dataclass(frozen=True, slots=True)
class Fabric:
    """What a library reaches on one kind of link, with either of two protocols; the faster one is taken.

    Bulk: a share of the line rate, after `launch` and `setup`, with `step`, `software_step` and `bulk_step` for each
    step in turn: what the kernel, the host's software and the protocol's handshake take, beside the time that signals
    travel. The rate is reached with the time constant `ramp` a pass. Low latency: neither set-up, handshake nor ramp,
    at `low_latency_share` of the bulk rate: its messages carry flags beside the data, and go through few of the
    channels.

    The share is `share`, `lone_share` for a single ring or tree across hosts. Where switches reduce it is
    `in_switch_share`, times `in_switch_tree_share` where trees between hosts take turns with them. Times in seconds;
    `turns` are the accelerators whose messages the host's software handles one after another; `sm_share` is the share
    of an accelerator's SMs that its kernels hold.
    """

    share: float = 1.0
    lone_share: float = 1.0
    in_switch_share: float = 1.0
    in_switch_tree_share: float = 1.0
    low_latency_share: float = 1.0
    launch: float = 0.0
    setup: float = 0.0
    step: float = 0.0
    software_step: float = 0.0
    turns: float = 1.0
    bulk_step: float = 0.0
    ramp: float = 0.0
    sm_share: float = 0.0


SHARES = ("share", "lone_share", "in_switch_share", "in_switch_tree_share", "low_latency_share")
"""Constants of which the slowest member of a mixed group has the least; of the times it has the greatest."""

OF_ACCELERATORS = ("launch", "ramp")
"""Constants that the accelerator gives to all kinds of links; others it gives to its scale-up links."""

SAME_AS = (("lone_share", "share"), ("in_switch_share", "share"))
"""Constants that equal another one where the file does not give them."""


@dataclass(frozen=True, slots=True, eq=False)
class Fabrics:
    """A whole set of constants: `values` by their place in the file."""

    values: Mapping[Key, float]
    cache: dict[tuple[str, str], Fabric] = field(default_factory=dict)

    def keys(self, kind: str, accelerator: str) -> dict[str, Key]:
        """Where each constant of a kind of link at an accelerator stands; empty for an ideal kind.

        >>> published().keys("infiniband", "H100-SXM5")["launch"]
        ('shared', 'all', 'launch')
        """
        family, kind = FAMILIES.get(accelerator, "other"), LIKE.get(kind, kind)
        if kind not in CLASSES["all"]:
            return {}
        places = {}
        for section, entry in (
            *(("shared", name) for name, kinds in CLASSES.items() if kind in kinds),
            ("accelerators", family),
            ("links", kind),
            ("links", f"{family} {kind}"),
        ):
            own = OF_ACCELERATORS if section == "accelerators" and kind not in SCALE_UP else NAMES
            places.update({name: key for name in own if (key := (section, entry, name)) in self.values})
        for name, other in SAME_AS:
            if name not in places and other in places:
                places[name] = places[other]
        return places

    def known(self, kind: str) -> bool:
        """Whether the file says something of a kind of link; others are ideal."""
        return bool(self.keys(kind, ""))

    def reduces(self, kind: str, accelerator: str) -> bool:
        """Whether a switch between links of a kind can reduce for an accelerator; ideal ones can."""
        place = self.keys(kind, accelerator).get("in_switch_share")
        return place is None or (kind in SCALE_UP and place[2] == "in_switch_share")

    def of_kinds(self, kinds: Sequence[str], accelerator: str) -> list[Fabric]:
        """The constants of all kinds of links of a topology as an accelerator's library uses them.

        Links between switches reach the share of the slowest transport that they carry, and add no time of their own.
        """
        found = [self.fabric(kind, accelerator) for kind in kinds]
        carried = [each for kind, each in zip(kinds, found, strict=True) if kind in NETWORK]
        shares = {name: min((getattr(each, name) for each in carried), default=1.0) for name in SHARES}
        return [Fabric(**shares) if kind == BETWEEN else each for kind, each in zip(kinds, found, strict=True)]

    def fabric(self, kind: str, accelerator: str) -> Fabric:
        """The constants of a kind of link as an accelerator's library uses it."""
        if (kind, accelerator) not in self.cache:
            places = self.keys(kind, accelerator)
            found = {name: self.values[place] for name, place in places.items()}
            sm_share = SM_SHARES.get(kind, 0.0) if places else 0.0
            turns = SHARED_CARDS.get((FAMILIES.get(accelerator, ""), kind), 1.0)
            self.cache[kind, accelerator] = Fabric(**found, turns=turns, sm_share=sm_share)
        return self.cache[kind, accelerator]


NAMES = tuple(each.name for each in fields(Fabric))


@cache
def published() -> Fabrics:
    """The constants that come with the package."""
    return Fabrics(read("fabrics.yaml"))
