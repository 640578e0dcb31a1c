"""What a step asks of every rank: blocks of ops, built once, and the order in which ranks replay them."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from workloads.footprint import Footprint
from workloads.mesh import DeviceMesh
from workloads.ops import Compute, Op


class BlockKey(NamedTuple):
    """Names a block: the ops of one kind of action on one stage, or of an overlapped pair of two.

    `kind` is F, B, I, W, open or optimizer; `variant` is first, middle, last or only; `beside` names
    what a pair does as well.
    """

    stage: int
    kind: str
    variant: str = "only"
    beside: "BlockKey | None" = None


class Replay(NamedTuple):
    """One entry of a rank's order: a block, for one microbatch, and `beside` that of what a pair does as well."""

    block: BlockKey
    microbatch: int
    beside: int = -1

    @property
    def parts(self) -> "tuple[Replay, ...]":
        """Itself, or the two parts of a pair, the first one first.

        >>> pair = Replay(BlockKey(3, "F", beside=BlockKey(4, "B")), 7, 2)
        >>> [(each.block.stage, each.block.kind, each.microbatch) for each in pair.parts]
        [(3, 'F', 7), (4, 'B', 2)]
        """
        other = self.block.beside
        if other is None:
            return (self,)
        return Replay(self.block._replace(beside=None), self.microbatch), Replay(other, self.beside)


@dataclass(frozen=True, slots=True)
class Block:
    """The ops of one action on one stage, in program order; `beside` are those of a pair's second action, by name."""

    ops: tuple[Op, ...]
    beside: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        names = [op.name for op in self.ops]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"a block names two ops {twice!r}; names are unique within a block")


@dataclass(frozen=True, slots=True)
class Program:
    """The ops of one step for every rank of a mesh, with ranks of equal work sharing one order.

    `orders` maps the coordinates on the axes `varies` to what such a rank replays, in program order.
    `model_flops`, counted by `convention`, and `recompute_flops` are totals over all ranks, of `precision`;
    `memory` says what a rank's memory holds, keyed like `orders`. `stack` names the software whose kernels run;
    `graphs`: whether the step is replayed from CUDA graphs, so that the host launches nothing.
    """

    mesh: DeviceMesh
    blocks: Mapping[BlockKey, Block]
    orders: Mapping[tuple[int, ...], tuple[Replay, ...]]
    varies: tuple[str, ...] = ("pp",)
    model_flops: float = 0.0
    recompute_flops: float = 0.0
    precision: str = "bf16"
    convention: str = "causal"
    tokens: int = 0
    memory: Mapping[tuple[int, ...], Footprint] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    stack: str = ""
    graphs: bool = False
    cache: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        missing = {replay.block for order in self.orders.values() for replay in order} - set(self.blocks)
        if missing:
            raise ValueError(f"an order replays {min(missing)}, which is no block of the program")

    @classmethod
    def of(
        cls, mesh: DeviceMesh, ops: Mapping[tuple[int, ...], Sequence[Op]], varies: tuple[str, ...] = ("pp",)
    ) -> Self:
        """A hand-made program: one block for each place on the axes `varies`.

        >>> from workloads.ops import Compute
        >>> gemm = Compute(name="gemm", kind="gemm", flops=1e12)
        >>> list(Program.of(DeviceMesh({"pp": 1, "tp": 2}), {(0,): [gemm]}).blocks)
        [BlockKey(stage=0, kind='F', variant='only', beside=None)]
        """
        blocks = {BlockKey(index, "F"): Block(tuple(each)) for index, each in enumerate(ops.values())}
        orders = {place: (Replay(key, 0),) for place, key in zip(ops, blocks, strict=True)}
        return cls(mesh, blocks, orders, varies)

    def __str__(self) -> str:
        return f"program of {self.mesh.size} ranks"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, each.name) for each in dataclasses.fields(self) if each.name != "cache")

    def emitted_flops(self) -> tuple[float, float]:
        """Model FLOPs and repeated FLOPs of all kernels of all ranks, attention as its mask leaves it.

        With the convention `causal` these are `model_flops` and `recompute_flops`.
        """
        each = {
            key: [
                sum(op.flops for op in block.ops if isinstance(op, Compute) and op.recompute == again)
                for again in (False, True)
            ]
            for key, block in self.blocks.items()
        }
        places = self.mesh.size // len(self.orders)
        useful, repeated = (
            sum(each[replay.block][part] for order in self.orders.values() for replay in order) for part in (0, 1)
        )
        return places * useful, places * repeated

    def program(self) -> Self:
        """Itself: whatever has `program()` simulates."""
        return self
