"""Templates of runs: found by rehearsal, once for all rank classes that would go through the same motions."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from simulator.blocks import Run
from simulator.quotient import Quotient, RankClass
from simulator.rehearsal import calls, rehearse, template
from simulator.template import Template

Held = tuple[int, ...]
"""SMs that others hold of each rank class of a crew; empty if none are."""


class Crew(NamedTuple):
    """The rank classes that a run's collectives join, directly or through others, and the links that those cross."""

    rank_classes: tuple[int, ...]
    links: frozenset[int]


class Templates:
    """The templates of a quotient's runs on one kind of network.

    A run that joins no other rank class is rehearsed alone, others together with all that they join, as long as
    those do the same on the same accelerator. SMs that others hold all along count in. Runs whose kernels,
    transfers and links are alike share one rehearsal.
    """

    def __init__(self, quotient: Quotient, network: str) -> None:
        self._quotient, self._network = quotient, network
        self._found: dict[tuple[int, Run, Held], Template | None] = {}
        self._rehearsed: dict[Hashable, list[Template | None]] = {}
        self._crews: dict[tuple[int, Run], Crew] = {}

    def find(self, rank_class: RankClass, run: Run, held: Held = ()) -> Template | None:
        """The template of a rank class's run; None where it, or that of one it joins, cannot be taken as one.

        `held` are the SMs held of each of the run's crew, in its order; none by default.
        """
        key = rank_class.index, run, held
        if key not in self._found:
            together = [self._quotient.rank_classes[index] for index in self.crew(rank_class, run).rank_classes]
            for each, found in zip(together, self._rehearse(together, run, held), strict=True):
                self._found[each.index, run, held] = found
        return self._found[key]

    def crew(self, rank_class: RankClass, run: Run) -> Crew:
        """Who takes part in a rank class's run, and over which links."""
        key = rank_class.index, run
        if key not in self._crews:
            together = self._joined(rank_class, run)
            crew = Crew(tuple(each.index for each in together), frozenset(self._links(together, run)))
            self._crews.update({(index, run): crew for index in crew.rank_classes})
        return self._crews[key]

    def _links(self, rank_classes: Iterable[RankClass], run: Run) -> Iterator[int]:
        for rank_class in rank_classes:
            for payload, number in calls(rank_class, run):
                for stretch in self._quotient.communicators[number].transfers[payload].stretches:
                    yield from stretch.loads

    def _peers(self, rank_class: RankClass, run: Run) -> Iterator[int]:
        for _, number in calls(rank_class, run):
            yield from (index for index, _, _ in self._quotient.communicators[number].members)

    def _joined(self, rank_class: RankClass, run: Run) -> list[RankClass]:
        """The rank class and all that its run joins it with, directly or through others, in order."""
        found, front = {rank_class.index}, [rank_class]
        while front:
            fresh = set(self._peers(front.pop(), run)) - found
            found |= fresh
            front += [self._quotient.rank_classes[index] for index in fresh]
        return [self._quotient.rank_classes[index] for index in sorted(found)]

    def _rehearse(self, rank_classes: Sequence[RankClass], run: Run, held: Held) -> list[Template | None]:
        key = run, held, self._signature(rank_classes, run)
        if key not in self._rehearsed:
            self._rehearsed[key] = self._play(rank_classes, run, held)
        return self._rehearsed[key]

    def _play(self, rank_classes: Sequence[RankClass], run: Run, held: Held) -> list[Template | None]:
        if any(
            (rank_class.accelerator, rank_class.order) != (rank_classes[0].accelerator, rank_classes[0].order)
            for rank_class in rank_classes
        ):
            return [None] * len(rank_classes)
        indices = [rank_class.index for rank_class in rank_classes]
        sms = dict(zip(indices, held, strict=True)) if held else {}
        engine = rehearse(self._quotient, dict.fromkeys(indices, run), self._network, held=sms)
        engine.environment.run()
        found = [template(engine, rank_class, run) for rank_class in rank_classes]
        return found if all(each is not None for each in found) else [None] * len(rank_classes)

    def _signature(self, rank_classes: Sequence[RankClass], run: Run) -> Hashable:
        """Everything that a rehearsal depends on, with communicators and links numbered as they appear."""
        communicators: dict[int, int] = {}
        links: dict[int, int] = {}
        rows: list[Hashable] = []
        for rank_class in rank_classes:
            rows.append((rank_class.accelerator, rank_class.speed))
            for payload, number in calls(rank_class, run):
                mine = communicators.setdefault(number, len(communicators))
                transfer = self._quotient.communicators[number].transfers[payload]
                rows.append((mine, payload, transfer.sm_share, transfer.priority))
                for stretch in transfer.stretches:
                    rows.append((stretch.latency, stretch.work, stretch.rate_cap))
                    for link, weights in stretch.loads.items():
                        rows.append((links.setdefault(link, len(links)), self._quotient.capacities[link], weights))
        return tuple(rows)
