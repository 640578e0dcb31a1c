"""What the engine replays: one rank class per rank class, one communicator and one link per class of those.

Without folding every rank, communicator and link is a class of its own, so one engine serves both.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from simulator.addresses import RECEIVER, SENDER, Payload, Slot
from simulator.demand import achievable_bandwidth
from simulator.folding import Partition
from simulator.system import PhaseKey, System, system
from topologies import Accelerator, Topology
from workloads.program import Program, Replay

Value = TypeVar("Value")
Arrival = tuple[int, Slot, int]
"""Who arrives at a transfer: (rank class, slot, role)."""
Loads = Mapping[int, tuple[tuple[float, int], ...]]
"""For each link: (weight, how many transfers of one class cross it with that weight)."""


class Part(NamedTuple):
    """One communicator class behind a slot of a rank class: its index, the role in it, how many there are."""

    communicator: int
    role: int
    multiplicity: int


@dataclass(frozen=True, slots=True, eq=False)
class RankClass:
    """A class of ranks with equal futures, with its smallest rank as representative."""

    index: int
    rank: int
    ranks: int
    order: tuple[Replay, ...]
    accelerator: Accelerator
    speed: float
    parts: Mapping[Slot, tuple[Part, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """A phase of one transfer: latency, then `work` bytes on its most loaded link, at most at `rate_cap`."""

    latency: float
    work: float
    rate_cap: float
    loads: Loads


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """What one payload asks on one class of communicators."""

    payload: Payload
    algorithm: str
    stretches: tuple[Stretch, ...]
    sm_share: float
    priority: float


@dataclass(frozen=True, slots=True, eq=False)
class Communicator:
    """A class of communicators: who must arrive, who of them sends a message, and a transfer per payload.

    `sends` is false for a channel into which nobody sends, `takes` for one from which nobody receives, both for
    a group of which some member never calls: what waits there waits for ever.
    """

    members: frozenset[Arrival]
    senders: frozenset[Arrival]
    sends: bool
    takes: bool
    transfers: Mapping[Payload, Transfer]


@dataclass(frozen=True, slots=True, eq=False)
class Quotient:
    """The system that is replayed, and the partition that made it; `cache` keeps what follows from it.

    `topology` has hosts if the program copies to them. `algorithms` are those that were named, by the kind of
    collective.
    """

    program: Program
    topology: Topology
    rank_classes: tuple[RankClass, ...]
    communicators: tuple[Communicator, ...]
    capacities: tuple[float, ...]
    partition: Partition
    algorithms: Mapping[str, str] = field(default_factory=dict)
    cache: dict[str, Any] = field(default_factory=dict)

    def stretches(self) -> Iterator[Stretch]:
        """Every stretch of every transfer."""
        for communicator in self.communicators:
            for transfer in communicator.transfers.values():
                yield from transfer.stretches

    def once(self, name: str, make: Callable[[], Value]) -> Value:
        """A value that depends on the quotient alone, made when first asked for."""
        if name not in self.cache:
            self.cache[name] = make()
        value: Value = self.cache[name]
        return value


def quotient(
    program: Program, topology: Topology, algorithms: Mapping[str, str] = MappingProxyType({}), *, fold: bool = True
) -> Quotient:
    """A program on a topology in exact symmetry classes; with `fold=False` every rank stays itself.

    `algorithms` names one for some kinds of collectives; the others are chosen.
    """
    whole = system(program, topology, algorithms)
    topology = whole.topology
    partition = whole.fold() if fold else whole.trivial()
    arrivals = _arrivals(whole, partition)
    loads = _loads(whole, partition)
    communicators = tuple(
        _communicator(whole, int(number), arrivals.get(index, []), loads.get(index, {}))
        for index, number in enumerate(partition.communicator_representatives)
    )
    capacities = tuple(achievable_bandwidth(topology)[partition.link_representatives].tolist())
    classes = _rank_classes(whole, partition)
    return Quotient(program, topology, classes, communicators, capacities, partition, dict(algorithms))


def _rank_classes(whole: System, partition: Partition) -> tuple[RankClass, ...]:
    """A rank class per rank class, with the communicator classes that its representative addresses."""
    representative = np.zeros(whole.topology.size, np.bool_)
    representative[partition.rank_representatives] = True
    rows = np.flatnonzero(representative[whole.members.right])
    parts: list[dict[Slot, Counter[tuple[int, int]]]] = [{} for _ in partition.rank_representatives]
    for rank, communicator, name in _rows(
        partition.ranks[whole.members.right[rows]],
        partition.communicators[whole.members.left[rows]],
        whole.members.code[rows],
    ):
        slot, role = whole.names[name]
        parts[rank].setdefault(slot, Counter())[communicator, role] += 1
    sizes = np.bincount(partition.ranks)
    orders = list(whole.program.orders.values())
    return tuple(
        RankClass(
            index,
            rank,
            int(sizes[index]),
            orders[whole.order[rank]],
            whole.topology.accelerators[rank],
            float(whole.topology.speeds[rank]),
            {
                slot: tuple(Part(*key, count) for key, count in sorted(found.items()))
                for slot, found in parts[index].items()
            },
        )
        for index, rank in enumerate(partition.rank_representatives.tolist())
    )


def _arrivals(whole: System, partition: Partition) -> dict[int, list[Arrival]]:
    """For each communicator class, who arrives at its representative, each once."""
    representative = np.zeros(whole.count, np.bool_)
    representative[partition.communicator_representatives] = True
    rows = np.flatnonzero(representative[whole.members.left])
    arrivals: dict[int, list[Arrival]] = {}
    for communicator, rank, name in _rows(
        partition.communicators[whole.members.left[rows]],
        partition.ranks[whole.members.right[rows]],
        whole.members.code[rows],
    ):
        arrivals.setdefault(communicator, []).append((rank, *whole.names[name]))
    return arrivals


def _loads(whole: System, partition: Partition) -> dict[int, dict[int, dict[int, Counter[float]]]]:
    """For each communicator class and pattern, what its members put on each representative link.

    The representative link keeps the load, not the representative communicator: several transfers of one
    class may cross one link.
    """
    representative = np.zeros(len(whole.topology.links.bandwidth), np.bool_)
    representative[partition.link_representatives] = True
    rows = np.flatnonzero(representative[whole.crossings.right])
    loads: dict[int, dict[int, dict[int, Counter[float]]]] = {}
    for communicator, pattern, link, weight in _rows(
        partition.communicators[whole.crossings.left[rows]],
        whole.pattern[rows],
        partition.links[whole.crossings.right[rows]],
        whole.weight[rows],
    ):
        loads.setdefault(communicator, {}).setdefault(pattern, {}).setdefault(link, Counter())[weight] += 1
    return loads


def _rows(*columns: "np.ndarray") -> "zip[tuple[int, ...]]":
    return zip(*(column.tolist() for column in columns), strict=True)


def _communicator(
    whole: System, number: int, arrivals: list[Arrival], loads: dict[int, dict[int, Counter[float]]]
) -> Communicator:
    index = int(np.searchsorted(whole.first, number, side="right")) - 1
    family, place = whole.families[index], number - whole.first[index]
    transfers = {
        payload: _transfer(whole, index, place, payload, loads)
        for payload, batches in family.activities.items()
        if batches.batch[place] >= 0
    }
    senders = frozenset(arrival for arrival in arrivals if arrival[2] == SENDER)
    called = bool(family.uses[place].all()) or len(family.columns) > 1
    sends = called and any(role != RECEIVER for _, _, role in arrivals)
    takes = called and any(role != SENDER for _, _, role in arrivals)
    return Communicator(frozenset(arrivals), senders, sends, takes, transfers)


def _transfer(
    whole: System, family: int, number: int, payload: Payload, loads: dict[int, dict[int, Counter[float]]]
) -> Transfer:
    batches = whole.families[family].activities[payload]
    batch, row = int(batches.batch[number]), int(batches.row[number])
    activity = batches.batches[batch]
    stretches = []
    for phase, each in enumerate(activity.phases):
        found = loads.get(whole.pattern_of[PhaseKey(family, payload, batch, phase)], {})
        counted = {link: tuple(sorted(weights.items())) for link, weights in found.items()}
        stretches.append(Stretch(float(each.latency[row]), float(each.work[row]), float(each.rate_cap[row]), counted))
    return Transfer(payload, activity.algorithm, tuple(stretches), float(activity.sm_share[row]), activity.priority)
