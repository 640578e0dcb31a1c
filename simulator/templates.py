"""Templates of runs: found by rehearsal, once for all nodes that would go through the same motions."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from simulator.blocks import Run
from simulator.quotient import Node, Quotient
from simulator.rehearsal import calls, rehearse, template
from simulator.template import Template


class Crew(NamedTuple):
    """The nodes that a run's collectives join, directly or through others, and the links that those cross."""

    nodes: tuple[int, ...]
    links: frozenset[int]


class Templates:
    """The templates of a quotient's runs on one kind of network.

    A run that joins no other node is rehearsed alone, others together with all nodes that they join, as long as
    those do the same on the same accelerator. Runs whose kernels, transfers and links are alike share one rehearsal.
    """

    def __init__(self, quotient: Quotient, network: str) -> None:
        self._quotient, self._network = quotient, network
        self._found: dict[tuple[int, Run], Template | None] = {}
        self._rehearsed: dict[Hashable, list[Template | None]] = {}
        self._crews: dict[tuple[int, Run], Crew] = {}

    def find(self, node: Node, run: Run) -> Template | None:
        """The template of a node's run; None where the run of any node that it joins cannot be taken as one."""
        key = node.index, run
        if key not in self._found:
            together = [self._quotient.nodes[index] for index in self.crew(node, run).nodes]
            for each, found in zip(together, self._rehearse(together, run), strict=True):
                self._found[each.index, run] = found
        return self._found[key]

    def crew(self, node: Node, run: Run) -> Crew:
        """Who takes part in a node's run, and over which links."""
        key = node.index, run
        if key not in self._crews:
            together = self._joined(node, run)
            crew = Crew(tuple(each.index for each in together), frozenset(self._links(together, run)))
            self._crews.update({(index, run): crew for index in crew.nodes})
        return self._crews[key]

    def _links(self, nodes: Iterable[Node], run: Run) -> Iterator[int]:
        for node in nodes:
            for payload, number in calls(node, run):
                for stretch in self._quotient.communicators[number].transfers[payload].stretches:
                    yield from stretch.loads

    def _peers(self, node: Node, run: Run) -> Iterator[int]:
        for _, number in calls(node, run):
            yield from (index for index, _, _ in self._quotient.communicators[number].members)

    def _joined(self, node: Node, run: Run) -> list[Node]:
        """The node and all that its run joins it with, directly or through others, in order."""
        found, front = {node.index}, [node]
        while front:
            fresh = set(self._peers(front.pop(), run)) - found
            found |= fresh
            front += [self._quotient.nodes[index] for index in fresh]
        return [self._quotient.nodes[index] for index in sorted(found)]

    def _rehearse(self, nodes: Sequence[Node], run: Run) -> list[Template | None]:
        key = run, self._signature(nodes, run)
        if key not in self._rehearsed:
            self._rehearsed[key] = self._play(nodes, run)
        return self._rehearsed[key]

    def _play(self, nodes: Sequence[Node], run: Run) -> list[Template | None]:
        if any((node.accelerator, node.order) != (nodes[0].accelerator, nodes[0].order) for node in nodes):
            return [None] * len(nodes)
        engine = rehearse(self._quotient, {node.index: run for node in nodes}, self._network)
        engine.environment.run()
        found = [template(engine, node, run) for node in nodes]
        return found if all(each is not None for each in found) else [None] * len(nodes)

    def _signature(self, nodes: Sequence[Node], run: Run) -> Hashable:
        """Everything that a rehearsal depends on, with communicators and links numbered as they appear."""
        communicators: dict[int, int] = {}
        links: dict[int, int] = {}
        rows: list[Hashable] = []
        for node in nodes:
            rows.append((node.accelerator, node.speed))
            for payload, number in calls(node, run):
                mine = communicators.setdefault(number, len(communicators))
                transfer = self._quotient.communicators[number].transfers[payload]
                rows.append((mine, payload, transfer.sm_share, transfer.priority))
                for stretch in transfer.stretches:
                    rows.append((stretch.latency, stretch.work, stretch.rate_cap))
                    for link, weights in stretch.loads.items():
                        rows.append((links.setdefault(link, len(links)), self._quotient.capacities[link], weights))
        return tuple(rows)
