"""A torus of chips, as TPU pods and Trainium UltraServers are.

Source: docs.cloud.google.com/tpu/docs (v4: 4096 chips in 3 dimensions, v5e: 256 in 2, v5p: 8960 in 3); Jouppi et al.,
"TPU v4", arXiv:2304.01433; AWS Neuron documentation (Trainium2: 4x4 chips an instance, 4 instances an UltraServer).
Network outside of a slice: docs.cloud.google.com/tpu/docs/v6e and v5p (v5e: 6.4 Tb/s for 256 chips, v6e 25.6; v5p:
50 Gb/s a chip); not re-checked.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import networkx as nx

from topologies import accelerators
from topologies.accelerator import Accelerator
from topologies.hierarchy import Part, Tier, assemble, blocks, chain
from topologies.link import Link, Node
from topologies.options import MAXIMUM_DEVICES, check_number, check_size, idle, title
from topologies.routing.torus import SliceLevel, Torus
from topologies.scale_up import TORUS_LATENCY
from topologies.topology import Topology
from topologies.transport import own_card
from topologies.units import GBIT, GIGA

ICI: Mapping[str, float] = MappingProxyType(
    {
        "TPU v4": 300 * GIGA / 6,
        "TPU v5e": 200 * GIGA / 4,
        "TPU v5p": 600 * GIGA / 6,
        "TPU v6e (Trillium)": 400 * GIGA / 4,
        "Trainium1": 192 * GIGA / 4,
    }
)
"""Bytes/s each way of one link: a chip's sum over its links, two a dimension."""

NEURONLINK, NEURONLINK_ACROSS = 128 * GIGA, 64 * GIGA
"""Bytes/s each way of a Trainium2's links in the plane of an instance, and to the next instance."""

OUTSIDE: Mapping[str, float] = MappingProxyType({"TPU v5e": 25.0, "TPU v5p": 50.0, "TPU v6e (Trillium)": 100.0})
"""Gb/s each way that a chip has of the cards of its host, to other slices."""
TRANSPORT = "ethernet"


def build(
    shape: str | Sequence[int] = "4x4x4",
    accelerator: str | Accelerator = "tpu_v4",
    bandwidth: float | None = None,
    slices: int = 1,
    nic_gbit: float | None = None,
) -> Topology:
    """Chips in rings along each dimension of a shape such as `4x4x4` (or `(4, 4, 4)`); ranks are row-major in it.

    `bandwidth` is that of every link, bytes/s each way; by default the accelerator's own. Trainium2 has slower links
    along the first of three dimensions, that between instances, so that neighbouring ranks are in one plane. A
    dimension of 2 has one link between its two chips. All chips are one scale-up domain, node `chip0` and so on.
    Routes go dimension by dimension, the shorter way round. Assumes wrap-around links in every dimension, though pods
    cut smaller slices without them.

    Several `slices` of that shape are joined by the data-center network, to which each chip has `nic_gbit` Gb/s each
    way; by default what its host has for it. Each slice is a scale-up domain. Assumes that network is one ideal switch
    and that a chip uses its own part of its host's cards alone.

    >>> build("4x4x8").description
    '128 TPU v4 on a torus of 4x4x8; ici 6 × 50 GB/s'
    >>> [link.bandwidth for link in build("4x4x4", "trainium2").route(0, 17)]
    [64000000000.0, 128000000000.0]
    """
    sizes = _sizes(shape)
    chip = accelerators.build(accelerator)
    check_size("slices", slices, MAXIMUM_DEVICES // math.prod(sizes))
    name = title(
        build,
        shape="x".join(map(str, sizes)),
        accelerator=accelerator,
        bandwidth=bandwidth,
        slices=slices,
        nic_gbit=nic_gbit,
    )
    wires = _wires(chip, len(sizes), bandwidth)
    if slices > 1:
        return _joined(name, chip, (slices, *sizes), wires, _outside(chip, nic_gbit))
    devices = tuple(f"chip{rank}" for rank in range(math.prod(sizes)))
    router, edges = Torus.of(sizes, devices, wires)
    graph: nx.Graph[Node] = nx.Graph()
    graph.add_nodes_from(devices, device=True, host=0)
    graph.add_edges_from((tail, head, {"link": link}) for tail, head, link in edges)
    unused = idle({} if nic_gbit is None else {"nic_gbit": nic_gbit}, ["nic_gbit"], "one slice has nobody to reach")
    return Topology(name, graph, devices, (chip,) * len(devices), router, sizes, unused)


def _joined(name: str, chip: Accelerator, shape: tuple[int, ...], wires: Sequence[Link], card: Link) -> Topology:
    """Slices, the first dimension of the shape, each of them a torus, below one switch."""
    size = math.prod(shape)
    devices = tuple(f"chip{rank}" for rank in range(size))
    slices = blocks(size, size // shape[0])
    torus, edges = Torus.of(shape, devices, [None, *wires])
    network = chain(devices, [Tier("dcn", blocks(size, size), card)], len(edges))
    built = assemble(name, chip, devices, slices, [Part(edges, (SliceLevel(torus, slices),)), network])
    return built.replace(grid=shape)


def _outside(chip: Accelerator, nic_gbit: float | None) -> Link:
    """A chip's part of the cards of its host."""
    if nic_gbit is None:
        if chip.name not in OUTSIDE:
            raise ValueError(f"nic_gbit of {chip.name} is not known; give Gb/s. Known: {', '.join(OUTSIDE)}")
        nic_gbit = OUTSIDE[chip.name]
    return own_card(TRANSPORT, check_number("nic_gbit", nic_gbit, least=1e-3) * GBIT)


def _sizes(shape: str | Sequence[int]) -> tuple[int, ...]:
    parts: Sequence[int | str] = list(shape) if isinstance(shape, list | tuple) else str(shape).split("x")
    if not 1 <= len(parts) <= 6 or not all(str(part).isdecimal() for part in parts):
        raise ValueError(f"shape={shape}: a torus has 1 to 6 sizes, such as 4x4x4")
    sizes = tuple(int(part) for part in parts)
    for size in (*sizes, math.prod(sizes)):
        check_size(f"shape={'x'.join(map(str, parts))}: size", size, MAXIMUM_DEVICES)
    return sizes


def _wires(chip: Accelerator, dimensions: int, bandwidth: float | None) -> list[Link]:
    """The link along each dimension."""
    kind = "neuronlink" if chip.name.startswith("Trainium") else "ici"
    if bandwidth is not None:
        rates = [bandwidth] * dimensions
    elif chip.name == "Trainium2":
        rates = [NEURONLINK_ACROSS] * (dimensions - 2) + [NEURONLINK] * min(dimensions, 2)
    elif chip.name in ICI:
        rates = [ICI[chip.name]] * dimensions
    else:
        raise ValueError(
            f"bandwidth of a torus of {chip.name} is not known; give bytes/s. Known: {', '.join(ICI)}, Trainium2"
        )
    return [Link(kind, rate, TORUS_LATENCY) for rate in rates]
