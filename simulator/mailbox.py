"""Messages that hold nobody: they leave when the sender reaches them, and need no receiver.

Pipelines send them by the thousand, so they are kept apart from the general rendezvous: a message has one
sending class and at most one receiving class, takes no SMs, and only its receiver ever waits for it.
"""

from collections.abc import Sequence
from functools import partial

from simpy.events import Event

from simulator.addresses import RECEIVER, Slot
from simulator.blocks import ReadyOp
from simulator.context import ReplayContext
from simulator.network import Flow
from simulator.quotient import Communicator, Quotient, RankClass, Transfer
from simulator.recording import OpRecord
from simulator.rendezvous import mismatch
from simulator.script import Channels, MessageKey


class Message:
    """The k-th message on a class of channels. `flow` carries it; `waiting` is there if its receiver was first."""

    __slots__ = ("began", "delivered", "flow", "number", "sender", "transfer", "waiting")

    def __init__(self, transfer: Transfer, number: int) -> None:
        self.transfer, self.number = transfer, number
        self.began = 0.0
        self.delivered = False
        self.flow: Flow | None = None
        self.waiting: Event | None = None
        self.sender: tuple[RankClass, int, ReadyOp] | None = None


class Mailbox:
    """All messages of a replay."""

    def __init__(self, context: ReplayContext, communicators: Sequence[Communicator]) -> None:
        self._context, self._communicators = context, communicators
        self._messages: dict[MessageKey, Message] = {}

    def reach(self, rank_class: RankClass, position: int, ready: ReadyOp, key: MessageKey) -> Message | None:
        """A rank class reaches a message's op, sending or asking for it; the message, if it has to wait for that."""
        assert ready.address is not None
        slot, payload = ready.address
        message = self._messages.pop(key, None)
        if message is None:
            transfer = self._communicators[key[0]].transfers[payload]
            message = self._messages[key] = Message(transfer, next(self._context.numbers))
        elif message.transfer.payload != payload:
            raise mismatch(rank_class, ready, payload, message.transfer.payload, key[1])
        if slot.role == "send":
            message.sender = rank_class, position, ready
            message.began = self._context.environment.now
            self.send(message)
            return None
        if not message.delivered:
            return message
        self.received(rank_class, position, ready, self._context.environment.now, message)
        return None

    def send(self, message: Message) -> None:
        """Send a message on its way."""
        stretch = message.transfer.stretches[0]
        if stretch.work:
            priority = message.transfer.priority
            arrived = partial(self.deliver, message)
            flow = self._context.network.start(stretch, priority, stretch.work, arrived, stretch.latency)
            message.flow = flow
            if message.waiting is not None:
                flow.progress.event.callbacks += message.waiting.callbacks
                message.waiting.callbacks = []
        elif stretch.latency:
            self._context.environment.timeout(stretch.latency).callbacks.append(partial(self.deliver, message))
        else:
            self.deliver(message)

    def event(self, message: Message) -> Event:
        """What a receiver that is early waits for: the end of the message's flow, or of a message not yet there."""
        if message.flow is not None:
            return message.flow.progress.event
        message.waiting = Event(self._context.environment)
        return message.waiting

    def deliver(self, message: Message, _: object = None) -> None:
        """A message is there: take down the sending, and wake a receiver that waits for the message itself."""
        message.delivered = True
        message.flow = None
        if message.sender is not None:
            rank_class, position, ready = message.sender
            record = OpRecord(
                position, ready, message.began, message.began, self._context.environment.now, message.number
            )
            self._context.recordings[rank_class.index].sent.append(record)
        if message.waiting is not None and message.waiting.callbacks:
            message.waiting.succeed()

    def received(self, rank_class: RankClass, position: int, ready: ReadyOp, start: float, message: Message) -> None:
        """Take down that a rank class has a message for which it was ready at `start`."""
        record = OpRecord(position, ready, start, message.began, self._context.environment.now, message.number)
        self._context.recordings[rank_class.index].add(record)


def channels(quotient: Quotient) -> Channels:
    """For every (rank class, slot) that sends or receives messages, the communicator class of those; found once."""
    return quotient.once("channels", lambda: _channels(quotient))


def _channels(quotient: Quotient) -> Channels:
    parts = {
        (rank_class.index, slot): found
        for rank_class in quotient.rank_classes
        for slot, found in rank_class.parts.items()
    }
    found: dict[tuple[int, Slot], int] = {}
    for number, communicator in enumerate(quotient.communicators):
        ends = [(index, slot) for index, slot, _ in communicator.members]
        light = all(payload.kind == "latency" for payload in communicator.transfers)
        plain = all(len(parts[end]) == 1 for end in ends) and len(communicator.senders) == 1
        receivers = sum(role == RECEIVER for _, _, role in communicator.members)
        transfers = communicator.transfers.values()
        free = all(not transfer.sm_share and len(transfer.stretches) == 1 for transfer in transfers)
        if light and plain and free and receivers <= 1:
            found.update(dict.fromkeys(ends, number))
    return found
