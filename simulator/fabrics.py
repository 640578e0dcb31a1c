"""How communication libraries use links: the constants of every fabric, read from fabrics.yaml.

A *fabric* is what the library of one accelerator makes of one kind of link. Scale-up links (NVLink, Infinity Fabric)
go by the accelerator, other links by their technology. Kinds of which the file says nothing, such as the ideal port,
reach their line rate and cost nothing. Assumes that copies reach the share of NVLink-C2C that they reach of PCIe, which
lies within what is told of a GH200: about 0.65 to the host and 0.9 from it (not re-checked).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache

from simulator.constants import Key, read

SCALE_UP = ("nvlink", "xgmi", "ici", "neuronlink")
BETWEEN = "fabric"
"""Links between switches, which carry whatever transport reaches them."""
NETWORK = ("infiniband", "omnipath", "roce", "efa", "tcpx", "tcpxo", "slingshot", "ethernet")

LIKE = {"c2c": "pcie"}
"""Kinds of links that have the constants of another."""

TIMED_LIKE = {"omnipath": "infiniband"}
"""Kinds of links of which no more than the share is known, with the kind whose times they have."""

FAMILIES = {
    **dict.fromkeys(("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIe-80GB"), "A100"),
    **dict.fromkeys(("H100-SXM5", "H100-SXM5-HBM2e", "H100-PCIe", "H200-SXM", "H800-SXM", "H20", "GH200"), "Hopper"),
    **dict.fromkeys(("B200-SXM", "B300-SXM"), "Blackwell"),
    **dict.fromkeys(("GB200", "GB300"), "GB200"),
    **dict.fromkeys(("MI300X", "MI325X", "MI355X"), "MI300"),
    **dict.fromkeys(("TPU v4", "TPU v5e", "TPU v5p", "TPU v6e (Trillium)"), "TPU"),
}
"""Accelerators that share a generation of links, and with it their constants; the rest are `other`."""

# About 15 % of the SMs on NVLink and 2 % on network cards in the literature. TPUs, Trainium and copies over PCIe have
# engines of their own.
SM_SHARES = {"nvlink": 0.15, "xgmi": 0.15, **dict.fromkeys(NETWORK, 0.02)}


@dataclass(frozen=True, slots=True)
class Fabric:
    """What a library reaches on one kind of link, with either of two protocols; the faster one is taken.

    Bulk: a share of the line rate, after `launch` and `setup`, with `step` for each step in turn. The rate is reached
    with the time constant `ramp` a pass, plus `fill` for every step across a network, whose pipeline has to fill. Low
    latency: neither set-up nor ramp, `low_latency_step` a step, at `low_latency_share` of the bulk rate: its messages
    carry flags beside the data, and go through few of the channels.

    The share is `share` where rings or trees go through every card of a host, `lone_share` for a single ring or tree
    across hosts, `pair_share` for messages between all pairs, `message_share` for a single message. Where switches
    reduce it is `in_switch_share`, or `in_switch_tree_share` where trees between hosts take turns with them, and ramp
    and steps across networks are others, too. Times in seconds; `sm_share` is the share of an accelerator's SMs that
    its kernels hold.
    """

    share: float = 1.0
    pair_share: float = 1.0
    lone_share: float = 1.0
    message_share: float = 1.0
    in_switch_share: float = 1.0
    in_switch_tree_share: float = 1.0
    low_latency_share: float = 1.0
    launch: float = 0.0
    setup: float = 0.0
    low_latency_step: float = 0.0
    step: float = 0.0
    ramp: float = 0.0
    in_switch_ramp: float = 0.0
    in_switch_step: float = 0.0
    fill: float = 0.0
    sm_share: float = 0.0


SHARES = (
    "share",
    "pair_share",
    "lone_share",
    "message_share",
    "in_switch_share",
    "in_switch_tree_share",
    "low_latency_share",
)
"""Constants of which the slowest member of a mixed group has the least; of the times it has the greatest."""

OF_ACCELERATORS = ("launch", "ramp", "in_switch_ramp")
"""Constants that the accelerator gives to all kinds of links."""

SAME_AS = (
    ("lone_share", "share"),
    ("pair_share", "share"),
    ("in_switch_share", "share"),
    ("in_switch_tree_share", "in_switch_share"),
    ("message_share", "pair_share"),
    ("in_switch_ramp", "ramp"),
    ("in_switch_step", "step"),
)
"""Constants that equal another one where the file does not give them."""


@dataclass(frozen=True, slots=True, eq=False)
class Fabrics:
    """A whole set of constants: `values` by their place in the file."""

    values: Mapping[Key, float]
    cache: dict[tuple[str, str], Fabric] = field(default_factory=dict)

    def keys(self, kind: str, accelerator: str) -> dict[str, Key]:
        """Where each constant of a kind of link at an accelerator stands; empty for an ideal kind.

        >>> published().keys("infiniband", "H100-SXM5")["launch"]
        ('accelerators', 'Hopper', 'launch')
        """
        family, kind = FAMILIES.get(accelerator, "other"), LIKE.get(kind, kind)
        own, role = ("accelerators", family), "scale_up" if kind in (*SCALE_UP, "pcie") else "network"
        if kind not in SCALE_UP:
            own = ("links", f"{family} {kind}" if ("links", f"{family} {kind}", "share") in self.values else kind)
        if (*own, "share") not in self.values:
            return {}
        places = {
            **{
                name: place
                for each in ("other", family)
                for name in OF_ACCELERATORS
                if (place := ("accelerators", each, name)) in self.values
            },
            **{name: place for name in NAMES if (place := ("shared", role, name)) in self.values},
            **self._like(kind),
            **{name: place for name in NAMES if (place := (*own, name)) in self.values},
        }
        for name, other in SAME_AS:
            if name not in places and other in places:
                places[name] = places[other]
        return places

    def _like(self, kind: str) -> dict[str, Key]:
        """Where the times stand that a kind has from another one, and for its lone rings its own share."""
        if kind not in TIMED_LIKE:
            return {}
        times = {name: place for name in TIMES if (place := ("links", TIMED_LIKE[kind], name)) in self.values}
        return {**times, "lone_share": ("links", kind, "share")}

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
            self.cache[kind, accelerator] = Fabric(**found, sm_share=sm_share)
        return self.cache[kind, accelerator]


NAMES = tuple(each.name for each in fields(Fabric))
TIMES = tuple(name for name in NAMES if name not in SHARES)


@cache
def published() -> Fabrics:
    """The constants that come with the package."""
    return Fabrics(read("fabrics.yaml"))
