"""Blocks of actions: each distinct one is built once, however many stages and microbatches replay it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from workloads.lowering.draft import RECV, Draft, waiting
from workloads.lowering.messages import Message
from workloads.microbatch import Microbatch
from workloads.ops import Op
from workloads.program import Block
from workloads.recompute import Recompute
from workloads.stages import Shape, Stage

SEND = "send"
Weaver = Callable[[Draft], None]
"""What inserts communication into a draft."""


class Body(NamedTuple):
    """The ops of an action without its messages.

    `user` is the position of the first op that reads parameters (-1: none), `producer` the op of another stream
    whose output is sent on, if there is one.
    """

    ops: tuple[Op, ...]
    user: int
    producer: tuple[str, ...]


class Ends(NamedTuple):
    """What surrounds a body: a message before, one after, and the opening ops it waits for."""

    incoming: Message | None = None
    outgoing: Message | None = None
    opened: tuple[str, ...] = ()


@dataclass(slots=True)
class Bodies:
    """Builds blocks and keeps them: equal ops are one object."""

    microbatch: Microbatch
    weavers: tuple[Weaver, ...]
    recompute: Recompute
    message_bytes: float
    p2p: str
    received: tuple[Op, ...] = ()
    pruned: bool = False
    bodies: dict[tuple[Shape, str, str, bool], Body] = field(default_factory=dict)
    interned: dict[tuple[Op, ...], Body] = field(default_factory=dict)
    blocks: dict[tuple[int, Ends], Block] = field(default_factory=dict)

    def block(self, stage: Stage, kind: str, variant: str, ends: Ends) -> Block:
        """The block of an action on a stage."""
        key = (stage.shape, kind, variant, ends.incoming is not None)
        if key not in self.bodies:
            body = self._body(stage, Draft(kind, variant, self.microbatch, ends.incoming is not None))
            self.bodies[key] = self.interned.setdefault(body.ops, body)
        body = self.bodies[key]
        place = (id(body), ends)
        if place not in self.blocks:
            self.blocks[place] = Block(tuple(self._complete(body, ends)))
        return self.blocks[place]

    def _body(self, stage: Stage, draft: Draft) -> Body:
        """Assemble a stage's layers, then let everybody weave."""
        draft.assemble(stage.layers, recompute=self.recompute, pruned=self.pruned)
        producer = (draft.flow,) if draft.streams.get(draft.flow, "compute") != "compute" else ()
        for weave in self.weavers:
            weave(draft)
        ops = tuple(draft.ops())
        user = next((unit.user for unit in draft.units if unit.user), "")
        return Body(ops, next((index for index, op in enumerate(ops) if op.name == user), -1), producer)

    def _complete(self, body: Body, ends: Ends) -> list[Op]:
        """Put the messages around a body, and let it wait for the step's opening ops."""
        ops = list(body.ops)
        if ends.opened and body.user >= 0:
            ops[body.user] = waiting(ops[body.user], ends.opened)
        if ends.incoming:
            ops[:0] = self._receive(ops, ends.incoming)
        if ends.outgoing:
            ops.append(ends.outgoing.op(SEND, self.message_bytes, after=body.producer, mode=self.p2p))
        return ops

    def _receive(self, ops: list[Op], incoming: Message) -> list[Op]:
        """The message and what makes a whole activation of it, for which the first kernel waits."""
        if self.received:
            first = next(index for index, op in enumerate(ops) if op.stream == "compute")
            ops[first] = waiting(ops[first], tuple(op.name for op in self.received))
        return [incoming.op(RECV, self.message_bytes, mode=self.p2p), *self.received]
