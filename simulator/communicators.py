"""Who talks to whom: the communicators of a program on a topology, and what each op asks of the links."""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator import collectives, host_copies
from simulator.activity import Activity
from simulator.addresses import HOST, MEMBER, RECEIVER, SENDER, Channel, Payload, Slot, address
from simulator.demand import Floats, Ints
from simulator.folding import Hashes, blend
from topologies import Topology
from workloads.mesh import DeviceMesh
from workloads.ops import P2P, Collective, HostCopy
from workloads.program import Program

Bools = npt.NDArray[np.bool_]
SCALARS = 64
"""Bytes of a handful of numbers, such as the norm of all gradients."""
Usage = dict[Slot, dict[Payload, Bools]]
"""Which payloads each slot carries: for every order of the program, whether its ranks send that."""


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """All communicators of one slot, or of one sending and one receiving slot.

    `ranks` and `uses` have shape (communicators, members): who could take part, and who addresses it.
    `columns` gives the slot and role of each member, or one pair for all; a message nobody sends or
    receives has None there. `activities[payload]` covers the communicators that carry it.
    """

    ranks: Ints
    uses: Bools
    columns: tuple[tuple[Slot | None, int], ...]
    activities: Mapping[Payload, "Batches"]


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """The activities of one payload: for each communicator of a family the batch and the row in it."""

    batches: tuple[Activity, ...]
    batch: Ints
    row: Ints

    @classmethod
    def of(
        cls, op: Collective | P2P | HostCopy, ranks: Ints, carrying: Ints, topology: Topology, *, algorithm: str
    ) -> "Batches":
        """An algorithm for every communicator in `carrying` (indices into `ranks`)."""
        if isinstance(op, HostCopy):
            return cls.copies(op, ranks, carrying, topology)
        batch, row = np.full(len(ranks), -1), np.zeros(len(ranks), np.int64)
        batches: list[Activity] = []
        for groups, activity in collectives.choose(op, ranks[carrying], topology, algorithm):
            batch[carrying[groups]] = len(batches)
            row[carrying[groups]] = np.arange(len(groups))
            batches.append(activity if op.bytes > SCALARS else activity.as_latency(topology))
        return cls(tuple(batches), batch, row)

    @classmethod
    def copies(cls, op: HostCopy, ranks: Ints, carrying: Ints, topology: Topology) -> "Batches":
        """A copy between every rank in `carrying` and its host."""
        batch, row = np.full(len(ranks), -1), np.zeros(len(ranks), np.int64)
        batch[carrying], row[carrying] = 0, np.arange(len(carrying))
        return cls((host_copies.build(op, ranks[carrying], topology),), batch, row)

    def colours(self) -> Hashes:
        """Hash of everything the payload adds to each communicator; the same for those that do not carry it."""
        colours = np.zeros(len(self.batch), np.uint64)
        for index, activity in enumerate(self.batches):
            mine = self.batch == index
            columns: list[Floats] = [activity.sm_share, np.full(len(activity.sm_share), activity.priority)]
            for phase in activity.phases:
                columns += [phase.latency, phase.work, phase.rate_cap]
            named = np.full(len(activity.sm_share), hash_text(activity.algorithm), np.uint64)
            colours[mine] = blend(named, *columns)[self.row[mine]]
        return colours


def hash_text(text: str) -> np.uint64:
    """A hash of a text that is the same in every process."""
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()))


def communicators(program: Program, usage: Usage, topology: Topology, algorithms: Mapping[str, str]) -> list[Family]:
    """Find every communicator that a program addresses by its `usage`, with the activities of its ops.

    `algorithms` names one for some kinds of collectives; the others are chosen.
    """
    order = order_of_rank(program)
    families = []
    found = *_collectives(program.mesh, usage), *_channels(program.mesh, usage, order), *_copies(program.mesh, usage)
    for ranks, columns in found:
        used = [_users(usage, slot, order) for slot, _ in columns]
        if len(columns) == 1:
            uses = used[0][ranks]
        else:
            uses = np.stack([mine[ranks[:, column]] for column, mine in enumerate(used)], axis=1)
        kept = uses.any(axis=1)
        activities = _activities(ranks[kept], columns, usage, order, topology, algorithms=algorithms)
        families.append(Family(ranks[kept], uses[kept], columns, activities))
    return families


def payloads(program: Program) -> Usage:
    """Which slots and payloads the orders of a program use."""
    carried: dict[int, set[tuple[Slot, Payload]]] = {}
    usage: Usage = {}
    for index, order in enumerate(program.orders.values()):
        for key in {replay.block for replay in order}:
            block = program.blocks[key]
            if id(block) not in carried:
                found = [address(op) for op in block.ops]
                carried[id(block)] = {each for each in found if each is not None}
            for slot, payload in carried[id(block)]:
                orders = usage.setdefault(slot, {}).setdefault(payload, np.zeros(len(program.orders), np.bool_))
                orders[index] = True
    return dict(sorted(usage.items(), key=repr))


def copies_to_hosts(usage: Usage) -> bool:
    """Whether any rank copies to or from its host."""
    return any(slot.role == HOST for slot in usage)


def order_of_rank(program: Program) -> Ints:
    """Index into `program.orders` of what each rank replays, shape (ranks,)."""
    index = {place: number for number, place in enumerate(program.orders)}
    degrees = [program.mesh.degree(axis) for axis in program.varies]
    table = np.full(degrees, -1)
    for place, number in index.items():
        table[place] = number
    if (table < 0).any():
        raise ValueError(f"the program has no order for {program.varies} = {np.argwhere(table < 0)[0].tolist()}")
    ranks = np.arange(program.mesh.size)
    return table[tuple(coordinate(program.mesh, ranks, axis) for axis in program.varies)] + 0 * ranks


def coordinate(mesh: DeviceMesh, ranks: Ints, axis: str) -> Ints:
    """Place of every rank on an axis."""
    return ranks // mesh.stride(axis) % mesh.degree(axis) if axis in mesh.axes else 0 * ranks


def _carries(usage: Usage, slot: Slot | None, payload: Payload | None, order: Ints) -> Bools:
    """Which ranks send or take the payload through the slot, shape (ranks,)."""
    if slot is None or payload not in usage[slot]:
        return np.zeros(len(order), np.bool_)
    return usage[slot][payload][order]


def _users(usage: Usage, slot: Slot | None, order: Ints) -> Bools:
    """Which ranks address the slot, shape (ranks,)."""
    if slot is None:
        return np.zeros(len(order), np.bool_)
    users: Bools = np.any([orders[order] for orders in usage[slot].values()], axis=0)
    return users


def _collectives(mesh: DeviceMesh, usage: Usage) -> Iterator[tuple[Ints, tuple[tuple[Slot, int], ...]]]:
    grid = np.arange(mesh.size).reshape(list(mesh.axes.values()))
    for slot in usage:
        if slot.role != "member":
            continue
        missing = [axis for axis in slot.axes if axis not in mesh.axes]
        if missing:
            raise ValueError(f"a collective spans axis {missing[0]!r}; the mesh has {', '.join(mesh.axes)}")
        dimensions = sorted(list(mesh.axes).index(axis) for axis in slot.axes)
        members = math.prod(grid.shape[dimension] for dimension in dimensions)
        last = range(grid.ndim - len(dimensions), grid.ndim)
        ranks = np.moveaxis(grid, dimensions, list(last)).reshape(-1, members)
        if slot.positions:
            ranks = np.take(ranks, np.unique([position % members for position in slot.positions]), axis=1)
        if ranks.shape[1] > 1:
            yield ranks, ((slot, MEMBER),)


def _copies(mesh: DeviceMesh, usage: Usage) -> Iterator[tuple[Ints, tuple[tuple[Slot, int], ...]]]:
    """Every rank by itself."""
    for slot in usage:
        if slot.role == HOST:
            yield np.arange(mesh.size)[:, None], ((slot, MEMBER),)


def _channels(
    mesh: DeviceMesh, usage: Usage, order: Ints
) -> Iterator[tuple[Ints, tuple[tuple[Slot | None, int], ...]]]:
    sending: dict[Channel, list[Slot | None]] = {}
    receiving: dict[Channel, list[Slot | None]] = {}
    for slot in usage:
        if slot.role in ("send", "shift"):
            sending.setdefault(slot.channel, []).append(slot)
        if slot.role in ("recv", "shift"):
            receiving.setdefault(slot.channel, []).append(slot)
    ranks = np.arange(mesh.size)
    for channel in sorted({*sending, *receiving}):
        axis, offset, _ = channel
        if axis not in mesh.axes:
            raise ValueError(f"a message runs along axis {axis!r}; the mesh has {', '.join(mesh.axes)}")
        place = coordinate(mesh, ranks, axis)
        target = ranks + ((place + offset) % mesh.degree(axis) - place) * mesh.stride(axis)
        sources, sinks = sending.get(channel, [None]), receiving.get(channel, [None])
        sends = np.stack([_users(usage, source, order) for source in sources])
        takes = np.stack([_users(usage, sink, order)[target] for sink in sinks])
        _check_one_stream(channel, "sends", sources, sends, ranks)
        _check_one_stream(channel, "receives", sinks, takes, target)
        for i, j in np.ndindex(len(sources), len(sinks)):
            edges = _joined(sends, takes, i, j)
            yield np.stack([ranks, target], axis=1)[edges], ((sources[i], SENDER), (sinks[j], RECEIVER))


def _joined(sends: Bools, takes: Bools, source: int, sink: int) -> Bools:
    """Which edges join two slots of a channel; `sends` and `takes` have shape (slots, edges).

    An end without any counterpart counts with the other side's first slot, where it is alone.
    """
    lonely_send = sends[source] & ~takes.any(axis=0) & (sink == 0)
    lonely_take = takes[sink] & ~sends.any(axis=0) & (source == 0)
    joined: Bools = sends[source] & takes[sink] | lonely_send | lonely_take
    return joined


def _check_one_stream(
    channel: tuple[object, ...], does: str, slots: list[Slot | None], uses: Bools, ranks: Ints
) -> None:
    """Messages of one channel pair up call by call, so a rank addresses it in one way only."""
    twice = np.flatnonzero(uses.sum(axis=0) > 1)
    if len(twice):
        ways = [
            f"{slot.role} on stream {slot.stream!r}"
            for slot, use in zip(slots, uses, strict=True)
            if slot and use[twice[0]]
        ]
        axis, offset, tag = channel
        raise ValueError(
            f"rank {ranks[twice[0]]} {does} along {axis} with offset {offset} and tag {tag!r} "
            f"by {' and by '.join(ways)}; give them different tags"
        )


def _activities(
    ranks: Ints,
    columns: tuple[tuple[Slot | None, int], ...],
    usage: Usage,
    order: Ints,
    topology: Topology,
    *,
    algorithms: Mapping[str, str],
) -> dict[Payload, "Batches"]:
    """For every payload of the family's slots, the activities of the communicators that carry it."""
    slots = [slot for slot, _ in columns]
    activities = {}
    for payload in sorted({payload for slot in slots if slot for payload in usage[slot]}):
        carries = [_carries(usage, slot, payload, order) for slot in slots]
        if len(slots) == 1:
            carrying = carries[0][ranks].any(axis=1)
        else:
            carrying = np.any([mine[ranks[:, column]] for column, mine in enumerate(carries)], axis=0)
        slot = next(slot for slot in slots if slot)
        algorithm = algorithms.get(payload.kind, collectives.AUTO)
        activities[payload] = Batches.of(
            payload.op(slot), ranks, np.flatnonzero(carrying), topology, algorithm=algorithm
        )
    return activities
