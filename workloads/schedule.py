"""The order in which pipeline ranks compute: actions, schedules, and the one checker for all of them.

A schedule orders compute and knows nothing of bytes or time. Stages follow each other in chains: there is one, in
which stage s feeds stage s + 1, unless microbatches enter the pipeline at both of its ends. With virtual stages a rank
holds several. A stage has a microbatch in flight from the start of its F to the end of its B (or W); what it keeps for
it meanwhile is called a chunk in the literature.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

Output = tuple[int, str, int]
LEGAL_KINDS = ("F B ", "F I W ")


class Action(NamedTuple):
    """Work of one microbatch on one stage.

    `kind` is F (forward), B (whole backward), I (gradient of the input) or W (gradient of the weights). An
    overlapped pair lists its two actions in `parts`.

    >>> print(Action(3, "F", 7))
    3F7
    """

    stage: int
    kind: str
    microbatch: int
    parts: tuple["Action", ...] = ()

    @property
    def singles(self) -> tuple["Action", ...]:
        """Its two actions if it is an overlapped pair, else itself alone."""
        return self.parts or (self,)

    @classmethod
    def pair(cls, first: "Action", second: "Action") -> "Action":
        """Two actions that overlap; it goes by the first one's stage and microbatch.

        >>> print(Action.pair(Action(3, "F", 7), Action(4, "B", 2)))
        (3F7;4B2)
        """
        return cls(first.stage, first.kind + second.kind, first.microbatch, (first, second))

    def __str__(self) -> str:
        if self.parts:
            return f"({';'.join(map(str, self.parts))})"
        return f"{self.stage}{self.kind}{self.microbatch}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """What every pipeline rank computes, in order; checked once, here.

    `orders` gives each rank's actions, `placement[stage]` the rank of a stage, `weights[stage]` the weight set it
    computes with (by default its own), numbered in the order of the model. `chains` are the stages in the order in
    which microbatches pass them; each chain counts its own microbatches from 0. `versions[rank]` is how many
    versions of its weights a rank keeps: 1 unless it updates them before all microbatches of a step are done. `p2p`
    is the mode of messages in the framework that runs it: see `workloads.ops.P2P`. An order that breaks a rule or can
    never finish raises ValueError with the action and the rule.

    >>> from workloads import schedules
    >>> print(schedules.build("one_f_one_b", stages=2, microbatches=3))
    one_f_one_b: ranks=2 stages=2 microbatches=3
    rank 0  0F0 0F1  .  0B0 0F2 0B1  .  0B2
    rank 1   .  1F0 1B0 1F1 1B1 1F2 1B2
    """

    name: str
    orders: Mapping[int, tuple[Action, ...]]
    placement: tuple[int, ...]
    weights: tuple[int, ...] = ()
    chains: tuple[tuple[int, ...], ...] = ()
    versions: tuple[int, ...] = ()
    p2p: str = field(default="latency", compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        every = tuple(range(len(self.placement)))
        defaults = {"weights": every, "chains": (every,), "versions": (1,) * len(self.orders)}
        for name, value in defaults.items():
            if not getattr(self, name):
                object.__setattr__(self, name, value)
        check(self)

    def __hash__(self) -> int:
        return hash((self.name, self.placement, self.weights, self.chains, len(self.orders[0])))

    @property
    def ranks(self) -> int:
        """The number of pipeline ranks."""
        return len(self.orders)

    @property
    def stages(self) -> int:
        """The number of stages over all ranks, virtual ones included."""
        return len(self.placement)

    @property
    def microbatches(self) -> int:
        """The number of microbatches a step, those of all chains together."""
        most = {action.stage: 0 for action in _actions(self.orders.values())}
        for stage, _, microbatch, _ in _actions(self.orders.values()):
            most[stage] = max(most[stage], 1 + microbatch)
        return sum(most[chain[0]] for chain in self.chains)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its actions."""
        return tuple(sorted({action.kind for action in _actions(self.orders.values())}))

    @property
    def before(self) -> dict[int, int]:
        """The stage that feeds each stage, for those that are not the first of their chain."""
        return {stage: feeder for chain in self.chains for feeder, stage in pairwise(chain)}

    @property
    def after(self) -> dict[int, int]:
        """The stage that each stage feeds, for those that are not the last of their chain."""
        return {feeder: stage for chain in self.chains for feeder, stage in pairwise(chain)}

    @property
    def peak_in_flight(self) -> tuple[int, ...]:
        """The most that each rank has in flight at once, a microbatch on one stage counting 1."""
        ones = [1] * self.stages
        return tuple(int(peak_in_flight(self.orders[rank], ones)) for rank in range(self.ranks))

    def __str__(self) -> str:
        """Rank by step: every action one step wide, as early as its inputs allow; a dot waits."""
        steps = _Walk(self).steps
        width = max(len(str(action)) for order in self.orders.values() for action in order)
        title = f"{self.name}: ranks={self.ranks} stages={self.stages} microbatches={self.microbatches}"
        digits = len(str(self.ranks - 1))
        rows = (f"rank {rank:>{digits}}  {_row(self.orders[rank], steps[rank], width)}" for rank in range(self.ranks))
        return "\n".join([title, *(row.rstrip() for row in rows)])


def peak_in_flight(order: Iterable[Action], weights: Sequence[float], release: str = "W") -> float:
    """The most that is held along one rank's order, where a microbatch on stage s holds weights[s] while in flight.

    Both parts of an overlapped pair are in flight together. A backward in two parts ends with its `release`, I or W.

    >>> order = [Action(0, kind, microbatch) for kind, microbatch in (("F", 0), ("F", 1), ("B", 0), ("B", 1))]
    >>> peak_in_flight(order, [2.0])
    4.0
    """
    held = peak = 0.0
    for action in order:
        held += sum(weights[single.stage] for single in action.singles if single.kind == "F")
        peak = max(peak, held)
        held -= sum(weights[single.stage] for single in action.singles if single.kind in ("B", release))
    return peak


def check(schedule: Schedule) -> None:
    """Raise ValueError unless the schedule is complete, in order, well placed and can finish."""
    _check_placement(schedule)
    _check_complete(schedule)
    waiting = _Walk(schedule).waiting()
    if waiting:
        more = f"; and {len(waiting) - 4} more" if len(waiting) > 4 else ""
        raise ValueError(f"{schedule.name} can never finish: {'; '.join(waiting[:4])}{more}")


def _check_placement(schedule: Schedule) -> None:
    """Ranks are numbered from 0, and every action is on its stage's rank."""
    name, stages, ranks = schedule.name, schedule.stages, schedule.ranks
    if not stages or sorted(schedule.orders) != list(range(ranks)):
        raise ValueError(
            f"{name} places {stages} stages on ranks {sorted(schedule.orders)}; "
            "it needs stages, and ranks are numbered from 0"
        )
    if len(schedule.weights) != stages:
        raise ValueError(f"{name} has {len(schedule.weights)} weight sets for {stages} stages; one each is needed")
    if sorted(stage for chain in schedule.chains for stage in chain) != list(range(stages)) or not all(schedule.chains):
        raise ValueError(f"{name} has chains {schedule.chains} of {stages} stages; each stage is in one chain, once")
    if len(schedule.versions) != ranks:
        raise ValueError(
            f"{name} says of {len(schedule.versions)} of {ranks} ranks how many versions of weights they keep"
        )
    for rank, order in schedule.orders.items():
        here = {stage for stage, place in enumerate(schedule.placement) if place == rank}
        for action in _actions([order]):
            if action.stage not in here:
                raise ValueError(f"{name}: {action} is on rank {rank}, which has stages {sorted(here)} only")


def _check_complete(schedule: Schedule) -> None:
    """Every microbatch runs on every stage, as F then B, or F then I then W."""
    kinds: dict[tuple[int, int], str] = {}
    for stage, kind, microbatch, _ in _actions(schedule.orders.values()):
        kinds[stage, microbatch] = kinds.get((stage, microbatch), "") + kind + " "
    for chain in schedule.chains:
        microbatches = 1 + max((microbatch for stage, microbatch in kinds if stage in chain), default=0)
        for stage in sorted(chain):
            for microbatch in range(microbatches):
                found = kinds.pop((stage, microbatch), "nothing ")
                if found not in LEGAL_KINDS:
                    raise ValueError(
                        f"{schedule.name}: stage {stage} runs {found}for microbatch {microbatch}; "
                        "legal are F then B, or F then I then W, each once"
                    )
    if kinds:
        raise ValueError(f"{schedule.name}: microbatch {min(kinds)[1]} on stage {min(kinds)[0]}; they count from 0")


class _Walk:
    """Runs every rank's order as far as it goes, each action one step long and arriving at once.

    `steps[rank]` holds the step of each action that ran, in order. What an action needs of its own stage comes
    earlier in its rank's order, so only other stages can keep it waiting.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.orders = schedule.orders
        before, after = schedule.before, schedule.after
        self.feeders: dict[str, dict[int, int]] = {"F": before, "B": after, "I": after, "W": {}}
        self.steps: dict[int, list[int]] = {rank: [] for rank in self.orders}
        self.done: dict[Output, int] = {}
        self.sleepers: dict[Output, list[int]] = {}
        ready = list(self.orders)
        while ready:
            ready.extend(self.advance(ready.pop()))

    def advance(self, rank: int) -> list[int]:
        """Run a rank until it waits or ends; the ranks that this may have woken."""
        order, steps, done = self.orders[rank], self.steps[rank], self.done
        woken: list[int] = []
        step = steps[-1] + 1 if steps else 0
        for index in range(len(steps), len(order)):
            action = order[index]
            for need in self.needs(action):
                if need not in done:
                    self.sleepers.setdefault(need, []).append(rank)
                    return woken
                step = max(step, done[need] + 1)
            steps.append(step)
            for stage, kind, microbatch, _ in action.singles:
                output = (stage, "F" if kind == "F" else "B", microbatch)
                if kind != "W":
                    done[output] = step
                    woken += self.sleepers.pop(output, ())
            step += 1
        return woken

    def needs(self, action: Action) -> list[Output]:
        """F needs the F of the stage before, B or I the B or I of the stage after."""
        return [
            (self.feeders[kind][stage], "F" if kind == "F" else "B", microbatch)
            for stage, kind, microbatch, _ in action.singles
            if stage in self.feeders[kind]
        ]

    def waiting(self) -> list[str]:
        """One phrase for each rank that cannot finish."""
        stuck = [rank for rank, order in self.orders.items() if len(self.steps[rank]) < len(order)]
        return [self.reason(rank, self.orders[rank][len(self.steps[rank])]) for rank in stuck]

    def reason(self, rank: int, action: Action) -> str:
        """Where a rank waits, and for what."""
        missing = ["".join(map(str, need)) for need in self.needs(action) if need not in self.done]
        return f"rank {rank} waits at {action} for {' and '.join(missing)}"


def _actions(orders: Iterable[Iterable[Action]]) -> Iterator[Action]:
    """Every action of some orders, pairs taken apart."""
    return (single for order in orders for action in order for single in action.singles)


def _row(order: Sequence[Action], steps: Sequence[int], width: int) -> str:
    """One rank's line of the table."""
    cells = {step: str(action) for step, action in zip(steps, order, strict=True)}
    return " ".join(cells.get(step, ".").center(width) for step in range(1 + max(cells, default=-1)))
