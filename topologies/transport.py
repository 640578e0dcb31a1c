"""Transports: the technology between network cards and their first switch, and what a card costs to cross.

Software costs of a transport are not here; the simulator knows them by the kind of link.
"""

from collections.abc import Mapping
from types import MappingProxyType

from topologies.link import CARD_LATENCY, ETHERNET_SWITCH_LATENCY, INFINIBAND_SWITCH_LATENCY, PCIE_LATENCY, Link
from topologies.plugins import unknown
from topologies.units import GIGA, MICRO

SWITCH_LATENCY: Mapping[str, float] = MappingProxyType(
    {
        "infiniband": INFINIBAND_SWITCH_LATENCY,
        # Assumes what an InfiniBand switch takes: Omni-Path 100 descends from it.
        "omnipath": INFINIBAND_SWITCH_LATENCY,
        "roce": ETHERNET_SWITCH_LATENCY,
        "efa": ETHERNET_SWITCH_LATENCY,
        "tcpx": ETHERNET_SWITCH_LATENCY,
        "tcpxo": ETHERNET_SWITCH_LATENCY,
        "ethernet": ETHERNET_SWITCH_LATENCY,
        # Source: De Sensi et al., "An In-Depth Analysis of the Slingshot Interconnect", SC 2020: 350 ns a switch.
        "slingshot": 0.35 * MICRO,
    }
)
"""Every transport with the latency of its switches, in seconds."""

PCIE_BANDWIDTH: Mapping[int, float] = MappingProxyType({3: 16 * GIGA, 4: 32 * GIGA, 5: 64 * GIGA, 6: 128 * GIGA})
"""Bytes/s each way of 16 lanes by PCIe generation: 8, 16, 32, 64 GT/s a lane, before coding and packet headers."""


def switch_latency(transport: str) -> float:
    """Seconds that a switch of a transport takes; an unknown one fails with the known ones.

    >>> switch_latency("infinband")
    Traceback (most recent call last):
    ValueError: unknown transport 'infinband'; did you mean infiniband? Known: efa, ethernet, infiniband, \
omnipath, roce, slingshot, tcpx, tcpxo
    """
    if transport not in SWITCH_LATENCY:
        raise ValueError(unknown("transport", str(transport), SWITCH_LATENCY))
    return SWITCH_LATENCY[transport]


def card(transport: str, bandwidth: float) -> Link:
    """From a network card to its switch, so many bytes/s each way."""
    return Link(transport, bandwidth, CARD_LATENCY + switch_latency(transport) / 2)


def own_card(transport: str, bandwidth: float) -> Link:
    """From a GPU over PCIe and its own cards to their switch, as one link."""
    return Link(transport, bandwidth, PCIE_LATENCY + CARD_LATENCY + switch_latency(transport) / 2)


def pcie(generation: int) -> Link:
    """Sixteen lanes of PCIe between two neighbours."""
    if generation not in tuple(PCIE_BANDWIDTH):
        known = ", ".join(map(str, PCIE_BANDWIDTH))
        raise ValueError(f"PCIe generation {generation} is not known; known are {known}")
    return Link("pcie", PCIE_BANDWIDTH[generation], PCIE_LATENCY)


def fabric(transport: str, bandwidth: float) -> Link:
    """From switch to switch of a transport's network."""
    return Link("fabric", bandwidth, switch_latency(transport))
