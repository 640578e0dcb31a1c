"""Whom an op talks to and what it moves: slots, payloads, roles.

A *slot* is the name by which a rank's program addresses its communicators. All ops of a rank with one slot
address the same communicators: one for a collective, one channel per edge for a message, two for a shift, one of its
own for copies to and from its host.
"""

from typing import NamedTuple

from workloads.ops import P2P, Collective, HostCopy, Op

MEMBER, SENDER, RECEIVER = 0, 1, 2
HOST = "host"
"""The role of slots, and in place of an axis the label, of copies between a rank and its host."""


class Slot(NamedTuple):
    """How a program names a communicator, without kind or bytes.

    `role` is member for a collective, host for a copy, else send, recv or shift; `axes` holds one axis for a message.
    """

    role: str
    axes: tuple[str, ...]
    stream: str
    positions: tuple[int, ...] = ()
    offset: int = 0
    tag: str = ""

    @property
    def channel(self) -> "Channel":
        """What both ends of a message agree on."""
        return Channel(self.axes[0], self.offset, self.tag)


class Channel(NamedTuple):
    """The messages along an axis with one offset and tag: one channel per edge, between neighbours so far apart."""

    axis: str
    offset: int
    tag: str


class Payload(NamedTuple):
    """What one op moves, apart from who addresses it: its members must agree on it, call by call.

    A copy has the medium at its host in place of a dtype.
    """

    kind: str
    bytes: float
    dtype: str

    def op(self, slot: Slot) -> Collective | P2P | HostCopy:
        """A nameless op with this payload, for the collective algorithms."""
        if slot.role == HOST:
            return HostCopy(name="", kind=self.kind, bytes=self.bytes, medium=self.dtype)
        if slot.role == "member":
            return Collective(name="", stream="", kind=self.kind, axes=slot.axes, bytes=self.bytes, dtype=self.dtype)
        return P2P(name="", kind="send", axis=slot.axes[0], offset=0, bytes=self.bytes, mode=self.kind)


class Address(NamedTuple):
    """Whom an op talks to, and what it moves."""

    slot: Slot
    payload: Payload


def address(op: Op) -> Address | None:
    """The address of a communication op; None for compute."""
    return Address(slot_of(op), payload_of(op)) if isinstance(op, Collective | P2P | HostCopy) else None


def slot_of(op: Collective | P2P | HostCopy) -> Slot:
    """The slot that an op addresses."""
    if isinstance(op, HostCopy):
        return Slot(HOST, (HOST,), op.stream)
    if isinstance(op, Collective):
        return Slot("member", op.axes, op.stream, positions=op.positions)
    return Slot(op.kind, (op.axis,), op.stream, offset=op.offset, tag=op.tag)


def payload_of(op: Collective | P2P | HostCopy) -> Payload:
    """The payload of an op; for a message its mode takes the place of the kind."""
    if isinstance(op, HostCopy):
        return Payload(op.kind, op.bytes, op.medium)
    if isinstance(op, Collective):
        return Payload(op.kind, op.bytes, op.dtype)
    return Payload("blocking" if op.kind == "shift" else op.mode, op.bytes, "")
