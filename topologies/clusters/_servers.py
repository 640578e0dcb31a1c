"""Parts that cluster families share: the scale-up switch of a server and the network cards."""

from topologies.hierarchy import Tier
from topologies.link import CARD_LATENCY, NVSWITCH_LATENCY, PCIE_LATENCY

GPUS_PER_SERVER = 8


def nvswitch(bandwidth: float) -> Tier:
    """A server's NVSwitch: bytes/s each way between a GPU and it."""
    return Tier("nvswitch", GPUS_PER_SERVER, "nvlink", bandwidth, NVSWITCH_LATENCY / 2)


def cards(switch: str, devices: int, kind: str, bandwidth: float, switch_latency: float) -> Tier:
    """The first network tier: each GPU over PCIe and its own card to a switch above so many devices."""
    return Tier(switch, devices, kind, bandwidth, PCIE_LATENCY + CARD_LATENCY + switch_latency / 2)
