"""Scale-up fabrics: what joins the accelerators of one server, rack or pod, by accelerator.

Rates are bytes/s in one direction. Sources: NVIDIA, AMD, Google and AWS data sheets as tabulated by
github.com/stas00/ml-engineering (accelerators, network); H800: DeepEP README.
"""

from collections.abc import Mapping
from types import MappingProxyType

from topologies.accelerator import Accelerator
from topologies.link import NVSWITCH_LATENCY, Link
from topologies.units import GIGA, MICRO

SWITCHED: Mapping[str, float] = MappingProxyType(
    {
        "V100-SXM2": 150 * GIGA,
        "A100-SXM4-40GB": 300 * GIGA,
        "A100-SXM4-80GB": 300 * GIGA,
        "H100-SXM5": 450 * GIGA,
        "H100-SXM5-HBM2e": 450 * GIGA,
        "H200-SXM": 450 * GIGA,
        "H800-SXM": 200 * GIGA,
        "H20": 450 * GIGA,
        "GH200": 450 * GIGA,
        "B200-SXM": 900 * GIGA,
        "GB200": 900 * GIGA,
        "B300-SXM": 900 * GIGA,
        "GB300": 900 * GIGA,
    }
)
"""Bytes/s between an accelerator and its NVSwitch."""

PAIRED: Mapping[str, tuple[str, float]] = MappingProxyType(
    {
        "MI300X": ("xgmi", 64 * GIGA),
        "MI325X": ("xgmi", 64 * GIGA),
        "MI355X": ("xgmi", 76.5 * GIGA),
        # Four on a board: 12 NVLinks of 25 GB/s (A100) or 18 (GH200), a third of them to each of the other three.
        "A100-SXM4-40GB": ("nvlink", 100 * GIGA),
        "A100-SXM4-80GB": ("nvlink", 100 * GIGA),
        "GH200": ("nvlink", 150 * GIGA),
    }
)
"""Kind and bytes/s of the link between two accelerators of a full mesh."""

PCIE_GENERATION: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("K40", "P100-SXM2", "V100-SXM2"), 3),
        **dict.fromkeys(("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIe-80GB", "MI250X", "Gaudi2"), 4),
    }
)
"""PCI Express between an accelerator and its host; 5 for those that are not here."""

# Assumes that a hop over a direct link costs what one passage of an NVSwitch costs. Source for torus links: about
# 1 µs a hop, "How to Scale Your Model" (jax-ml.github.io/scaling-book); the same for NeuronLink.
MESH_LATENCY = NVSWITCH_LATENCY
TORUS_LATENCY = 1.0 * MICRO


def nvlink(accelerator: Accelerator, otherwise: float, bandwidth: float | None = None) -> Link:
    """Between an accelerator and its NVSwitch: the given bytes/s, else its own, else `otherwise`.

    >>> from topologies import accelerators
    >>> nvlink(accelerators.build("h800"), otherwise=450e9).bandwidth
    200000000000.0
    """
    if bandwidth is None:
        bandwidth = SWITCHED.get(accelerator.name, otherwise)
    return Link("nvlink", bandwidth, NVSWITCH_LATENCY / 2)


def pair(accelerator: Accelerator, bandwidth: float | None = None) -> Link:
    """Between two accelerators of a full mesh: the given bytes/s, else its own.

    >>> from topologies import accelerators
    >>> pair(accelerators.build("mi300x")).kind
    'xgmi'
    """
    kind, own = PAIRED.get(accelerator.name, ("nvlink", 0.0))
    if bandwidth is None and not own:
        known = ", ".join(PAIRED)
        raise ValueError(
            f"pair_bandwidth of {accelerator.name} in a full mesh is not known; give bytes/s. Known: {known}"
        )
    return Link(kind, own if bandwidth is None else bandwidth, MESH_LATENCY)
