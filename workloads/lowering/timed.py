"""A schedule by itself as a program: every action one kernel of a given length, every hop an empty message."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workloads.lowering.messages import Hops, Message
from workloads.mesh import DeviceMesh
from workloads.ops import MARK, P2P, Compute, Op
from workloads.program import Block, BlockKey, Program, Replay
from workloads.schedule import Action, Schedule


@dataclass(frozen=True, slots=True)
class TimedSchedule:
    """A schedule whose actions take given times; what it is to be replayed with is one second per FLOP.

    `times` are per kind for one microbatch on all of a rank's virtual stages together, so that a stage takes
    time / virtual, times its entry in `factors`; an overlapped pair takes `pair_factor` times what its two actions do.
    `mode` is the mode of every message, `release` the action with which a microbatch is no longer in flight.
    """

    schedule: Schedule
    times: Mapping[str, float]
    factors: Sequence[float] = ()
    mode: str = "latency"
    pair_factor: float = 1.0
    release: str = "W"

    def __post_init__(self) -> None:
        stages = len(self.schedule.placement)
        if self.factors and len(self.factors) != stages:
            raise ValueError(f"{len(self.factors)} stage factors for {stages} stages; each stage needs one")
        if self.factors and not any(self.factors):
            raise ValueError(f"all {stages} stage factors are 0; one of them must be above 0")
        for what, values in (("time", self.times.values()), ("stage factor", self.factors)):
            for value in values:
                if not 0 <= value < float("inf"):
                    raise ValueError(f"a {what} of {value:g}: it must be 0 or more, and finite")

    def __str__(self) -> str:
        return str(self.schedule).splitlines()[0]

    def program(self) -> Program:
        """One rank per pipeline rank, each with its actions in order."""
        hops, blocks = Hops(self.schedule), dict[BlockKey, Block]()
        orders: dict[tuple[int, ...], tuple[Replay, ...]] = {}
        for rank, order in self.schedule.orders.items():
            entries: list[Replay] = []
            keys: dict[tuple[int, str, int, str], BlockKey] = {}
            for action in order:
                first, last = action.singles[0], action.singles[-1]
                which = first.stage, first.kind, last.stage, last.kind
                if which not in keys:
                    keys[which] = key = _key(action)
                    blocks[key] = Block(tuple(self._ops(action, hops)))
                entries.append(Replay(keys[which], first.microbatch, last.microbatch if action.parts else -1))
            orders[rank,] = tuple(entries)
        mesh = DeviceMesh({"pp": len(self.schedule.orders)})
        return Program(mesh, blocks, orders, warnings=self.schedule.warnings)

    def _ops(self, action: Action, hops: Hops) -> Iterator[Op]:
        """The messages that an action or a pair needs, its kernel, and the messages that it makes.

        Those of a pair go at the same time, so that whom they hold they hold once: each has a stream of its own, and
        kernels of no length mark where the rank is free for them, and where it is done with them.
        """
        received = self._messages(action, hops.incoming, "recv")
        sent = self._messages(action, hops.outgoing, "send")
        flops = sum(map(self._time, action.singles)) * (self.pair_factor if action.parts else 1.0)
        kernel = Compute(name=action.kind, kind="timed", flops=flops)
        if self.mode == "latency" or not self._has_pairs:
            yield from (*received, kernel, *sent)
            return
        if received:
            yield Compute(name="free", kind=MARK, flops=0.0)
        yield from (replace(each, after=("free",), stream=each.name) for each in received)
        yield replace(kernel, after=tuple(each.name for each in received))
        yield from (replace(each, after=(kernel.name,), stream=each.name) for each in sent)
        if sent:
            yield Compute(name="sent", kind=MARK, flops=0.0, after=tuple(each.name for each in sent))

    @property
    def _has_pairs(self) -> bool:
        """Whether any two actions overlap."""
        return any(action.parts for order in self.schedule.orders.values() for action in order)

    def _messages(self, action: Action, hop: Callable[[int, str], Message | None], kind: str) -> list[P2P]:
        """One end of the messages that an action or a pair begins or ends with."""
        found: list[P2P] = []
        for single in action.singles:
            if message := hop(single.stage, single.kind):
                name = f"{kind}.{'F' if single.kind == 'F' else 'B'}"
                found.append(replace(message.op(kind, 0.0, mode=self.mode), name=name))
        return found

    def _time(self, action: Action) -> float:
        """Of one action by itself."""
        virtual = len(set(self.schedule.weights)) / self.schedule.ranks
        factor = self.factors[action.stage] if self.factors else 1.0
        return self.times[action.kind] * factor / virtual


def _key(action: Action) -> BlockKey:
    """The block of an action or a pair."""
    first, *others = (BlockKey(each.stage, each.kind) for each in action.singles)
    return first._replace(beside=others[0]) if others else first
