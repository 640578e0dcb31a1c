"""Who was on the links of a step, and how many at once: read from the recordings, after the replay."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from simulator.addresses import HOST, Address, Payload
from simulator.demand import Floats, Ints
from simulator.fluid import Sharing
from simulator.quotient import Communicator, Stretch, Transfer
from simulator.recording import Recording, RunRecord
from simulator.script import Script
from simulator.timeline import Timeline, shifted

ALMOST = 1e-11
"""Transfers that overlap for less than this share of the step follow each other."""

Times = tuple[Floats, Floats]
"""When each of some transfers began and ended, seconds."""


@dataclass(slots=True, eq=False)
class Crowd:
    """What crossed one link: the axes of its groups, and the transfers as (starts, ends, how many each stands for)."""

    axes: set[str] = field(default_factory=set)
    flows: list[tuple[Floats, Floats, int]] = field(default_factory=list)

    def peak(self, least: float) -> int:
        """The most transfers at one instant; what overlaps for less than `least` seconds at either end does not."""
        if not self.flows:
            return 0
        starts = np.concatenate([starts for starts, _, _ in self.flows]) + least
        ends = np.concatenate([ends for _, ends, _ in self.flows]) - least
        counts = np.repeat([count for _, _, count in self.flows], [len(starts) for starts, _, _ in self.flows])
        lasting = ends > starts
        times = np.concatenate([starts[lasting], ends[lasting]])
        steps = np.concatenate([counts[lasting], -counts[lasting]])
        together = np.cumsum(steps[np.lexsort((steps, times))])
        return int(max(together.max(initial=0), counts.max()))


def crowds(timeline: Timeline) -> list[Crowd]:
    """What crossed the representative of each link class.

    Assumes that of a transfer in several stretches that met others each took longer in the same proportion, and that
    the message of a shift is on the wire as long as the shift lasts at its sender. A run that was replayed as one
    piece of work (detail `actions`) says when its transfers were on the wire if nobody had met them. Transfers that
    are latency alone load no link, and are not seen here either.
    """
    found = [Crowd() for _ in timeline.quotient.capacities]
    calls = [_calls(script, made) for script, made in zip(timeline.scripts, timeline.recordings, strict=True)]
    for communicator in timeline.quotient.communicators:
        for payload, (axes, times) in _transfers(communicator, calls).items():
            for stretch, starts, ends in _stretches(timeline, communicator.transfers[payload], times):
                for link, weights in stretch.loads.items():
                    found[link].axes.update(axes)
                    found[link].flows.append((starts, ends, sum(count for _, count in weights)))
    return found


def peaks(timeline: Timeline, found: list[Crowd]) -> Ints:
    """The most transfers at one instant on each link, [link classes]."""
    return np.array([crowd.peak(ALMOST * timeline.end) for crowd in found], np.int64)


def axes(timeline: Timeline, found: list[Crowd]) -> list[str]:
    """The axes whose groups' bytes crossed each link, outermost first, then host; joined by blanks."""
    known = dict.fromkeys([*timeline.quotient.program.mesh.axes, HOST])
    return [" ".join(axis for axis in known if axis in crowd.axes) for crowd in found]


def _transfers(
    communicator: Communicator, calls: list[dict[Address, Times]]
) -> dict[Payload, tuple[tuple[str, ...], Times]]:
    """What a communicator carried, with its axes and times: those of one who sends, or of any member of a group."""
    index, slot, _ = min(communicator.senders or communicator.members)
    return {address.payload: (slot.axes, times) for address, times in calls[index].items() if address.slot == slot}


def _calls(script: Script, recording: Recording) -> dict[Address, Times]:
    """When the transfers of a rank class's ops began and ended, by address."""
    began: dict[Address, list[float]] = {}
    ended: dict[Address, list[float]] = {}
    for op in recording.ops:
        if op.ready.address is not None:
            began.setdefault(op.ready.address, []).append(op.began)
            ended.setdefault(op.ready.address, []).append(op.end)
    for run in recording.compute:
        if not isinstance(run, RunRecord):
            continue
        addresses = [ready.address for ready in run.run.ops]
        if any(addresses):
            _, starts, ends = shifted(run, script)
            for address, start, end in zip(addresses, starts.tolist(), ends.tolist(), strict=True):
                if address is not None:
                    began.setdefault(address, []).append(start)
                    ended.setdefault(address, []).append(end)
    return {address: (np.array(began[address]), np.array(ended[address])) for address in began}


def _stretches(timeline: Timeline, transfer: Transfer, times: Times) -> Iterator[tuple[Stretch, Floats, Floats]]:
    """Each stretch of a transfer that moves bytes, with when those start to flow and when they are there, seconds."""
    sharing = Sharing.of(timeline.quotient)
    alone = [
        each.work / sharing.alone(each, transfer.priority).rate if each.work else 0.0 for each in transfer.stretches
    ]
    clock, ended = times
    latency, flowing = sum(each.latency for each in transfer.stretches), sum(alone)
    longer = np.maximum(ended - clock - latency, 0.0) / flowing if flowing else np.ones_like(clock)
    for stretch, seconds in zip(transfer.stretches, alone, strict=True):
        starts = clock + stretch.latency
        clock = starts + longer * seconds
        if stretch.work:
            yield stretch, starts, clock
