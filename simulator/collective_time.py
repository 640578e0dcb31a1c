"""One collective by itself: how long it takes, and the bandwidths that benchmarks derive from that."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

import topologies
from simulator import collectives
from simulator.activity import Activity
from simulator.demand import Ints, unmeasured
from simulator.summary import seconds as as_time
from topologies import Topology
from topologies.plugins import unknown
from topologies.units import GIGA
from workloads.ops import Collective

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CollectiveTime:
    """A collective of `bytes` (one rank's whole buffer, as nccl-tests counts it) among ranks, and its activity."""

    kind: str
    bytes: float
    ranks: Ints
    topology: Topology
    activity: Activity

    @property
    def algorithm(self) -> str:
        """The algorithm, chosen or given."""
        return self.activity.algorithm

    @property
    def seconds(self) -> float:
        """From the call to the end on every rank, when nothing else uses the links."""
        return float(self.activity.seconds(self.topology)[0])

    @property
    def algbw(self) -> float:
        """Bytes over time, bytes/s."""
        return self.bytes / self.seconds if self.seconds else float("inf")

    @property
    def busbw(self) -> float:
        """What would cross the busiest link of an ideal ring in that time, bytes/s, as nccl-tests defines it."""
        return self.algbw * collectives.bus_factor(self.kind, len(self.ranks))

    @property
    def title(self) -> str:
        """What it is."""
        return f"{self.kind} among {len(self.ranks)} ranks of {self.topology.name}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know: options and degraded links that change nothing, links taken as ideal."""
        crossed = {self.topology.links.ends[link] for phase in self.activity.phases for link in phase.link.tolist()}
        idle = [edge for edge, factor in self.topology.link_factors.items() if factor < 1 and edge not in crossed]
        return (
            *self.topology.warnings,
            *unmeasured(self.topology),
            *(f"{source}->{destination} is degraded, but nothing crosses it" for source, destination in idle),
        )

    def __str__(self) -> str:
        rows = {
            "time": as_time(self.seconds),
            "bus bandwidth": f"{self.busbw / GIGA:.4g} GB/s",
            "bandwidth": f"{self.algbw / GIGA:.4g} GB/s",
            "algorithm": self.algorithm,
        }
        lines = [f"  {name:<13}  {value}" for name, value in [*rows.items(), *(("warning", w) for w in self.warnings)]]
        return "\n".join([f"{self.title}, {self.bytes:,.0f} bytes", *lines])

    def __repr__(self) -> str:
        return (
            f"<{self.title}: {self.bytes:g} bytes in {as_time(self.seconds)} by {self.algorithm}, "
            f"bus bandwidth {self.busbw / GIGA:.4g} GB/s>"
        )

    def plot(self, name: str = "collective_curve", ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Draw a picture by name and return its axes."""
        from simulator import plots

        return plots.draw(name, self, ax, **options)


def time_collective(
    kind: str, *, bytes: float, ranks: Iterable[int], topology: Topology | str, algorithm: str = collectives.AUTO
) -> CollectiveTime:
    """How long one collective takes that has its links to itself.

    `bytes` is one rank's whole buffer (all-gather output, reduce-scatter input). `auto` takes the algorithm that is
    fastest, among those that libraries consider.

    >>> done = time_collective("all_reduce", bytes=100e6, ranks=range(8), topology="flat,ranks=8,latency=0")
    >>> done.algorithm, round(done.seconds * 1e3, 3), round(done.busbw / 1e9, 3)
    ('ring', 3.5, 50.0)
    """
    [done] = collective_curve(kind, sizes=[bytes], ranks=ranks, topology=topology, algorithm=algorithm)
    return done


def collective_curve(
    kind: str,
    *,
    sizes: Sequence[float],
    ranks: Iterable[int],
    topology: Topology | str,
    algorithm: str = collectives.AUTO,
) -> list[CollectiveTime]:
    """`time_collective` for many sizes, in their order: routes and loads are found once."""
    topology = topologies.build(topology) if isinstance(topology, str) else topology
    if not isinstance(topology, Topology):
        raise ValueError(f"topology={topology!r} is neither a Topology nor the text that builds one")  # noqa: TRY004
    if kind not in collectives.KINDS:
        raise ValueError(unknown("kind of collective", kind, collectives.KINDS))
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, Real) or not 0 < size < float("inf"):
            raise ValueError(f"bytes={size}: a collective moves more than 0 bytes, and finitely many")
    members = _members(kind, ranks, topology)
    op = Collective(name=kind, stream="", kind=kind, axes=("ranks",), bytes=float(sizes[0]))
    activities = collectives.considered(op, members[None], topology, algorithm)
    curve = []
    for size in sizes:
        scaled = [each.scaled(size / sizes[0], topology) for each in activities] if size != sizes[0] else activities
        fastest = min(scaled, key=lambda each: float(each.seconds(topology)[0]))
        curve.append(CollectiveTime(kind, float(size), members, topology, fastest))
    return curve


def _members(kind: str, ranks: Iterable[int], topology: Topology) -> Ints:
    """The ranks, if they are two or more different ones of the topology."""
    if not isinstance(ranks, Iterable):
        raise ValueError(  # noqa: TRY004
            f"ranks={ranks!r}: a collective takes several, such as range(8)"
        )
    members = topology.ranks(list(ranks))
    if len(members) < 2:
        raise ValueError(f"{kind} among {len(members)} ranks; a collective takes 2 or more")
    if len(np.unique(members)) < len(members):
        twice = next(rank for rank in members.tolist() if (members == rank).sum() > 1)
        raise ValueError(f"rank {twice} takes part twice in the {kind} among {len(members)} ranks")
    return members
