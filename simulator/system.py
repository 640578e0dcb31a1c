"""The whole system before folding: ranks, communicators and links as nodes, with their edges as rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from simulator.activity import Activity
from simulator.addresses import Payload, Slot
from simulator.communicators import Family, communicators, copies_to_hosts, order_of_rank, payloads
from simulator.demand import Floats, Ints
from simulator.folding import Edges, Hashes, Partition, blend, code, mix, refine
from topologies import Topology
from workloads.program import Program


class PhaseKey(NamedTuple):
    """Names one phase of one payload's activity in one family: where its crossings are found."""

    family: int
    payload: Payload
    batch: int
    phase: int


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """A program on a topology. Communicator c of family f is node `first[f] + c`.

    `members` joins communicators to ranks, with an index into `names` (slot, role) as code. `crossings` joins
    communicators to links; row i belongs to `pattern[i]`, with `weight[i]`. Phases whose crossings are equal share
    a pattern, `pattern_of[stage]`.
    """

    program: Program
    topology: Topology
    families: tuple[Family, ...]
    first: tuple[int, ...]
    order: Ints
    names: tuple[tuple[Slot, int], ...]
    members: Edges
    crossings: Edges
    pattern: Ints
    weight: Floats
    pattern_of: Mapping[PhaseKey, int]

    @property
    def count(self) -> int:
        """The number of communicators."""
        return self.first[-1]

    def fold(self) -> Partition:
        """The coarsest exact partition into classes."""
        return refine(
            self._rank_colours(), self._communicator_colours(), self._link_colours(), self.members, self.crossings
        )

    def trivial(self) -> Partition:
        """The partition in which everything stands for itself."""
        return Partition.trivial(self.topology.size, self.count, len(self.topology.links.bandwidth))

    def _rank_colours(self) -> Hashes:
        numbers = {accelerator: number for number, accelerator in enumerate(dict.fromkeys(self.topology.accelerators))}
        chips = np.array([numbers[accelerator] for accelerator in self.topology.accelerators])
        return blend(self.order, chips, self.topology.speeds)

    def _communicator_colours(self) -> Hashes:
        columns = [np.zeros(0, np.uint64)]
        for family in self.families:
            colours = mix(np.asarray(family.uses.all(axis=1), np.uint64))
            for batches in family.activities.values():
                colours = blend(colours, batches.colours())
            columns.append(colours)
        return np.concatenate(columns)

    def _link_colours(self) -> Hashes:
        return blend(self.topology.links.codes, self.topology.links.bandwidth)


def system(program: Program, topology: Topology, algorithms: Mapping[str, str] = MappingProxyType({})) -> System:
    """Find every communicator of a program on a topology, with hosts if it has copies; and every link crossed."""
    if program.mesh.size != topology.size:
        degrees = " × ".join(f"{axis}={degree}" for axis, degree in program.mesh.axes.items()) or "an empty plan"
        raise ValueError(f"{degrees} = {program.mesh.size} ranks, but {topology.name} has {topology.size}")
    usage = payloads(program)
    topology = topology.with_hosts() if copies_to_hosts(usage) else topology
    families = tuple(communicators(program, usage, topology, algorithms))
    first = tuple(np.cumsum([0] + [len(family.ranks) for family in families]).tolist())
    names: dict[tuple[Slot, int], int] = {}
    rows = [row for family, start in zip(families, first, strict=False) for row in _members(family, start, names)]
    crossings = _Crossings()
    for stage, columns in _stages(families, first):
        crossings.add(stage, *columns)
    links, pattern, weight = crossings.edges()
    members = Edges(*_stack(rows, 3))
    order = order_of_rank(program)
    return System(
        program, topology, families, first, order, tuple(names), members, links, pattern, weight, crossings.pattern_of
    )


def _members(family: Family, first: int, names: dict[tuple[Slot, int], int]) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Rows (communicator, rank, index into `names`) of a family."""
    for number, (slot, role) in enumerate(family.columns):
        if slot is None:
            continue
        column = slice(None) if len(family.columns) == 1 else slice(number, number + 1)
        communicator, place = np.nonzero(family.uses[:, column])
        name = names.setdefault((slot, role), len(names))
        ranks = family.ranks[:, column][communicator, place]
        yield communicator + first, ranks, np.full(len(ranks), name)


def _stages(
    families: tuple[Family, ...], first: tuple[int, ...]
) -> Iterator[tuple[PhaseKey, tuple[Ints, Ints, Floats]]]:
    """Every phase of every activity with its rows (communicator, link, weight)."""
    for index, family in enumerate(families):
        for payload, batches in family.activities.items():
            for number, activity in enumerate(batches.batches):
                communicator = first[index] + np.flatnonzero(batches.batch == number)
                for phase, rows in enumerate(_phases(activity)):
                    yield PhaseKey(index, payload, number, phase), (communicator[rows[0]], rows[1], rows[2])


def _phases(activity: Activity) -> Iterator[tuple[Ints, Ints, Floats]]:
    for phase in activity.phases:
        yield phase.group, phase.link, phase.weight


class _Crossings:
    """Collects rows (communicator, link, weight), once for all stages of a family that have the same."""

    def __init__(self) -> None:
        self.pattern_of: dict[PhaseKey, int] = {}
        self._rows: list[tuple[Ints, Ints, Floats]] = []
        self._patterns: dict[tuple[int, int], list[int]] = {}

    def add(self, stage: PhaseKey, communicator: Ints, link: Ints, weight: Floats) -> None:
        """Note the rows of a phase, or that they are those of an earlier one."""
        known = self._patterns.setdefault((stage.family, len(link)), [])
        rows = (communicator, link, weight)
        same = [pattern for pattern in known if all(map(np.array_equal, self._rows[pattern], rows))]
        if not same:
            same = [len(self._rows)]
            known.append(same[0])
            self._rows.append(rows)
        self.pattern_of[stage] = same[0]

    def edges(self) -> tuple[Edges, Ints, Floats]:
        """All rows, with the pattern and the weight of each; the edges' code stands for both."""
        communicator, link, weight = _stack(self._rows, 3)
        pattern = np.repeat(np.arange(len(self._rows)), [len(rows[0]) for rows in self._rows])
        return Edges(communicator, link, code([pattern, weight])), pattern, weight.astype(np.float64)


def _stack(rows: Sequence[tuple[Any, ...]], columns: int) -> list[Any]:
    if not rows:
        return [np.zeros(0, np.int64)] * columns
    return [np.concatenate(column) for column in zip(*rows, strict=True)]
