"""A schedule by itself as a program: every action one kernel of a given length, every hop an empty message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workloads.lowering.messages import Hops
from workloads.mesh import DeviceMesh
from workloads.ops import Compute, Op
from workloads.program import Block, BlockKey, Program, Replay
from workloads.schedule import Action, Schedule


@dataclass(frozen=True, slots=True)
class TimedSchedule:
    """A schedule whose actions take given times; what it is to be replayed with is one second per FLOP.

    `times` are per kind for one microbatch on all of a rank's virtual stages together, so that a stage takes
    time / virtual, times its entry in `factors`. `mode` is the mode of every message.
    """

    schedule: Schedule
    times: Mapping[str, float]
    factors: Sequence[float] = ()
    mode: str = "latency"

    def __post_init__(self) -> None:
        stages = len(self.schedule.placement)
        if self.factors and len(self.factors) != stages:
            raise ValueError(f"{len(self.factors)} stage factors for {stages} stages; each stage needs one")
        for what, values in (("time", self.times.values()), ("stage factor", self.factors)):
            for value in values:
                if not 0 <= value < float("inf"):
                    raise ValueError(f"a {what} of {value:g}: it must be 0 or more, and finite")

    def __str__(self) -> str:
        return str(self.schedule).splitlines()[0]

    def program(self) -> Program:
        """One rank per pipeline rank, each with its actions in order."""
        hops = Hops(self.schedule)
        actions = {action: None for order in self.schedule.orders.values() for action in order}
        blocks = {self._key(action): Block(tuple(self._ops(action, hops))) for action in actions}
        orders: dict[tuple[int, ...], tuple[Replay, ...]] = {
            (rank,): tuple(Replay(self._key(action), action.microbatch) for action in order)
            for rank, order in self.schedule.orders.items()
        }
        mesh = DeviceMesh({"pp": len(self.schedule.orders)})
        return Program(mesh, blocks, orders, warnings=self.schedule.warnings)

    def _key(self, action: Action) -> BlockKey:
        return BlockKey(action.stage, action.kind)

    def _ops(self, action: Action, hops: Hops) -> list[Op]:
        virtual = len(self.schedule.placement) / len(self.schedule.orders)
        factor = self.factors[action.stage] if self.factors else 1.0
        kernel = Compute(name=action.kind, kind="timed", flops=self.times[action.kind] * factor / virtual)
        into, out = hops.incoming(action.stage, action.kind), hops.outgoing(action.stage, action.kind)
        received = [into.op("recv", 0.0, mode=self.mode)] if into else []
        sent = [out.op("send", 0.0, mode=self.mode)] if out else []
        return [*received, kernel, *sent]
