"""What to say when nothing can go on and work remains."""

from simulator.addresses import MEMBER
from simulator.engine import Engine, Underway
from simulator.quotient import RankClass
from simulator.rendezvous import Call


class DeadlockError(RuntimeError):
    """Nothing can progress, and work remains; the message names the waiting ranks, their ops and what they wait for."""


def check(engine: Engine) -> None:
    """Raise if a replay that has come to rest left ops undone."""
    waiting = [(state.rank_class, underway) for state in engine.states for underway in state.underway.values()]
    if waiting:
        named = [
            f"rank {rank_class.rank} waits in {underway.ready.op.name!r} for {_missing(engine, rank_class, underway)}"
            for rank_class, underway in waiting[:8]
        ]
        more = f"; and {len(waiting) - 8} more" if len(waiting) > 8 else ""
        raise DeadlockError(f"deadlock at {_halt(engine):g} s: {'; '.join(named)}{more}")


def _halt(engine: Engine) -> float:
    """When something happened last; superseded events carry the clock further than that."""
    ends = (record.end for state in engine.states for record in state.recording.records)
    starts = (underway.start for state in engine.states for underway in state.underway.values())
    return max(*ends, *starts, 0.0)


def _missing(engine: Engine, rank_class: RankClass, underway: Underway) -> str:
    """Who has not come to the op, or which ops it waits for."""
    if not isinstance(underway.work, Call):
        return ", ".join(repr(name) for name in underway.ready.op.after)
    exchanges = [
        exchange for exchange in engine.rendezvous.open if any(call is underway.work for call, _, _ in exchange.waiting)
    ]
    absent = {index for exchange in exchanges for index, _, _ in exchange.communicator.members - exchange.arrived}
    if not absent:
        communicators = [exchange.communicator for exchange in exchanges]
        if any(role == MEMBER for each in communicators for _, _, role in each.members):
            return "members whose program never calls it"
        sent = all(each.sends for each in communicators)
        return "a message that nobody takes" if sent else "a message that nobody sends"
    ranks = sorted(engine.quotient.rank_classes[index].rank for index in absent)
    return "rank" + ("s " if len(ranks) > 1 else " ") + ", ".join(map(str, ranks))
