"""The ops of one action on one stage while they are being assembled, layer by layer."""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from workloads.layers import Layer, Task, forward
from workloads.microbatch import Microbatch
from workloads.ops import Compute, Op
from workloads.recompute import Recompute
from workloads.transpose import backward

PARTS = {"F": (), "B": ("again", "input", "weight"), "I": ("again", "input"), "W": ("weight",)}
"""Parts of a layer's tasks that belong to an action; those of a forward pass always do."""
SILENT = ("weight", "again")
"""Parts whose output no neighbouring layer uses."""
RECV = "recv"
NOTHING = Recompute()


@dataclass(frozen=True, slots=True)
class Gradient:
    """Parameters whose gradient is ready once the op `ready` has ended."""

    ready: str
    parameters: float


@dataclass(slots=True)
class Unit:
    """One layer in a draft: its ops in program order, and what strategies need to know of them.

    It reads the parameters `used`: its own and those that it shares with another unit; GEMMs multiply `narrow` ones of
    them in a narrow format. `user` is the first op that reads any. `gradients` come in the order of being ready.
    """

    name: str
    parameters: float
    used: float
    narrow: float
    ops: list[Op] = field(default_factory=list)
    gradients: list[Gradient] = field(default_factory=list)
    user: str = ""

    def wait(self, name: str, needed: str) -> None:
        """Let the op `name` of this unit wait for another op as well."""
        index = self.place(name)
        self.ops[index] = waiting(self.ops[index], (needed,))

    def place(self, name: str) -> int:
        """The index of an op of this unit."""
        return next(index for index, op in enumerate(self.ops) if op.name == name)

    def last_compute(self) -> str:
        """The last op of this unit in the compute stream; empty if it has none."""
        return next((op.name for op in reversed(self.ops) if op.stream == "compute"), "")


@dataclass(slots=True)
class Draft:
    """The ops of one action: `kind` F, B, I or W, for the first, a middle, the last or the only microbatch.

    An op waits for the data it uses where that comes from another stream. A collective is launched after the
    latest compute op before it, as NCCL in PyTorch waits for the current stream.
    """

    kind: str
    variant: str
    microbatch: Microbatch
    receives: bool = False
    units: list[Unit] = field(default_factory=list)
    flow: str = ""
    latest: str = ""
    streams: dict[str, str] = field(default_factory=dict)
    awaited: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.receives:
            self.flow = self.latest = RECV
            self.streams[RECV] = "compute"

    @property
    def is_first(self) -> bool:
        """Whether this is its stage's first microbatch of the step."""
        return self.variant in ("first", "only")

    @property
    def is_last(self) -> bool:
        """Whether this is its stage's last microbatch of the step."""
        return self.variant in ("last", "only")

    @property
    def completes_gradients(self) -> bool:
        """Whether weight gradients are final after this action, for this microbatch."""
        return self.kind in ("B", "W")

    def assemble(self, layers: Iterable[Layer], *, recompute: Recompute = NOTHING, pruned: bool = False) -> None:
        """Lay down a stage's layers in the order this action visits them; see `Stack.pruned_recompute`."""
        named = list(_named(layers))
        if self.kind == "F":
            for name, layer in named:
                self._lay(self._unit(name, layer), f"{name}.", forward(layer, self.microbatch))
            return
        repeated = _repeated(named, recompute) if self.kind in ("B", "I") else {}
        for name, layer in reversed(named):
            group = repeated.get(name, [])
            for each, before in group if len(group) > 1 else ():
                self._repeat(self._unit(f"recompute.{each}", before), each, before)
            unit = self._unit(name, layer)
            if len(group) == 1:
                again = group[0][1]
                self._repeat(unit, name, again.pruned() if pruned and again.kind == "layer" else again)
            self._lay(unit, f"{name}.", backward(layer, self.microbatch, recompute.targets))

    def _unit(self, name: str, layer: Layer) -> Unit:
        """A new unit, the latest."""
        self.units.append(Unit(name, layer.parameters, layer.used, layer.narrow_weights))
        return self.units[-1]

    def _repeat(self, unit: Unit, name: str, layer: Layer) -> None:
        """The forward of a layer once more; the gradient passes it by."""
        gradient, self.flow = self.flow, ""
        tasks = [task._replace(op=_recomputed(task.op)) for task in forward(layer, self.microbatch)]
        self._lay(unit, f"recompute.{name}.", tasks)
        self.flow = gradient

    def ops(self) -> Iterator[Op]:
        """Every op in program order."""
        return (op for unit in self.units for op in unit.ops)

    def _lay(self, unit: Unit, prefix: str, tasks: Iterable[Task]) -> None:
        """Append tasks to a unit, and pass on the output of the last one that has one.

        Gradients that an I before this W has completed count from this W on.
        """
        start, output, completed = self.flow, self.flow, 0.0
        for task in tasks:
            completed += task.completes
            if task.part not in (*PARTS[self.kind], "forward"):
                continue
            name = prefix + task.op.name
            data = (prefix + needed if needed else start for needed in task.data)
            unit.ops.append(self._placed(task.op, name, data))
            if task.part not in SILENT:
                output = name
            if task.uses and not unit.user:
                unit.user = name
            if completed and self.completes_gradients:
                unit.gradients.append(Gradient(name, completed))
                completed = 0.0
        if completed and self.completes_gradients:
            unit.gradients.append(Gradient(unit.ops[-1].name, completed))
        self.flow = output

    def _placed(self, op: Op, name: str, data: Iterable[str]) -> Op:
        """The op under its full name, with the waits that its stream does not give it anyway."""
        after = [needed for needed in data if self.streams.get(needed, op.stream) != op.stream]
        if op.stream == "compute":
            self.latest = name
        elif self.latest:
            after.append(self.latest)
        self.streams[name] = op.stream
        new = tuple(needed for needed in dict.fromkeys(after) if (op.stream, needed) not in self.awaited)
        self.awaited.update((op.stream, needed) for needed in new)
        return dataclasses.replace(op, name=name, after=new)


def waiting(op: Op, names: tuple[str, ...]) -> Op:
    """The same op, waiting for more."""
    return dataclasses.replace(op, after=(*op.after, *(name for name in names if name not in op.after)))


def _recomputed(op: Op) -> Op:
    """An op of a forward pass that is repeated."""
    return dataclasses.replace(op, recompute=True) if isinstance(op, Compute) else op


def _repeated(named: list[tuple[str, Layer]], recompute: Recompute) -> dict[str, list[tuple[str, Layer]]]:
    """What is computed again right before a layer's backward, by its name: the whole group that it ends."""
    layers = [(name, layer) for name, layer in named if layer.kind == "layer"]
    groups = [[layers[index] for index in group] for group in recompute.groups(len(layers))]
    heads = [[(name, layer)] for name, layer in named if layer.kind == "head" and recompute.head]
    return {group[-1][0]: group for group in (*groups, *heads)}


def _named(layers: Iterable[Layer]) -> Iterator[tuple[str, Layer]]:
    """Layers numbered within their stage, so that equal stages have equal ops; embedding and head by their kind."""
    number = 0
    for layer in layers:
        yield (f"layer{number}" if layer.kind == "layer" else layer.kind), layer
        number += layer.kind == "layer"
