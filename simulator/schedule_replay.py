"""A pipeline schedule by itself, replayed with given times on the engine that simulates whole steps."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import topologies
from simulator.compute import FlopsAreSeconds
from simulator.replay import ReplayOptions
from simulator.result import Result
from simulator.simulation import run
from topologies.plugins import unknown
from workloads.lowering.timed import TimedSchedule
from workloads.ops import P2P_MODES
from workloads.schedule import peak_in_flight

if TYPE_CHECKING:
    from workloads.schedule import Schedule


FLOPS_ARE_SECONDS = FlopsAreSeconds()
SHORTEST, LONGEST = 1e-12, 1e12
RELEASES = ("I", "W")


class ScheduleResult(Result):
    """A replayed schedule: its figures are defined on actions, not on ranks' whole time."""

    @property
    def title(self) -> str:
        """The schedule and its size."""
        return str(self.step)

    @property
    def release(self) -> str:
        """The part of a backward in two parts with which a microbatch is no longer in flight, I or W."""
        assert isinstance(self.step, TimedSchedule)
        return self.step.release

    @property
    def makespan(self) -> float:
        """From the first start to the last end."""
        return self.timeline.end

    @property
    def span(self) -> float:
        """The longest time from a rank's own first start to its own last end."""
        return max(account.ends - account.begins for account in self.timeline.accounts)

    @property
    def steady_period(self) -> float:
        """Seconds from one microbatch to the next once the pipeline is full, on its first stage.

        That is what a stream without a flush goes on at. NaN with fewer microbatches than twice the ranks and one more,
        which never fill the pipeline for a whole round.
        """
        ranks, actions = len(self.timeline.accounts), self.to_frame("actions")
        done = actions[(actions["stage"] == 0) & actions["action"].isin(["B", "I"])].sort_values("microbatch")
        ends = done["end_seconds"].to_numpy()
        rounds = (len(ends) - ranks - 1) // ranks
        first = len(ends) - 1 - ranks * (rounds + 1) if rounds > 0 else 0
        return float((ends[first + rounds * ranks] - ends[first]) / (rounds * ranks)) if rounds > 0 else math.nan

    @property
    def bubble_fraction(self) -> float:
        """Share of all ranks' time, over the makespan, in which they do not compute."""
        return 1.0 - self._busy / (len(self.timeline.accounts) * self.makespan)

    @property
    def bubble_ratio(self) -> float:
        """Time in which ranks do not compute over time in which they do."""
        return len(self.timeline.accounts) * self.makespan / self._busy - 1.0

    @property
    def peak_in_flight(self) -> tuple[int, ...]:
        """The most microbatches, counted in stages, that each rank holds: from F to the end of B or `release`."""
        assert isinstance(self.step, TimedSchedule)
        ones = [1.0] * self.step.schedule.stages
        orders = self.step.schedule.orders
        return tuple(int(peak_in_flight(orders[rank], ones, self.step.release)) for rank in sorted(orders))

    @property
    def _busy(self) -> float:
        return sum(account.compute for account in self.timeline.accounts)


def replay_schedule(  # noqa: PLR0913 (one argument for each quantity of the replay)
    schedule: "Schedule",
    forward: float = 1.0,
    backward_input: float = 1.0,
    backward_weight: float = 1.0,
    hop: float = 0.0,
    *,
    mode: str = "latency",
    pair_factor: float = 1.0,
    stage_factors: Sequence[float] | None = None,
    release: str = "W",
) -> ScheduleResult:
    """Replay a pipeline schedule with given times.

    Times are for one microbatch on all of a rank's virtual stages together: a stage takes time / virtual,
    times its entry in `stage_factors`; DualPipe's two stages of a rank, each with half of the microbatches, the whole
    time. A whole backward takes `backward_input + backward_weight`, an overlapped pair
    `pair_factor` times its two actions. `hop` is the time of a message between ranks, and `mode` says who is held
    meanwhile: `latency` (nobody), `send_block` (the sender), `recv_block` (the receiver, from when it waits) or
    `blocking` (both, until both are there and the message is; few schedules can run so).
    `release` says with which part of a backward in two parts a microbatch is no longer in flight, I or W. That changes
    the peak in flight, not the times.

    >>> from workloads import schedules
    >>> result = replay_schedule(schedules.build("one_f_one_b", stages=4, microbatches=8))
    >>> result.makespan, round(result.bubble_fraction, 4), result.peak_in_flight
    (33.0, 0.2727, (4, 3, 2, 1))
    """
    _check_times(forward=forward, backward_input=backward_input, backward_weight=backward_weight, hop=hop)
    _check_times(pair_factor=pair_factor)
    if mode not in P2P_MODES:
        raise ValueError(unknown("mode", mode, P2P_MODES))
    backward = backward_input + backward_weight
    if not forward + backward:
        raise ValueError("forward=0, backward_input=0 and backward_weight=0; one of them must be above 0")
    if release not in RELEASES:
        raise ValueError(unknown("release", release, RELEASES))
    times = {"F": forward, "B": backward, "I": backward_input, "W": backward_weight}
    step = TimedSchedule(schedule, times, tuple(stage_factors or ()), mode, pair_factor, release)
    wires = topologies.build("flat", ranks=schedule.ranks, bandwidth=float("inf"), latency=hop / 2, accelerator="ideal")
    timeline, timings = run(step, wires, FLOPS_ARE_SECONDS, ReplayOptions(), fold=False)
    return ScheduleResult(step, timeline, timings)


def _check_times(**times: float) -> None:
    """Refuse what is no time, and what is so small or large that sums of it say nothing."""
    for name, value in times.items():
        if not (value == 0 or SHORTEST <= value <= LONGEST):
            raise ValueError(f"{name}={value:g}: a time is 0, or from {SHORTEST:g} to {LONGEST:g}")
