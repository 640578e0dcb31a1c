"""Random clusters and random programs on them, for the laws that every replay keeps."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import strategies as some

import topologies
from simulator.blocks import ReadyOp
from simulator.compute import ComputeModel, Roofline
from simulator.deadlock import DeadlockError
from simulator.quotient import Quotient, quotient
from simulator.recording import Recording, RunRecord
from simulator.replay import ReplayOptions, replay, scripts
from simulator.script import Script
from simulator.timeline import shifted
from topologies import Topology
from topologies.hosts import Hosts
from workloads.mesh import DeviceMesh
from workloads.ops import P2P, Collective, Compute, HostCopy, Op
from workloads.program import Block, BlockKey, Program, Replay

MODES = ("latency", "send_block", "recv_block", "blocking")
Spans = dict[tuple[int, int], tuple[float, float, float]]


@dataclass(frozen=True)
class Played:
    """A replay that came to its end: what each node did, with runs opened into their ops."""

    quotient: Quotient
    scripts: list[Script]
    recordings: list[Recording]

    def spans(self, rank: int) -> Spans:
        """Start, transfer start and end of every op of a rank, by (position, place in the block)."""
        rank_class = int(self.quotient.partition.ranks[rank])
        spans: Spans = {}
        for record in self.recordings[rank_class].records:
            if isinstance(record, RunRecord):
                times = zip(*(each.tolist() for each in shifted(record, self.scripts[rank_class])), strict=True)
                places = [(record.position, ready.place) for ready in record.run.ops]
                spans.update(zip(places, times, strict=True))
            else:
                spans[record.position, record.ready.place] = (record.start, record.began, record.end)
        return spans

    @property
    def end(self) -> float:
        """When the last op of all ends."""
        return max(end for rank in range(self.quotient.topology.size) for *_, end in self.spans(rank).values())

    def bytes_on_links(self) -> np.ndarray:
        """Bytes that every link of the topology carried."""
        carried = np.zeros(len(self.quotient.capacities))
        for number, communicator in enumerate(self.quotient.communicators):
            rank_class, slot, role = min(communicator.senders or communicator.members, key=repr)
            calls = Counter(ready.address.payload for ready in self._calls(rank_class) if ready.address.slot == slot)
            assert any(
                part.communicator == number and part.role == role
                for part in self.quotient.rank_classes[rank_class].parts[slot]
            )
            for payload, count in calls.items():
                for stretch in communicator.transfers[payload].stretches:
                    for link, weights in stretch.loads.items():
                        carried[link] += count * stretch.work * sum(weight * times for weight, times in weights)
        return carried[self.quotient.partition.links]

    def _calls(self, rank_class: int) -> list[ReadyOp]:
        blocks, places = self.scripts[rank_class].blocks, self.spans(self.quotient.rank_classes[rank_class].rank)
        ops = (blocks[position].ops[place] for position, place in places)
        return [ready for ready in ops if ready.address is not None]


def play(
    program: Program,
    topology: Topology,
    *,
    fold: bool = True,
    compute: ComputeModel | None = None,
    launch: bool = False,
    algorithms: Mapping[str, str] = MappingProxyType({}),
    **options: Any,
) -> Played:
    """Replay a program; keywords beyond the named ones are those of ReplayOptions."""
    whole = quotient(program, topology, algorithms, fold=fold)
    written = scripts(whole, compute or Roofline(), launch=launch)
    return Played(whole, written, replay(whole, written, ReplayOptions(**options)))


def attempt(*arguments: Any, **options: Any) -> Played | None:
    """As `play`; None if it ends in a deadlock."""
    try:
        return play(*arguments, **options)
    except DeadlockError:
        return None


def same_spans(folded: Played, unfolded: Played, tolerance: float = 0.0) -> None:
    """Every rank's spans equal those of its class's representative."""
    for rank in range(folded.quotient.topology.size):
        mine, theirs = folded.spans(rank), unfolded.spans(rank)
        assert mine.keys() == theirs.keys()
        for place, times in mine.items():
            assert times == theirs[place] or times == pytest.approx(theirs[place], rel=tolerance, abs=0.0)


def check(program: Program, cluster: Topology, compute: ComputeModel | None = None, **options: Any) -> Played | None:
    """Replay folded and unfolded, compare everything, and return the folded replay; None if both deadlock."""
    folded, unfolded = (
        attempt(program, cluster, fold=fold, compute=compute, shortcuts=False, **options) for fold in (True, False)
    )
    assert (folded is None) == (unfolded is None)
    if folded is not None:
        same_spans(folded, unfolded)
        np.testing.assert_allclose(folded.bytes_on_links(), unfolded.bytes_on_links(), rtol=1e-12)
    return folded


def tree(ranks: int, host: int, rack: int, *, card: float = 50e9, oversubscription: float = 1.0) -> Topology:
    """H100 hosts of NVLink, a leaf switch for each host's cards, racks of leaves, a spine; made with networkx."""
    graph = nx.Graph()
    for rank in range(ranks):
        gpu, leaf, above = f"gpu{rank}", f"leaf{rank // host}", f"rack{rank // host // rack}"
        graph.add_node(gpu, device=True, host=rank // host)
        graph.add_edge(gpu, f"nvswitch{rank // host}", kind="nvlink", bandwidth=450e9, latency=3e-7)
        graph.add_edge(gpu, leaf, kind="roce", bandwidth=card, latency=2e-6)
        graph.add_edge(leaf, above, kind="fabric", bandwidth=host * card, latency=1e-6)
        graph.add_edge(above, "spine", kind="fabric", bandwidth=rack * host * card / oversubscription, latency=1e-6)
    return topologies.from_graph(graph, "tree")


@some.composite
def clusters(draw: some.DrawFn, ranks: int, *, hosts: bool = False) -> Topology:
    """A cluster of so many ranks, sometimes with a straggler, sometimes with a weak link.

    For programs that use `hosts` it may be of boxes or of two accelerators, and links to hosts may be weak, too.
    """
    whole_hosts = ["dgx_h100", "llama3_cluster"] if ranks % 8 == 0 else []
    whole_hosts += ["pcie_box"] if hosts and ranks % 4 == 0 else []
    family = draw(some.sampled_from(["flat", "tree", *whole_hosts]))
    if family == "flat":
        topology = topologies.build("flat", ranks=ranks, bandwidth=draw(some.sampled_from([50e9, 33e9])))
    elif family == "tree":
        host, rack, card = (draw(some.sampled_from(each)) for each in ([2, 3, 4, 8], [1, 2, 3], [50e9, 37e9]))
        topology = tree(ranks, host, rack, card=card, oversubscription=draw(some.sampled_from([1.0, 3.0, 7.0])))
    else:
        sizes = {
            "dgx_h100": {"nodes": ranks // 8},
            "llama3_cluster": {"gpus": ranks},
            "pcie_box": {"gpus": 4, "gpus_per_switch": 2, "nodes": ranks // 4},
        }
        topology = topologies.build(family, **sizes[family])
    for straggler in draw(some.lists(some.integers(0, ranks - 1), max_size=1)):
        topology = topology.degrade(rank=straggler, compute=0.8)
    if hosts:
        devices, rate = draw(some.sampled_from([None, None, 2, 3])), draw(some.sampled_from([12.5e9, 70e9]))
        topology = topology.replace(host=Hosts(nvme_write=rate, devices=devices))
        old = draw(some.sampled_from([0, 0, ranks // 2]))
        chips = (topologies.accelerators.build("a100_80gb"),) * old + topology.accelerators[old:]
        topology = topology.replace(accelerators=chips)
    ends = topology.with_hosts().links.ends if hosts else topology.links.ends
    for link in draw(some.lists(some.sampled_from(ends), max_size=1 + hosts)):
        topology = topology.degrade(link=link, bandwidth=0.5)
    return topology


@dataclass(frozen=True)
class Plan:
    """What a random program is made of; degrees and sizes, streams and modes."""

    mesh: DeviceMesh
    microbatches: int
    order: str
    modes: tuple[str, str]
    streams: dict[str, str]
    flops: float
    last_stage: float
    extra_on: int | None
    bytes: dict[str, float]
    sync_each: bool
    tail: frozenset[str]
    seed: int
    copies: frozenset[str] = frozenset()

    def program(self) -> Program:
        """The program: one order per stage, or per stage and data-parallel place where one has more to do."""
        stages, places = self.mesh.degree("pp"), self.mesh.degree("dp")
        varies = ("pp",) if self.extra_on is None else ("pp", "dp")
        blocks, orders = {}, {}
        for stage in range(stages):
            for place in range(places if self.extra_on is not None else 1):
                number = stage * places + place
                scale = (self.last_stage if stage == stages - 1 else 1.0) * (1.5 if place == self.extra_on else 1.0)
                for kind in "FB":
                    blocks[BlockKey(number, kind)] = Block(tuple(self._action(kind, stage, scale)))
                blocks[BlockKey(number, "optimizer")] = Block(tuple(self._tail(stage)))
                orders[(stage, place)[: len(varies)]] = self._order(number, stage)
        return Program(self.mesh, blocks, orders, varies)

    def _order(self, number: int, stage: int) -> tuple[Replay, ...]:
        count, warm = self.microbatches, min(self.mesh.degree("pp") - 1 - stage, self.microbatches)
        kinds = {
            "1f1b": "F" * warm + "FB" * (count - warm) + "B" * warm,
            "gpipe": "F" * count + "B" * count,
            "shuffled": "".join(np.random.default_rng([self.seed, stage]).permutation(list("FB" * count))),
        }[self.order]
        seen: Counter[str] = Counter()
        actions = []
        for kind in kinds:
            actions.append(Replay(BlockKey(number, kind), seen[kind]))
            seen[kind] += 1
        return (*actions, Replay(BlockKey(number, "optimizer"), 0))

    def _action(self, kind: str, stage: int, scale: float) -> list[Op]:
        """Receive, compute, reduce, shift along cp, compute, reduce, send; in B then the gradients' collective.

        Copies save activations in F, to memory or drives, and load them in B.
        """
        forward = kind == "F"
        last = self.mesh.degree("pp") - 1
        comes, goes = (stage > 0, stage < last) if forward else (stage < last, stage > 0)
        hop = {
            "axis": "pp",
            "offset": 1 if forward else -1,
            "tag": kind,
            "bytes": self.bytes["pp"],
            "mode": self.modes[not forward],
        }
        work = self.flops * scale * (1 if forward else 2)
        ops: list[Op] = []
        if comes:
            ops.append(P2P(name="in", kind="recv", stream=self.streams["pp"], **hop))
        ops += [_gemm("attention", work, *(["in"] if comes else [])), self._reduce("sum", "attention")]
        if self.mesh.degree("cp") > 1:
            ring = {"axis": "cp", "offset": 1, "tag": "ring", "bytes": self.bytes["cp"]}
            ops.append(P2P(name="ring", kind="shift", stream=self.streams["cp"], after=("attention",), **ring))
        ops += [
            _gemm("ffn", 1.7 * work, "sum", *(["ring"] if self.mesh.degree("cp") > 1 else [])),
            self._reduce("sum2", "ffn"),
        ]
        ops.append(_gemm("norm", 0.1 * work, "sum2"))
        if forward and "save" in self.copies:
            ops.append(self._copy("save", "to_host", "cpu", "host", "attention"))
        if forward and "spill" in self.copies and stage == last:
            ops.append(self._copy("spill", "to_host", "nvme", "host", "ffn"))
        if not forward and "load" in self.copies:
            ops.insert(0, self._copy("load", "from_host", "cpu", "host_in"))
            ops.append(_gemm("use", 0.1 * work, "load"))
        if not forward and self.sync_each:
            ops.append(self._gradients("grads", "dp", "ffn"))
        if goes:
            ops.append(P2P(name="out", kind="send", stream=self.streams["pp"], after=("norm",), **hop))
        return ops

    def _tail(self, stage: int) -> list[Op]:
        """What follows the last action: gradients over one or two streams, tied weights, a norm over all ranks."""
        ops: list[Op] = [self._gradients("grads_end", "dp", "ffn")]
        if "second" in self.tail:
            ops.append(self._gradients("grads_too", "dp_too", "norm"))
        if "tied" in self.tail and stage in (0, self.mesh.degree("pp") - 1):
            tied = {"kind": "all_reduce", "axes": ("pp",), "positions": (0, -1), "bytes": self.bytes["dp"] / 3}
            ops.append(Collective(name="tied", stream="tied", after=("grads_end",), **tied))
        if "norm" in self.tail:
            ops.append(Collective(name="all", stream="dp", kind="all_reduce", axes=tuple(self.mesh.axes), bytes=4.0))
        if "states" in self.copies:
            ops.append(self._copy("states", "from_host", "nvme", "host_in"))
        ops.append(_gemm("optimizer", 0.3 * self.flops, *(op.name for op in ops)))
        if "states" in self.copies:
            ops.append(self._copy("kept", "to_host", "nvme", "host", "optimizer"))
        return ops

    def _copy(self, name: str, kind: str, medium: str, stream: str, *after: str) -> Op:
        return HostCopy(name=name, kind=kind, medium=medium, stream=stream, bytes=self.bytes["host"], after=after)

    def _reduce(self, name: str, after: str) -> Op:
        return Collective(
            name=name,
            stream=self.streams["tp"],
            after=(after,),
            kind="all_reduce",
            axes=("tp",),
            bytes=self.bytes["tp"],
        )

    def _gradients(self, name: str, stream: str, after: str) -> Op:
        axes = ("dp", "cp") if "product" in self.tail else ("dp",)
        return Collective(
            name=name, stream=stream, after=(after,), kind="reduce_scatter", axes=axes, bytes=self.bytes["dp"]
        )


def _gemm(name: str, flops: float, *after: str) -> Op:
    return Compute(name=name, kind="gemm", flops=flops, shape=(1024, 1024, 1024), after=after)


@some.composite
def plans(
    draw: some.DrawFn,
    ranks: int = 64,
    orders: tuple[str, ...] = ("1f1b", "gpipe"),
    modes: tuple[str, ...] = MODES,
    copies: bool = False,
) -> Plan:
    """A random plan on at most so many ranks, with `copies` to and from hosts or without."""
    degrees = {"pp": [1, 2, 3, 4], "dp": [1, 2, 3, 4, 8], "cp": [1, 1, 2, 3], "tp": [1, 2, 4]}
    chosen: dict[str, int] = {}
    for axis, choices in degrees.items():
        room = ranks // int(np.prod(list(chosen.values()) or [1]))
        chosen[axis] = draw(some.sampled_from([degree for degree in choices if degree <= room]))
    own = {axis: draw(some.sampled_from(["compute", axis])) for axis in ("pp", "tp", "cp")}
    sizes = some.sampled_from([1e4, 1e6, 3e6, 7e6, 4e7, 1.1e8])
    return Plan(
        mesh=DeviceMesh(chosen),
        microbatches=draw(some.integers(1, 3)),
        order=draw(some.sampled_from(orders)),
        modes=(draw(some.sampled_from(modes)), draw(some.sampled_from(modes))),
        streams=own,
        flops=draw(some.sampled_from([1e8, 1e11, 3e11, 2e12])),
        last_stage=draw(some.sampled_from([1.0, 1.0, 1.3])),
        extra_on=draw(some.sampled_from([None, None, 0])),
        bytes={axis: draw(sizes) for axis in ("pp", "dp", "cp", "tp", *(["host"] if copies else []))},
        sync_each=draw(some.booleans()),
        tail=draw(some.frozensets(some.sampled_from(["second", "tied", "norm", "product"]))),
        seed=draw(some.integers(0, 999)),
        **_copies(draw) if copies else {},
    )


def _copies(draw: some.DrawFn) -> dict[str, Any]:
    return {"copies": draw(some.frozensets(some.sampled_from(["save", "spill", "load", "states"]), min_size=1))}


@some.composite
def systems(draw: some.DrawFn, **options: Any) -> tuple[Program, Topology]:
    """A random program, and a cluster for it."""
    plan = draw(plans(**options))
    return plan.program(), draw(clusters(plan.mesh.size, hosts=bool(plan.copies)))


__all__ = [
    "MODES",
    "Plan",
    "Played",
    "Spans",
    "attempt",
    "check",
    "clusters",
    "plans",
    "play",
    "same_spans",
    "systems",
    "tree",
]
