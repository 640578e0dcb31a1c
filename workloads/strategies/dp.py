"""Data parallelism: replicas reduce their gradients in buckets; `zero=1` shards the optimizer.

Sources: PyTorch DDP, arXiv:2006.15704; ZeRO, arXiv:1910.02054; bucket size: Megatron-core's documented
default of max(40e6, 1e6 x dp) elements; groups that shard: InternEvo's parallel.zero1, Megatron-core's
num_distributed_optimizer_instances, and MiCS, arXiv:2205.00119.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from workloads.checks import check_switch, is_number, is_whole, nearest_divisors
from workloads.microbatch import Microbatch
from workloads.ops import Collective, Op
from workloads.plugins import as_text, unknown
from workloads.strategy import Strategy

if TYPE_CHECKING:
    from workloads.lowering.draft import Draft
    from workloads.stack import Stack

MARK = "dp.gradients"
GROUP = "dp_shard"
"""The axis of the ranks of one group, where groups shard."""
GATHERS = ("all_gather", "broadcast")
SMALLEST_BUCKET = 40e6
BUCKET_PER_RANK = 1e6


@dataclass(frozen=True, slots=True)
class Data(Strategy):
    """`zero` 0 all-reduces gradients; 1 reduce-scatters them and gathers parameters as the next step opens.

    2 keeps no more than its share of the gradients either, and so has to scatter them in every microbatch.
    `bucket` is in bytes; with `overlap` off each stage is one bucket, reduced after the rank's last backward. What is
    None is as the stack does it.
    With zero=1, groups of `group` neighbouring ranks (option `shard`) may each have all states in shares: gradients are
    scattered in the group and their shares all-reduced between groups, parameters gathered in the group. `gather` says
    how: as one all_gather, or as a broadcast of every rank's share in turn, as InternEvo does; there a share is whole
    tensors, so that no more ranks than tensors have one. Assumes that a stage's parameters are gathered as one
    collective, or one for each share, from whichever rank as fast as from the first.
    """

    axis: ClassVar[str] = "dp"
    splits_batch: ClassVar[bool] = True
    weaves: ClassVar[int] = 2

    zero: int = 0
    bucket: float | None = None
    overlap: bool | None = None
    group: int | None = None
    gather: str | None = None

    def settled(self, stack: "Stack") -> Self:
        """Overlap and gathers as the stack has them, where they are left open; ZeRO-2 overlaps in any case."""
        overlap = self.zero == 2 or stack.overlap_gradients if self.overlap is None else self.overlap
        return replace(self, overlap=overlap, gather=self.gather or stack.gather)

    def options(self) -> Iterator[tuple[str, Any]]:
        """The size of a group is written as `shard`, whatever else a strategy calls so."""
        yield from (("shard" if key == "group" else key, value) for key, value in Strategy.options(self))

    @property
    def axes(self) -> dict[str, int]:
        """Groups outside, their ranks inside."""
        return {self.axis: self.degree} if self.group is None else {self.axis: self.degree // self.group, **self._group}

    @property
    def _group(self) -> dict[str, int]:
        """The axis over which states are sharded."""
        return {self.axis: self.degree} if self.group is None else {GROUP: self.group}

    def warnings(self) -> Iterator[str]:
        """Without overlap there are no buckets to size."""
        yield from Strategy.warnings(self)
        if self.degree > 1 and self.bucket is not None and self.overlap is False:
            yield f"dp={self.degree}: bucket={as_text(self.bucket)} changes nothing with overlap=off"

    @property
    def accumulates(self) -> bool:
        """ZeRO-2 reduces gradients in every microbatch."""
        return self.zero < 2

    @property
    def reduces_late(self) -> bool:
        """Without overlap."""
        return self.overlap is False

    @property
    def splits_gradients(self) -> tuple[str, ...]:
        """ZeRO-1 leaves each rank of a group its share; without it all have the same gradients."""
        return tuple(self._group) if self.zero else ()

    def share(self, state: str) -> float:
        """ZeRO-1 keeps a share of the optimizer's states, ZeRO-2 of the gradients too."""
        sharded = ((), ("optimizer",), ("optimizer", "gradients", "accumulated"))[self.zero]
        return 1 / (self.group or self.degree) if state in sharded else 1.0

    def unscattered(self, units: Sequence[Sequence[float]], microbatch: Microbatch) -> float:
        """Under ZeRO-2 the largest bucket."""
        if self.degree == 1 or self.zero < 2:
            return 0.0
        sizes = [size for unit in reversed(units) for size in unit]
        return max((filled for _, filled in _filled(sizes, self._limit(microbatch))), default=0.0)

    @property
    def fetches(self) -> bool:
        """Without ZeRO, which leaves shares for the next step to gather."""
        return self.zero == 0

    def weave(self, draft: "Draft") -> None:
        """Launch each bucket after the last gradient in it; what is left is complete after it."""
        from workloads.lowering.draft import Gradient

        due = draft.is_last or self.zero == 2
        if self.degree == 1 or not (self.overlap is not False and draft.completes_gradients and due):
            return
        share = 1 / (self.group or self.degree) if self.zero else 1.0
        buckets = list(_buckets(draft, self._limit(draft.microbatch)))
        for each in draft.units:
            each.gradients.clear()
        for number, (unit, ready, parameters) in enumerate(buckets, 1):
            name = MARK if number == len(buckets) else f"{MARK}.{number}"
            draft.units[unit].ops += self._reductions(name, (ready,), parameters, draft.microbatch)
            draft.units[unit].gradients.append(Gradient(name, parameters * share))

    def open(self, stage: int, parameters: float, tensors: int, microbatch: Microbatch) -> tuple[Op, ...]:
        """ZeRO-1 gathers the parameters that the previous step's optimizer left in shares."""
        if self.degree == 1 or not self.zero or not parameters:
            return ()
        ((axis, members),) = self._group.items()
        parts = min(members, tensors) if self.gather == "broadcast" else 1
        names = [f"parameters.{stage}.{number}" for number in range(1, parts)] + [f"parameters.{stage}"]
        return tuple(
            Collective(
                name=name,
                stream=axis,
                kind=self.gather or GATHERS[0],
                axes=(axis,),
                bytes=parameters * microbatch.element / parts,
                dtype=microbatch.dtype,
            )
            for name in names
        )

    @property
    def opens_ahead(self) -> bool:
        """Without overlap, nothing is computed before all parameters are there."""
        return self.overlap is not False

    def close(self, stages: Sequence[float], after: tuple[str, ...], microbatch: Microbatch) -> tuple[Op, ...]:
        """Without overlap, all reductions."""
        if self.degree == 1 or self.overlap is not False:
            return ()
        held = [parameters for parameters in stages if parameters]
        names = [f"{MARK}.{number}" for number in range(1, len(held))] + [MARK]
        return tuple(
            op
            for name, parameters in zip(names, held, strict=False)
            for op in self._reductions(name, after, parameters, microbatch)
        )

    def marks(self) -> tuple[str, ...]:
        """The last bucket: the stream is in order, so it covers the others."""
        return (MARK,) if self.degree > 1 else ()

    def _limit(self, microbatch: Microbatch) -> float:
        """Gradients in a bucket."""
        usual = max(SMALLEST_BUCKET, BUCKET_PER_RANK * self.degree)
        return usual if self.bucket is None else self.bucket / microbatch.reduced_bytes

    def _reductions(
        self, name: str, after: tuple[str, ...], parameters: float, microbatch: Microbatch
    ) -> tuple[Op, ...]:
        """The collective of one bucket; with groups, the scatter in the group and the sum of its shares over groups."""
        kind = "reduce_scatter" if self.zero else "all_reduce"
        if self.group is None:
            return (_reduction(name, kind, self.axis, after, parameters, microbatch),)
        scattered = f"{name}.scatter"
        return (
            _reduction(scattered, kind, GROUP, after, parameters, microbatch),
            _reduction(name, "all_reduce", self.axis, (scattered,), parameters / self.group, microbatch),
        )


def _reduction(  # noqa: PLR0917 (one argument for each thing that differs)
    name: str, kind: str, axis: str, after: tuple[str, ...], parameters: float, microbatch: Microbatch
) -> Op:
    """One collective over gradients."""
    return Collective(
        name=name,
        stream=axis,
        after=after,
        kind=kind,
        axes=(axis,),
        bytes=parameters * microbatch.reduced_bytes,
        dtype=microbatch.reduced_dtype,
    )


def _buckets(draft: "Draft", limit: float) -> Iterator[tuple[int, str, float]]:
    """Buckets in backward order: (unit, last gradient, parameters)."""
    found = [(number, gradient) for number, unit in enumerate(draft.units) for gradient in unit.gradients]
    for last, filled in _filled([gradient.parameters for _, gradient in found], limit):
        number, gradient = found[last]
        yield number, gradient.ready, filled


def _filled(sizes: Sequence[float], limit: float) -> Iterator[tuple[int, float]]:
    """Buckets as (index of the last gradient, size), each closed once it holds `limit`.

    >>> list(_filled([2, 3, 9, 1], 4))
    [(1, 5.0), (2, 9.0), (3, 1.0)]
    """
    filled = 0.0
    for index, size in enumerate(sizes):
        filled += size
        if filled >= limit or (filled and index == len(sizes) - 1):
            yield index, filled
            filled = 0.0


def build(  # noqa: PLR0917 (one argument for each option)
    degree: int,
    zero: int = 0,
    bucket: float | None = None,
    overlap: bool | None = None,
    shard: int | None = None,
    gather: str | None = None,
) -> Strategy:
    """Data parallelism over `degree` replicas.

    >>> print(build(16, zero=1, shard=8), build(8, zero=1, shard=8))
    dp=16,zero=1,shard=8 dp=8,zero=1
    """
    if overlap is not None:
        check_switch(overlap=overlap)
    if not is_whole(zero, 0, 2):
        raise ValueError(f"zero={as_text(zero)}: dp has zero=0, 1 or 2; for sharded parameters use fsdp={degree}")
    if zero == 2 and overlap is False:
        raise ValueError("zero=2 scatters gradients as they appear; overlap=off is for zero=0 and zero=1")
    if bucket is not None and not (is_number(bucket) and bucket >= 1):
        size = as_text(bucket)
        raise ValueError(f"bucket={size}: a bucket is a number of bytes, at least 1; default: 40e6 elements or more")
    if gather is not None and gather not in GATHERS:
        raise ValueError(unknown("gather", as_text(gather), GATHERS))
    if gather == "broadcast" and not zero:
        raise ValueError("gather=broadcast is for the shares that zero=1 or 2 leave; zero=0 gathers nothing")
    if shard is not None:
        _check_groups(degree, zero, shard)
    return Data(
        degree, zero, None if bucket is None else float(bucket), overlap, None if shard == degree else shard, gather
    )


def _check_groups(degree: int, zero: int, shard: int) -> None:
    """Groups of `shard` ranks divide the axis, and are for ZeRO-1."""
    if not is_whole(shard, 1, degree) or degree % shard:
        near = f"; nearest: {nearest_divisors(degree, shard)}" if is_whole(shard, 1) and is_whole(degree, 1) else ""
        raise ValueError(f"shard={as_text(shard)}: groups of ranks divide dp={degree} evenly{near}")
    if zero != 1:
        raise ValueError(
            f"shard={shard} is for zero=1; with zero={zero} use for example dp={degree // shard} fsdp={shard}"
        )
    if shard == 1 < degree:
        raise ValueError(f"shard=1: a rank by itself shares nothing; use zero=0, or a divisor of dp={degree} from 2")
