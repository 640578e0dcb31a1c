"""Messages between stages: which channel each one takes, and the check that every channel is in order.

The hop into a stage carries an activation (tag F) from the stage before it or a gradient (tag B) from the one after.
A channel is (offset, tag); its k-th send meets its k-th receive.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from workloads.ops import P2P
from workloads.schedule import Schedule

DIRECTION = {"F": "F", "B": "B", "I": "B"}
Arrival = tuple[int, int]


class Message(NamedTuple):
    """The channel of a hop: `offset` places up the pp axis, wrapping around, and a tag."""

    offset: int
    tag: str

    def op(self, kind: str, size: float, *, after: tuple[str, ...] = (), mode: str = "latency") -> P2P:
        """One end of the hop, a `send` or a `recv` of `size` bytes.

        >>> Message(1, "F").op("send", 8.0).offset
        1
        """
        return P2P(
            name=kind, kind=kind, after=after, axis="pp", offset=self.offset, bytes=size, tag=self.tag, mode=mode
        )


class Hops:
    """The messages of a schedule: those into each stage, by direction F or B.

    >>> from workloads import schedules
    >>> hops = Hops(schedules.build("interleaved", stages=4, microbatches=4, virtual=2))
    >>> hops.incoming(4, "F"), hops.outgoing(4, "B"), hops.incoming(0, "F")
    (Message(offset=1, tag='F'), Message(offset=-1, tag='B'), None)
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.next = {"F": schedule.after, "B": schedule.before, "I": schedule.before}
        self.into = dict(_hops(schedule))
        if mixed := self._disordered():
            self._separate(mixed)
            if broken := self._disordered():
                raise ValueError(f"{schedule.name} receives on {min(broken)} in another order than it sends")

    def incoming(self, stage: int, kind: str) -> Message | None:
        """The message an action begins with."""
        return self.into.get((DIRECTION.get(kind, ""), stage))

    def outgoing(self, stage: int, kind: str) -> Message | None:
        """The message an action ends with."""
        return self.into.get((DIRECTION.get(kind, ""), self.target(stage, kind)))

    def target(self, stage: int, kind: str) -> int:
        """The stage that uses what an action makes; -1 if none does."""
        return self.next.get(kind, {}).get(stage, -1)

    def _disordered(self) -> set[Message]:
        """Channels on which some rank receives in another order than its peer sends."""
        sent: dict[tuple[Message, int], list[Arrival]] = defaultdict(list)
        received: dict[tuple[Message, int], list[Arrival]] = defaultdict(list)
        placement = self.schedule.placement
        for rank, order in self.schedule.orders.items():
            ends: dict[tuple[int, str], tuple[Message | None, Message | None, int]] = {}
            for action in order:
                for stage, kind, microbatch, _ in action.singles:
                    if (stage, kind) not in ends:
                        ends[stage, kind] = (
                            self.incoming(stage, kind),
                            self.outgoing(stage, kind),
                            self.target(stage, kind),
                        )
                    incoming, outgoing, target = ends[stage, kind]
                    if incoming:
                        received[incoming, rank].append((stage, microbatch))
                    if outgoing:
                        sent[outgoing, placement[target]].append((target, microbatch))
        return {message for message, rank in received if sent[message, rank] != received[message, rank]}

    def _separate(self, channels: set[Message]) -> None:
        """Give each stage its own tag where a shared channel would mix up messages."""
        for (direction, stage), message in self.into.items():
            if message in channels:
                self.into[direction, stage] = Message(message.offset, f"{direction}{stage}")


def _hops(schedule: Schedule) -> Iterator[tuple[tuple[str, int], Message]]:
    """Every hop between two ranks; a gradient travels back the way its activation came."""
    placement, ranks = schedule.placement, schedule.ranks
    for feeder, stage in schedule.after.items():
        if placement[stage] != placement[feeder]:
            offset = (placement[stage] - placement[feeder]) % ranks
            offset -= ranks if 2 * offset > ranks else 0
            yield ("F", stage), Message(offset, "F")
            yield ("B", feeder), Message(-offset, "B")
