"""Collective operations as measured and published, rebuilt so that the network model can time them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import topologies
from simulator import collectives
from simulator.activity import Activity
from simulator.validation import tables
from simulator.validation.tables import TIME, LeftOutError, Number, stated
from topologies import Topology
from topologies.transport import SWITCH_LATENCY
from workloads.ops import Collective

SOURCE = files("simulator") / "data" / "collectives.csv"
"""Published measurements, each row with its source."""

COLUMNS = (
    *("series", "quality", "collective", "algorithm", "accelerator", "gpus", "nodes", "intra_node_link", "fabric"),
    *("nics_per_node", "nic_bits_per_second", "size_bytes", "time_seconds", "notes"),
)

GPUS = Number("a whole number from 1 to 1e5", 1, 1e5, whole=True)
"""Accelerators or nodes, so many that a network of them is built within seconds."""
NUMBERS = {
    **dict.fromkeys(("gpus", "nodes"), GPUS),
    "nics_per_node": Number("a whole number from 1 to 1000", 1, 1000, whole=True),
    "nic_bits_per_second": Number("a rate from 1e6 to 1e15 bit/s", 1e6, 1e15),
    "size_bytes": Number("a whole number of bytes from 1 to 1e15", 1, 1e15, whole=True),
    "time_seconds": TIME,
}

# The one rule of what is left out: vendors' own figures and expectations; rows without a time or a size; rows whose
# notes call the system abnormal, or the result unexplained; and systems that are not modelled, or not described well
# enough to be built.
UNEXPLAINED = ("coreweave/gb200/1440x360/all-reduce",)
"""Series whose result those who collected the data could not explain: twice as slow as its network and racks allow."""

KINDS = {
    **dict(zip(collectives.KINDS, collectives.KINDS, strict=True)),
    "moe_dispatch": "all_to_all",
    "moe_combine": "all_to_all",
}
ALGORITHMS = {
    "NVLSTree": "in_switch_tree",
    "NVLS": "in_switch",
    "CollNet": "in_network",
    "Tree": "tree",
    "Ring": "ring",
}
"""How a row's words for an algorithm begin, and what that is here; where it says nothing the library has chosen."""

SERVERS = {
    "A100-SXM4-40GB": "dgx_a100,accelerator=a100_40gb",
    "A100-SXM4-80GB": "dgx_a100",
    "H100-SXM5": "dgx_h100",
    "H200-SXM": "dgx_h200",
    "H800-SXM": "dgx_h100,accelerator=h800",
    "H20": "dgx_h100,accelerator=h20",
    "GH200": "full_mesh,accelerator=gh200,gpus_per_node=4",
    "B200-SXM": "dgx_b200",
    "B300-SXM": "dgx_b200,accelerator=b300",
    "GB200": "gb200_nvl72",
    "GB300": "gb300_nvl72",
    "MI300X": "full_mesh,accelerator=mi300x",
    "MI325X": "full_mesh,accelerator=mi325x",
    "MI355X": "full_mesh,accelerator=mi355x",
}
MESHES = {"A100-SXM4-40GB": "full_mesh,accelerator=a100_40gb,gpus_per_node=4"}
"""Boards of these accelerators without a switch."""
GPUS_PER_TRAY = 4
"""Accelerators of a node of an NVL72 rack, which has many nodes in one scale-up domain."""
UNSTATED = "roce"
"""What an unstated network of stated cards is taken for."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A measured collective, rebuilt: who takes part on what, and the activities of algorithms it may have used."""

    row: int
    series: str
    topology: Topology
    ranks: "np.ndarray"
    collective: Collective
    measured: float
    activities: tuple[Activity, ...]
    assumed: tuple[str, ...] = ()

    @property
    def fastest(self) -> Activity:
        """The one that a library would choose."""
        return min(self.activities, key=lambda activity: float(activity.seconds(self.topology)[0]))


def read(path: str | Path | None = None) -> pd.DataFrame:
    """Measurements from a file with the columns of the package's own, or those."""
    return tables.read(path, SOURCE, COLUMNS, NUMBERS)


def cases(frame: pd.DataFrame) -> tuple[list[Case], dict[int, str]]:
    """The rows that can be compared, and why each other one is left out."""
    return tables.cases(frame, case)


def case(number: int, row: dict[str, Any]) -> Case:
    """The collective of a row; LeftOutError with the reason where it cannot or must not be compared."""
    _check_worth(row)
    name, ranks = _system(row)
    topology = _built(name)
    words = str(row["algorithm"]) if isinstance(row["algorithm"], str) else ""
    algorithm = next((ours for theirs, ours in ALGORITHMS.items() if words.startswith(theirs)), "auto")
    if algorithm == "in_switch" and row["nodes"] > 1 and row["fabric"] != "nvlink":
        algorithm = "in_switch_tree"
    kind = KINDS[row["collective"]]
    collective = Collective(name=kind, stream="", kind=kind, axes=("dp",), bytes=float(row["size_bytes"]))
    try:
        activities = collectives.considered(collective, ranks[None], topology, algorithm)
    except ValueError as error:
        raise LeftOutError(f"no such algorithm there: {error}") from None
    measured = float(row["time_seconds"])
    return Case(number, row["series"], topology, ranks, collective, measured, tuple(activities), tuple(_assumed(row)))


def _assumed(row: dict[str, Any]) -> Iterator[str]:
    """What a row leaves open, and how it was taken."""
    if KINDS[row["collective"]] != row["collective"]:
        yield f"{row['collective']} is an {KINDS[row['collective']]} of its bytes"
    if row["fabric"] == "unstated":
        yield f"the network is {UNSTATED}"
    if not isinstance(row["algorithm"], str):
        yield "the fastest algorithm was chosen"
    if row["gpus"] > row["nodes"] > 1 and row["nics_per_node"] < row["gpus"] / row["nodes"]:
        yield "neighbouring accelerators share a card"


def _check_worth(row: dict[str, Any]) -> None:
    """Whether a row is a measurement of a sound system, with all that it takes to compare it."""
    notes = f"{row['notes']} {row['inter_node_link']}" if "inter_node_link" in row else str(row["notes"])
    tables.check_quality(row)
    if row["collective"] not in KINDS:
        raise LeftOutError(f"not a collective of this network model ({row['collective']})")
    if not stated(row["time_seconds"], row["size_bytes"]):
        raise LeftOutError("no time or no size published")
    if row["series"] in UNEXPLAINED:
        raise LeftOutError("the collectors of the data call the result unexplained")
    tables.check_normal(notes)
    if row["accelerator"] not in SERVERS:
        raise LeftOutError(f"no server of this accelerator is modelled ({row['accelerator']})")
    if not stated(row["gpus"], row["nodes"]) or row["gpus"] == 1:
        raise LeftOutError("the number of accelerators or nodes is not stated, or is one")


def _system(row: dict[str, Any]) -> tuple[str, "np.ndarray"]:
    """The text of a cluster, and the ranks that take part: equally many in every scale-up domain."""
    mesh = row["accelerator"] in MESHES and "mesh" in str(row["intra_node_link"])
    text = (MESHES if mesh else SERVERS)[row["accelerator"]]
    gpus, nodes = int(row["gpus"]), int(row["nodes"])
    per_domain = _domain(text)
    racks = "racks" if text.endswith("nvl72") else "nodes"
    if racks == "racks":
        nodes = math.ceil(gpus / per_domain)
    if gpus % nodes or gpus // nodes > per_domain:
        raise LeftOutError(f"{gpus} accelerators do not lie evenly on {nodes} nodes of {per_domain}")
    each = gpus // nodes
    spread = (per_domain, each) if racks == "nodes" else (GPUS_PER_TRAY, GPUS_PER_TRAY)
    network = _network(row, *spread) if nodes > 1 else ""
    ranks = np.concatenate([node * per_domain + np.arange(each) for node in range(nodes)])
    return f"{text},{racks}={nodes}{network}", ranks


def _network(row: dict[str, Any], per_domain: int, each: int) -> str:
    """Options for the cards and the transport between servers."""
    transport, cards, rate = row["fabric"], row["nics_per_node"], row["nic_bits_per_second"]
    transport = UNSTATED if transport == "unstated" else transport
    if transport not in SWITCH_LATENCY:
        raise LeftOutError(f"no such network is modelled ({transport})")
    if not stated(cards, rate):
        raise LeftOutError("the number or the rate of the network cards is not stated")
    # Servers have their cards spread evenly: a job on some of a server's accelerators uses the cards next to these.
    whole = cards * per_domain / each
    if whole % 1 or (per_domain % whole and whole % per_domain):
        raise LeftOutError(f"{cards:g} cards do not go evenly with {each} accelerators")
    return f",nics={whole:.0f},nic_gbit={rate / 1e9:g},transport={transport}"


@cache
def _domain(text: str) -> int:
    """Accelerators in a scale-up domain of a family."""
    return int(np.bincount(topologies.build(text).hosts)[0])


@lru_cache(maxsize=128)
def _built(text: str) -> Topology:
    try:
        return topologies.build(text)
    except ValueError as error:
        raise LeftOutError(f"cannot be built: {error}") from None
