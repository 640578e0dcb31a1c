"""The cluster of a published run: family, servers, network cards."""

import math
import re

from simulator.validation.measured import SERVERS
from simulator.validation.published_cells import Cells
from simulator.validation.tables import LeftOutError

PER_SERVER = 8
"""Accelerators of a server of all families but racks."""
RACK = 64
"""GPUs of an NVL72 that jobs use: 16 of its 18 trays, as NVIDIA's own runs do."""
TRAY = 4

VARIANTS = {"H100-96GB-HBM2e": "h100_hbm2e"}
"""Parts that are sold under a name of SERVERS but differ, by how `accelerator_as_published` begins."""

SITES = {"jean zay": "jean_zay"}
"""Clusters that are families of their own, by words of notes."""
TRANSPORTS = {"omnipath": "omnipath", "roce": "roce", "slingshot": "slingshot", "efa": "efa", "tcp": "tcp"}
"""Words of a row that name its network; the rest has what its family has: InfiniBand."""
CARDS = (
    r"(\d+) x (\d+) ?Gb",
    r"(\d+) OmniPath links/node \((\d+) Gb/s each",
    r"(\d+) HDR(\d+) NICs/node",
)
"""How notes tell the cards of a node and the Gb/s of each."""
SLOWEST_CARD = 100
"""Gb/s: accelerators that have less of the network each share cards of this rate."""

SLICES = {"TPU v4": ("tpu_v4", 3), "TPU v5e": ("tpu_v5e", 2), "TPU v5p": ("tpu_v5p", 3)}
"""Accelerator and dimensions of its torus (docs.cloud.google.com/tpu)."""


def topology(cells: Cells) -> str:
    """The text of a row's cluster; LeftOutError where there is no such cluster."""
    accelerator = cells.word("accelerator")
    if accelerator in SLICES:
        return _torus(cells, *SLICES[accelerator])
    if accelerator not in SERVERS:
        raise LeftOutError(f"no server of this accelerator is modelled ({accelerator})")
    text, gpus = SERVERS[accelerator], int(cells.number("gpus"))
    variant = next(
        (ours for name, ours in VARIANTS.items() if cells.word("accelerator_as_published").startswith(name)), ""
    )
    text += f",accelerator={variant}" if variant else ""
    if text.endswith("nvl72"):
        return text + _racks(gpus)
    nodes = math.ceil(gpus / PER_SERVER)
    site = next((ours for word, ours in SITES.items() if word in cells.word("notes").lower()), "")
    if site:
        return f"{site},nodes={nodes}"
    if nodes == 1:
        return f"{text},nodes=1" + (f",gpus_per_node={gpus}" if gpus < PER_SERVER else "")
    if gpus % PER_SERVER:
        raise LeftOutError(f"{gpus} accelerators do not fill servers of {PER_SERVER}")
    return f"{text},nodes={nodes}{_network(cells)}"


def _racks(gpus: int) -> str:
    """Racks with equally many GPUs, at most 64 in each."""
    racks = math.ceil(gpus / RACK)
    if gpus % (racks * TRAY):
        raise LeftOutError(f"{gpus} GPUs do not lie evenly on {racks} racks of trays of {TRAY}")
    return f",racks={racks},gpus_per_rack={gpus // racks}"


def _network(cells: Cells) -> str:
    """Options for cards and transport, where the row states them."""
    words = " ".join(cells.word(name) for name in ("source", "notes", "intra_node_link")).lower()
    transport = next((ours for word, ours in TRANSPORTS.items() if re.search(rf"\b{word}", words)), "")
    kind = f",transport={transport}" if transport else ""
    if not cells.states("network_bytes_per_second_per_gpu"):
        cells.assume("the network cards are those of the server's data sheet")
        return kind
    gbit = 8e-9 * cells.number("network_bytes_per_second_per_gpu") * PER_SERVER
    told = next((found for pattern in CARDS if (found := cells.found(pattern, "notes", "source"))), ())
    cards = PER_SERVER if gbit >= PER_SERVER * SLOWEST_CARD else round(gbit / SLOWEST_CARD)
    if told and math.isclose(int(told[0]) * int(told[1]), gbit):
        cards = int(told[0])
    return f",nics={cards},nic_gbit={gbit / cards:g}{kind}"


def slices(cells: Cells) -> int:
    """How many slices of TPUs a run spans, each a torus: `2x v5p-128` in its source, or `across 2 slices`."""
    told = cells.found(r"(\d+)x v\d\w?-\d+", "source") or cells.found(r"across (\d+) slices", "sharding_note")
    return int(told[0]) if told else 1


def _torus(cells: Cells, accelerator: str, dimensions: int) -> str:
    """One torus, or several slices joined by the data-center network."""
    count, gpus = slices(cells), int(cells.number("gpus"))
    if gpus % count:
        raise LeftOutError(f"{gpus} chips do not lie evenly on {count} slices")
    sides = _sides(gpus // count, dimensions)
    text = f"torus,shape={'x'.join(map(str, sides))},accelerator={accelerator}"
    return text + (f",slices={count}" if count > 1 else "")


def _sides(chips: int, dimensions: int) -> list[int]:
    """The sides of a torus of so many chips, a power of two, as equal as they can be, shorter ones first.

    >>> _sides(256, 2), _sides(128, 3)
    ([16, 16], [4, 4, 8])
    """
    power = chips.bit_length() - 1
    if 2**power != chips:
        raise LeftOutError(f"{chips} chips: no such slice is known, they are powers of two")
    each, more = divmod(power, dimensions)
    return [2 ** (each + (number >= dimensions - more)) for number in range(dimensions)]
