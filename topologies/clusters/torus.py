"""A torus of chips, as TPU pods and Trainium UltraServers are.

Source: docs.cloud.google.com/tpu/docs (v4: 4096 chips in 3 dimensions, v5e: 256 in 2, v5p: 8960 in 3); Jouppi et al.,
"TPU v4", arXiv:2304.01433; AWS Neuron documentation (Trainium2: 4x4 chips an instance, 4 instances an UltraServer).
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import networkx as nx

from topologies import accelerators
from topologies.accelerator import Accelerator
from topologies.link import Link, Node
from topologies.options import MAXIMUM_DEVICES, check_size, title
from topologies.routing.torus import Torus
from topologies.scale_up import TORUS_LATENCY
from topologies.topology import Topology
from topologies.units import GIGA

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


def build(
    shape: str | Sequence[int] = "4x4x4", accelerator: str | Accelerator = "tpu_v4", bandwidth: float | None = None
) -> Topology:
    """Chips in rings along each dimension of a shape such as `4x4x4` (or `(4, 4, 4)`); ranks are row-major in it.

    `bandwidth` is that of every link, bytes/s each way; by default the accelerator's own. Trainium2 has slower links
    along the first of three dimensions, that between instances, so that neighbouring ranks are in one plane. A
    dimension of 2 has one link between its two chips. All chips are one scale-up domain, node `chip0` and so on.
    Routes go dimension by dimension, the shorter way round. Assumes wrap-around links in every dimension, though pods
    cut smaller slices without them.

    >>> build("4x4x8").description
    '128 TPU v4 on a torus of 4x4x8; ici 6 × 50 GB/s'
    >>> [link.bandwidth for link in build("4x4x4", "trainium2").route(0, 17)]
    [64000000000.0, 128000000000.0]
    """
    sizes = _sizes(shape)
    chip = accelerators.build(accelerator)
    devices = tuple(f"chip{rank}" for rank in range(math.prod(sizes)))
    router, edges = Torus.of(sizes, devices, _wires(chip, len(sizes), bandwidth))
    graph: nx.Graph[Node] = nx.Graph()
    graph.add_nodes_from(devices, device=True, host=0)
    graph.add_edges_from((tail, head, {"link": link}) for tail, head, link in edges)
    name = title(build, shape="x".join(map(str, sizes)), accelerator=accelerator, bandwidth=bandwidth)
    return Topology(name, graph, devices, (chip,) * len(devices), router, sizes)


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
