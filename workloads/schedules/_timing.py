"""What searched schedules share: limits, and orders timed in plain Python, as `replay_schedule` times them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf

from workloads.checks import is_number
from workloads.schedule import Action

Orders = list[list[int]]
COUNTS = (1.0, 0.0), (0.0, 1.0), (0.5, 0.5)


@dataclass(frozen=True, slots=True)
class Figures:
    """What an order comes to: its makespan and span, and the most chunks a rank holds, counted as `Limits` does."""

    makespan: float
    span: float
    until_input: int
    until_weight: int
    mean: float


@dataclass(frozen=True, slots=True)
class Limits:
    """The most chunks a rank may hold: until their I, until their W, and the mean of both.

    The mean counts a chunk half from its I to its W: what F keeps is let go half by I, half by W.
    """

    until_input: float = inf
    until_weight: float = inf
    mean: float = inf

    def allow(self, inputs: int, weights: int) -> bool:
        """Whether a rank may hold so many chunks until their I, so many until their W."""
        return inputs <= self.until_input and weights <= self.until_weight and inputs + weights <= 2 * self.mean

    def keep(self, figures: Figures) -> bool:
        """Whether an order with these figures stays within the limits."""
        held = figures.until_input <= self.until_input and figures.until_weight <= self.until_weight
        return held and figures.mean <= self.mean


class Pipeline:
    """A chain of stages on ranks, the times of its actions, and the figures of orders on it.

    `times` are of one microbatch on one stage, for the kinds F, I, W or F, B; `hop` is the time of a message between
    ranks. Within, an action is a number, `(kind * stages + stage) * microbatches + microbatch`.
    """

    def __init__(self, placement: Sequence[int], microbatches: int, times: dict[str, float], hop: float) -> None:
        self.placement, self.microbatches, self.times, self.hop = tuple(placement), microbatches, times, hop
        self.kinds, self.stages, self.ranks = "".join(times), len(placement), max(placement) + 1
        size = self.stages * microbatches
        self.lengths = [times[kind] for kind in self.kinds for _ in range(size)]
        self.feeds: list[list[tuple[int, float]]] = [[] for _ in self.lengths]
        self.needs: list[list[tuple[int, float]]] = [[] for _ in self.lengths]
        for stage in range(self.stages):
            for microbatch in range(microbatches):
                self._connect(stage, microbatch)
        holds = {"F": (1, 1), "I": (-1, 0), "W": (0, -1), "B": (-1, -1)}
        self.holds = [holds[kind] for kind in self.kinds for _ in range(size)]
        self.changes = [[inputs * a + weights * b for inputs, weights in self.holds] for a, b in COUNTS]

    def _connect(self, stage: int, microbatch: int) -> None:
        """What one microbatch on one stage needs: F of the stage before, I of the one after, its own F and I."""
        actions = [self.number(stage, kind, microbatch) for kind in self.kinds]
        edges = [(before, after, 0.0) for before, after in pairwise(actions)]
        if stage + 1 < self.stages:
            after = [self.number(stage + 1, kind, microbatch) for kind in self.kinds]
            lag = self.hop if self.placement[stage] != self.placement[stage + 1] else 0.0
            edges += [(actions[0], after[0], lag), (after[1], actions[1], lag)]
        for source, target, lag in edges:
            self.feeds[source].append((target, lag))
            self.needs[target].append((source, lag))

    @property
    def least(self) -> Figures:
        """What no order can go below: all ranks always busy, the last of them once a microbatch can have come there."""
        last = self.ranks - 1
        busy = max(
            sum(map(self.times.__getitem__, self.kinds)) * self.microbatches * self.placement.count(rank)
            for rank in range(self.ranks)
        )
        return Figures(busy + last * (self.times["F"] + self.hop), busy, 0, 0, 0)

    def number(self, stage: int, kind: str, microbatch: int) -> int:
        """An action as a number."""
        return (self.kinds.index(kind) * self.stages + stage) * self.microbatches + microbatch

    def numbers(self, orders: Iterable[Iterable[Action]]) -> Orders:
        """Each rank's order as numbers."""
        return [[self.number(*action[:3]) for action in order] for order in orders]

    def actions(self, orders: Orders) -> list[tuple[Action, ...]]:
        """Each rank's order as actions."""
        return [tuple(map(self.action, order)) for order in orders]

    def action(self, number: int) -> Action:
        """The action that a number means."""
        rest, microbatch = divmod(number, self.microbatches)
        kind, stage = divmod(rest, self.stages)
        return Action(stage, self.kinds[kind], microbatch)

    def finishes(self, orders: Orders) -> bool:
        """Whether no rank waits for ever."""
        return min(self._ends(orders)) >= 0

    def figures(self, orders: Orders) -> Figures:
        """Replay orders as they stand, each action as early as its rank and its inputs allow."""
        ends = self._ends(orders)
        spans = [
            (ends[order[0]] - self.lengths[order[0]], max(ends[action] for action in order))
            for order in orders
            if order
        ]
        return Figures(
            makespan=max(end for _, end in spans) - min(start for start, _ in spans),
            span=max(end - start for start, end in spans),
            until_input=int(self._peak(orders, self.changes[0])),
            until_weight=int(self._peak(orders, self.changes[1])),
            mean=self._peak(orders, self.changes[2]),
        )

    def _peak(self, orders: Orders, changes: Sequence[float]) -> float:
        """The most held by any rank, if each action changes what is held by so much."""
        return max(max(accumulate(map(changes.__getitem__, order))) for order in orders)

    def _ends(self, orders: Orders) -> list[float]:
        """When each action ends."""
        ends = [-1.0] * len(self.lengths)
        positions, free = [0] * self.ranks, [0.0] * self.ranks
        ready, sleepers = list(range(self.ranks)), dict[int, int]()
        while ready:
            rank = ready.pop()
            order, now = orders[rank], free[rank]
            for place in range(positions[rank], len(order)):
                action = order[place]
                for source, lag in self.needs[action]:
                    if ends[source] < 0:
                        sleepers[source] = rank
                        break
                    now = max(now, ends[source] + lag)
                else:
                    now += self.lengths[action]
                    ends[action] = now
                    if action in sleepers:
                        ready.append(sleepers.pop(action))
                    continue
                positions[rank] = place
                break
            free[rank] = now
        return ends


def check_times(**times: float) -> None:
    """Refuse what is no time: below 0, or not finite; and steps in which nothing takes time."""
    check_number(**times)
    for name, value in times.items():
        if not 0 <= value < inf:
            raise ValueError(f"{name}={value!r}: a time must be 0 or more, and finite")
    if not any(value for name, value in times.items() if name != "hop"):
        raise ValueError(f"{', '.join(f'{name}=0' for name in times if name != 'hop')}; one of them must be above 0")


def check_number(**values: object) -> None:
    """Refuse what is no number at all."""
    for name, value in values.items():
        if not is_number(value):
            raise ValueError(f"{name}={value!r} is not a number")
