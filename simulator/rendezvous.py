"""Where ops become transfers: ranks arrive, a transfer runs through its stretches, ranks are released."""

from collections.abc import Sequence
from math import inf

from simpy.events import Event

from simulator.addresses import SENDER, Address, Payload, Slot
from simulator.blocks import ReadyOp
from simulator.context import ReplayContext
from simulator.network import Flow
from simulator.quotient import Arrival, Communicator, RankClass, Transfer
from simulator.recording import OpRecord

RELEASING = ("latency", "recv_block")
"""Modes of messages that let the sender go on at once."""


class MismatchError(ValueError):
    """Members of a communicator call it differently: the k-th calls of all must agree in kind and bytes."""


def mismatch(rank_class: RankClass, ready: ReadyOp, mine: Payload, theirs: Payload, number: int) -> MismatchError:
    """The error of a rank class whose k-th call differs from that of another member."""
    return MismatchError(
        f"rank {rank_class.rank} calls {ready.op.name} with {mine.kind} of {mine.bytes:g} bytes as call {number} on "
        f"its communicator, where others call {theirs.kind} of {theirs.bytes:g} bytes; the k-th calls of all must agree"
    )


class Call:
    """One communication op of one rank class under way; `event` happens when nothing holds the rank class any more.

    `began` is when the first of its transfers began.
    """

    __slots__ = (
        "address",
        "began",
        "event",
        "message",
        "pending",
        "position",
        "rank_class",
        "ready",
        "start",
        "undelivered",
    )

    def __init__(self, rank_class: RankClass, position: int, ready: ReadyOp, address: Address, start: float) -> None:
        self.rank_class, self.position, self.ready, self.address, self.start = (
            rank_class,
            position,
            ready,
            address,
            start,
        )
        self.pending = self.undelivered = 0
        self.began, self.message = inf, -1
        self.event: Event | None = None


class Exchange:
    """The k-th transfer on a class of communicators, from the first arrival to delivery.

    `waiting` lists (call, role, multiplicity) that it still holds; `flows_at` is when the present stretch's
    latency ends, `flow` its bytes once they are on their way.
    """

    __slots__ = (
        "arrived",
        "began",
        "communicator",
        "delivered",
        "flow",
        "flows_at",
        "key",
        "message",
        "sent",
        "stretch",
        "transfer",
        "waiting",
    )

    def __init__(self, key: tuple[int, int], communicator: Communicator, transfer: Transfer, message: int) -> None:
        self.key, self.communicator, self.transfer, self.message = key, communicator, transfer, message
        self.arrived: set[Arrival] = set()
        self.waiting: list[tuple[Call, int, int]] = []
        self.sent: list[Call] = []
        self.began: float | None = None
        self.delivered = False
        self.stretch = 0
        self.flow: Flow | None = None
        self.flows_at = 0.0


class Rendezvous:
    """All exchanges of a replay, by communicator class and number of the call."""

    def __init__(self, context: ReplayContext, communicators: Sequence[Communicator]) -> None:
        self._context, self._communicators = context, communicators
        self._exchanges: dict[tuple[int, int], Exchange] = {}
        self._calls: dict[tuple[int, Slot], int] = {}

    @property
    def open(self) -> list[Exchange]:
        """Exchanges that somebody has arrived at and that are not over."""
        return list(self._exchanges.values())

    def arrive(self, call: Call) -> None:
        """A rank class reaches an op; if something is pending then, it waits for the call's event."""
        exchanges = self._enter(call)
        if not exchanges:
            self._record(call)
        for exchange in exchanges:
            mode = exchange.transfer.payload.kind
            if exchange.began is None and self._complete(exchange, mode):
                self._begin(exchange, self._context.environment.now)
                self._next_stretch(exchange)
            if mode in RELEASING:
                self._release(exchange, SENDER)
            if exchange.delivered:
                self._release(exchange, None)
        self._wait(call)

    def resume(self, calls: Sequence[Call], found: Exchange, now: float) -> None:
        """Take over a transfer from a rehearsal whose clock is at `now`: its calls go on where they were."""
        entered = [self._enter(call)[0] for call in calls]
        for call in calls:
            self._wait(call)
        if found.began is None:
            return
        exchange = entered[0]
        self._begin(exchange, min(self._context.environment.now - now + found.began, self._context.environment.now))
        exchange.stretch = found.stretch
        if found.flow is not None:
            self._flow(exchange, found.flow.progress.remaining(now))
        else:
            self._after_latency(exchange, found.flows_at - now)

    def _begin(self, exchange: Exchange, now: float) -> None:
        exchange.began = now
        for call in (*exchange.sent, *(call for call, _, _ in exchange.waiting)):
            call.began = min(call.began, now)

    def _wait(self, call: Call) -> None:
        if call.pending:
            call.event = Event(self._context.environment)

    def _enter(self, call: Call) -> list[Exchange]:
        """Register the call at every exchange behind its slot, holding SMs from now on."""
        rank_class, slot = call.rank_class, call.address.slot
        number = self._calls.get((rank_class.index, slot), 0)
        self._calls[rank_class.index, slot] = number + 1
        exchanges = []
        for part in rank_class.parts.get(slot, ()):
            exchange = self._exchange((part.communicator, number), call)
            exchange.arrived.add((rank_class.index, slot, part.role))
            exchange.waiting.append((call, part.role, part.multiplicity))
            if part.role == SENDER:
                exchange.sent.append(call)
                call.undelivered += 1
            call.pending += 1
            call.message = exchange.message
            if exchange.began is not None:
                call.began = min(call.began, exchange.began)
            self._hold(rank_class.index, exchange.transfer.sm_share, part.multiplicity)
            exchanges.append(exchange)
        return exchanges

    def _exchange(self, key: tuple[int, int], call: Call) -> Exchange:
        payload = call.address.payload
        exchange = self._exchanges.get(key)
        if exchange is None:
            communicator = self._communicators[key[0]]
            exchange = Exchange(key, communicator, communicator.transfers[payload], next(self._context.numbers))
            self._exchanges[key] = exchange
        elif exchange.transfer.payload != payload:
            raise mismatch(call.rank_class, call.ready, payload, exchange.transfer.payload, key[1])
        return exchange

    def _complete(self, exchange: Exchange, mode: str) -> bool:
        """Whether everybody has arrived whom the transfer needs to start."""
        communicator = exchange.communicator
        if mode in ("latency", "send_block"):
            return communicator.sends and exchange.arrived >= communicator.senders
        return communicator.sends and communicator.takes and exchange.arrived >= communicator.members

    def _hold(self, rank_class: int, share: float, multiplicity: int) -> None:
        if share:
            if self._context.holding is not None:
                self._context.holding(rank_class)
            processor = self._context.processors[rank_class]
            processor.hold(processor.sms(share) * multiplicity)

    def _next_stretch(self, exchange: Exchange) -> None:
        if exchange.stretch == len(exchange.transfer.stretches):
            self._deliver(exchange)
            return
        self._after_latency(exchange, exchange.transfer.stretches[exchange.stretch].latency)

    def _after_latency(self, exchange: Exchange, latency: float) -> None:
        stretch = exchange.transfer.stretches[exchange.stretch]
        if latency > 0:
            exchange.flows_at = self._context.environment.now + latency
            self._context.environment.timeout(latency).callbacks.append(lambda _: self._flow(exchange, stretch.work))
        else:
            self._flow(exchange, stretch.work)

    def _flow(self, exchange: Exchange, left: float) -> None:
        stretch = exchange.transfer.stretches[exchange.stretch]
        if not stretch.work:
            self._arrived(exchange)
            return
        exchange.flow = self._context.network.start(
            stretch, exchange.transfer.priority, left, lambda: self._arrived(exchange)
        )

    def _arrived(self, exchange: Exchange) -> None:
        exchange.flow = None
        exchange.stretch += 1
        self._next_stretch(exchange)

    def _deliver(self, exchange: Exchange) -> None:
        exchange.delivered = True
        for call in exchange.sent:
            call.undelivered -= 1
            if not call.undelivered and not call.pending:
                self._record(call)
        self._release(exchange, None)

    def _release(self, exchange: Exchange, role: int | None) -> None:
        """Let go of the calls in a role, or of all."""
        kept = []
        for entry in exchange.waiting:
            call, mine, multiplicity = entry
            if role is not None and mine != role:
                kept.append(entry)
                continue
            self._hold(call.rank_class.index, exchange.transfer.sm_share, -multiplicity)
            call.pending -= 1
            if not call.pending:
                self._let_go(call)
        exchange.waiting = kept
        if exchange.delivered and len(exchange.arrived) == len(exchange.communicator.members):
            self._exchanges.pop(exchange.key, None)

    def _let_go(self, call: Call) -> None:
        if not call.undelivered:
            self._record(call)
        if call.event is not None:
            call.event.succeed()

    def _record(self, call: Call) -> None:
        record = OpRecord(
            call.position, call.ready, call.start, call.began, self._context.environment.now, call.message
        )
        recording = self._context.recordings[call.rank_class.index]
        if call.address.slot.role == "send" and call.address.payload.kind in RELEASING:
            recording.sent.append(record)
        else:
            recording.add(record)
