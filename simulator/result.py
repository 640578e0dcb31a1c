"""What a simulated step cost, and why: metrics, frames, pictures, traces and comparisons."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator import summary
from simulator.allocator import reserved
from simulator.demand import unmeasured
from simulator.host_copies import fullest_host
from simulator.placements import Placed, places
from simulator.remedies import Remedy, nearest
from simulator.timeline import Timeline, per_rank
from topologies import Topology
from workloads.footprint import Footprint, Items, by_row
from workloads.program import Program

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """One simulated step. Times in seconds, memory in bytes; scalars are means over ranks, memory the maximum.

    `step` is what was simulated; `timings` says how long the simulator took for each of its own parts.
    """

    step: object
    timeline: Timeline
    timings: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return summary.text(self)

    def __repr__(self) -> str:
        return f"<Result {self.title}: {summary.seconds(self.step_time)}>"

    def _repr_html_(self) -> str:
        return summary.html(self)

    @property
    def title(self) -> str:
        """What was simulated, on what."""
        return f"{self.step} on {self.topology.name}"

    @property
    def program(self) -> Program:
        """The program that was replayed."""
        return self.timeline.quotient.program

    @property
    def topology(self) -> Topology:
        """The cluster that it was replayed on."""
        return self.timeline.quotient.topology.bare

    @property
    def step_time(self) -> float:
        """From the step's start to the end of its last op, seconds."""
        return self.timeline.end

    @property
    def tokens_per_second(self) -> float:
        """Tokens of the whole job per second."""
        return self.program.tokens / self.step_time if self.step_time else 0.0

    @property
    def mfu(self) -> float:
        """Model FLOPs, counted by the program's convention, over what the accelerators' dense peaks allow."""
        return self.program.model_flops / self._possible_flops

    @property
    def hfu(self) -> float:
        """As `mfu`, with the FLOPs of explicit recomputation."""
        return (self.program.model_flops + self.program.recompute_flops) / self._possible_flops

    @property
    def flops_per_accelerator(self) -> float:
        """Model FLOP/s of one accelerator, the mean."""
        return self.program.model_flops / self.topology.size / self.step_time if self.step_time else 0.0

    @cached_property
    def mean_seconds(self) -> Mapping[str, float]:
        """Seconds by what they went into, means over all ranks; they add up to the step time."""
        ranks = [rank_class.ranks for rank_class in self.timeline.quotient.rank_classes]
        return {
            name: sum(value * count for value, count in zip(values, ranks, strict=True)) / sum(ranks)
            for name, values in per_rank(self.timeline).items()
        }

    @property
    def figures(self) -> dict[str, float | bool]:
        """The figures by which results are compared, units in their names."""
        return {
            "step_time_seconds": self.step_time,
            "tokens_per_second": self.tokens_per_second,
            "mfu": self.mfu,
            "hfu": self.hfu,
            "bubble_fraction": self.bubble_fraction,
            "peak_memory_bytes": self.peak_memory,
            "reserved_memory_bytes": self.reserved_memory,
            "memory_fits": self.memory_fits,
            **self.mean_seconds,
        }

    @property
    def bubble_fraction(self) -> float:
        """Bubble as a fraction of the ranks' time in the pipeline phase."""
        begins, ends = self.timeline.phase
        return self.mean_seconds["bubble_seconds"] / (ends - begins) if ends > begins else 0.0

    @property
    def exposed(self) -> Mapping[str, float]:
        """Exposed communication by axis, seconds."""
        parts = {name: value for name, value in self.mean_seconds.items() if name.startswith("exposed_")}
        return {name.removeprefix("exposed_").removesuffix("_seconds"): value for name, value in parts.items()}

    @cached_property
    def memory_items(self) -> tuple[Items, ...]:
        """Bytes of all items at the peak, for the representative of each rank class."""
        program = self.program
        peaks = {place: each.peak(program.orders[place]) for place, each in program.memory.items()}
        return tuple(peaks.get(place, {}) for place in self.memory_places)

    @cached_property
    def memory(self) -> tuple[Mapping[str, float], ...]:
        """Bytes in named rows at the peak, for the representative of each rank class."""
        return tuple(map(by_row, self.memory_items))

    @cached_property
    def reserved(self) -> tuple[float, ...]:
        """Bytes that the caching allocator reserves, for the representative of each rank class."""
        return tuple(map(reserved, self._footprints, self.memory_items))

    @cached_property
    def memory_places(self) -> tuple[tuple[int, ...], ...]:
        """Where the representative of each rank class stands in the program's `memory` and `orders`."""
        places = [self.program.mesh.coordinates(each.rank) for each in self.timeline.quotient.rank_classes]
        return tuple(tuple(place.get(axis, 0) for axis in self.program.varies) for place in places)

    @property
    def peak_memory(self) -> float:
        """Bytes that the fullest rank allocates."""
        return sum(self.memory_rows.values())

    @property
    def memory_rows(self) -> Mapping[str, float]:
        """Bytes of the fullest rank in named rows, at its peak."""
        return max(self.memory, key=lambda sizes: sum(sizes.values()))

    @property
    def reserved_memory(self) -> float:
        """Bytes that the caching allocator reserves at the peak of the fullest rank: see `simulator.allocator`."""
        return max(self.reserved)

    @cached_property
    def offloaded_memory(self) -> float:
        """Bytes of model states at the fullest host; 0 without offload. Whether a host has so much is not checked."""
        sizes = np.array([sum(each.offloaded.values()) for each in self._footprints])
        classes = self.timeline.quotient.partition.ranks
        return fullest_host(sizes[classes], self.topology) if sizes.any() else 0.0

    @property
    def memory_fits(self) -> bool:
        """Whether every rank's memory suffices for what its allocator reserves."""
        return all(size <= usable for size, usable in zip(self.reserved, self.usable_memory, strict=True))

    @cached_property
    def remedy(self) -> Remedy | None:
        """The nearest change of the step with which memory suffices; None if it does, or nobody knows one."""
        return None if self.memory_fits else nearest(self.step, min(self.usable_memory))

    @property
    def usable_memory(self) -> tuple[float, ...]:
        """Bytes that software can use on the representative of each rank class."""
        return tuple(rank_class.accelerator.usable_memory_bytes for rank_class in self.timeline.quotient.rank_classes)

    @property
    def rank_classes(self) -> int:
        """Classes of ranks with equal timelines, each simulated once."""
        return len(self.timeline.quotient.rank_classes)

    @property
    def coordinates(self) -> Mapping[int, Mapping[str, int]]:
        """Mesh coordinates of the representative of each rank class."""
        return {
            rank_class.rank: self.program.mesh.coordinates(rank_class.rank)
            for rank_class in self.timeline.quotient.rank_classes
        }

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know: about the plan, and which options and degraded links make no difference."""
        return (
            *self.program.warnings,
            *self.topology.warnings,
            *unmeasured(self.timeline.quotient.topology),
            *self._idle_degradations(),
            *self._idle_algorithms(),
        )

    @cached_property
    def places(self) -> tuple[Placed, ...]:
        """Which level of the cluster the groups of each axis cross."""
        return places(self.program.mesh, self.topology)

    @property
    def placement(self) -> "pandas.DataFrame":
        """Which level of the cluster the groups of each axis cross, as a frame: see `simulator.placement`."""
        return self.to_frame("placement")

    def to_frame(self, name: str, *, expand: bool = False) -> "pandas.DataFrame":
        """A pandas frame, one of `simulator.frames.FRAMES`: spans, actions, ranks, memory, memory_timeline and so on.

        Rows stand for the representatives of rank classes (`ranks_in_class`); `expand=True` gives every rank.
        """
        from simulator import frames

        return frames.build(name, self, expand=expand)

    def plot(self, name: str = "gantt", ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Draw a picture by name and return its axes."""
        from simulator import plots

        return plots.draw(name, self, ax, **options)

    def save_trace(self, path: str) -> None:
        """Write a Chrome / Perfetto trace, gzipped if the path ends in .gz."""
        from simulator import trace

        trace.save(self, path)

    def compare(self, *others: "Result") -> "pandas.DataFrame":
        """The result and others side by side, one row each, with step time relative to its own."""
        from simulator import frames

        return frames.compare([self, *others])

    @property
    def _footprints(self) -> list[Footprint]:
        """What there is to know of memory, for the representative of each rank class."""
        return [self.program.memory.get(place, Footprint({})) for place in self.memory_places]

    @cached_property
    def _possible_flops(self) -> float:
        """FLOPs of all accelerators at their dense peak during the step."""
        if not self.program.model_flops:
            return 1.0
        accelerators = self.topology.accelerators
        peaks = {each: each.peak(self.program.precision) for each in dict.fromkeys(accelerators)}
        return self.step_time * sum(peaks[each] * accelerators.count(each) for each in peaks)

    def _idle_algorithms(self) -> Iterator[str]:
        """Algorithms that were named and never used."""
        used = {
            (transfer.payload.kind, transfer.algorithm)
            for communicator in self.timeline.quotient.communicators
            for transfer in communicator.transfers.values()
        }
        for kind, algorithm in self.timeline.quotient.algorithms.items():
            if algorithm != "auto" and (kind, algorithm) not in used:
                fits = any(known == kind for known, _ in used)
                why = "fits no group" if fits else "there is none in this step"
                yield f"algorithm {kind}={algorithm} has no effect: {why}"

    def _idle_degradations(self) -> Iterator[str]:
        """A line for each degraded link that nothing crosses."""
        weak = {edge for edge, factor in self.topology.link_factors.items() if factor < 1}
        if not weak:
            return
        carried, quotient = self.timeline.link_bytes, self.timeline.quotient
        place = {edge: link for link, edge in enumerate(quotient.topology.links.ends) if edge in weak}
        for edge in sorted(weak, key=lambda edge: place.get(edge, len(quotient.partition.links))):
            if edge not in place or not carried[quotient.partition.links[place[edge]]]:
                yield f"{edge[0]}->{edge[1]} is degraded, but nothing crosses it in this run"
