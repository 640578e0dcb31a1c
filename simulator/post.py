"""Messages that hold nobody: they leave when the sender reaches them, and need no receiver.

Pipelines send them by the thousand, so they are kept apart from the general rendezvous: a letter has one
sending class and at most one receiving class, takes no SMs, and only its receiver ever waits for it.
"""

from collections.abc import Sequence
from functools import partial

from simpy.events import Event

from simulator.addresses import RECEIVER, Slot
from simulator.blocks import ReadyOp
from simulator.network import Flow
from simulator.quotient import Communicator, Node, Quotient, Transfer
from simulator.recording import OpRecord
from simulator.rendezvous import mismatch
from simulator.runs import COMPUTE
from simulator.scene import Scene
from simulator.script import Channels, Letterhead


class Letter:
    """The k-th message on a class of channels. `flow` carries it; `waiting` is there if its receiver was first."""

    __slots__ = ("began", "delivered", "flow", "number", "sender", "transfer", "waiting")

    def __init__(self, transfer: Transfer, number: int) -> None:
        self.transfer, self.number = transfer, number
        self.began = 0.0
        self.delivered = False
        self.flow: Flow | None = None
        self.waiting: Event | None = None
        self.sender: tuple[Node, int, ReadyOp] | None = None


class Post:
    """All letters of a replay."""

    def __init__(self, scene: Scene, communicators: Sequence[Communicator]) -> None:
        self._scene, self._communicators = scene, communicators
        self._letters: dict[Letterhead, Letter] = {}

    def reach(self, node: Node, position: int, ready: ReadyOp, head: Letterhead) -> Letter | None:
        """A node reaches a letter's op, sending or asking for it; the letter, if the node has to wait for it."""
        assert ready.address is not None
        slot, payload = ready.address
        letter = self._letters.pop(head, None)
        if letter is None:
            transfer = self._communicators[head[0]].transfers[payload]
            letter = self._letters[head] = Letter(transfer, next(self._scene.numbers))
        elif letter.transfer.payload != payload:
            raise mismatch(node, ready, payload, letter.transfer.payload, head[1])
        if slot.role == "send":
            letter.sender = node, position, ready
            letter.began = self._scene.environment.now
            self.send(letter)
            return None
        if not letter.delivered:
            return letter
        self.received(node, position, ready, self._scene.environment.now, letter)
        return None

    def send(self, letter: Letter) -> None:
        """Send a letter on its way."""
        stretch = letter.transfer.stretches[0]
        if stretch.work:
            priority = letter.transfer.priority
            arrived = partial(self.deliver, letter)
            flow = self._scene.network.start(stretch, priority, stretch.work, arrived, stretch.latency)
            letter.flow = flow
            if letter.waiting is not None:
                flow.progress.event.callbacks += letter.waiting.callbacks
                letter.waiting.callbacks = []
        elif stretch.latency:
            self._scene.environment.timeout(stretch.latency).callbacks.append(partial(self.deliver, letter))
        else:
            self.deliver(letter)

    def event(self, letter: Letter) -> Event:
        """What a receiver that is early waits for: the end of the letter's flow, or of a letter not yet there."""
        if letter.flow is not None:
            return letter.flow.progress.event
        letter.waiting = Event(self._scene.environment)
        return letter.waiting

    def deliver(self, letter: Letter, _: object = None) -> None:
        """A letter is there: take down the sending, and wake a receiver that waits for the letter itself."""
        letter.delivered = True
        letter.flow = None
        if letter.sender is not None:
            node, position, ready = letter.sender
            record = OpRecord(position, ready, letter.began, letter.began, self._scene.environment.now, letter.number)
            self._scene.recordings[node.index].sent.append(record)
        if letter.waiting is not None and letter.waiting.callbacks:
            letter.waiting.succeed()

    def received(self, node: Node, position: int, ready: ReadyOp, start: float, letter: Letter) -> None:
        """Take down that a node has a letter for which it was ready at `start`."""
        record = OpRecord(position, ready, start, letter.began, self._scene.environment.now, letter.number)
        recording = self._scene.recordings[node.index]
        (recording.compute if ready.op.stream == COMPUTE else recording.beside).append(record)


def channels(quotient: Quotient) -> Channels:
    """For every (node, slot) that sends or receives letters, the communicator class of those; found once."""
    return quotient.once("channels", lambda: _channels(quotient))


def _channels(quotient: Quotient) -> Channels:
    parts = {(node.index, slot): found for node in quotient.nodes for slot, found in node.parts.items()}
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
