"""Data parallelism: replicas reduce their gradients in buckets; `zero=1` shards the optimizer.

Sources: PyTorch DDP, arXiv:2006.15704; ZeRO, arXiv:1910.02054; bucket size: Megatron-core's documented
default of max(40e6, 1e6 x dp) elements.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from workloads.checks import check_switch, is_number, is_whole
from workloads.microbatch import Microbatch
from workloads.ops import Collective, Op
from workloads.plugins import as_text
from workloads.strategy import Strategy

if TYPE_CHECKING:
    from workloads.lowering.draft import Draft
    from workloads.stack import Stack

MARK = "dp.gradients"
SMALLEST_BUCKET = 40e6
BUCKET_PER_RANK = 1e6


@dataclass(frozen=True, slots=True)
class Data(Strategy):
    """`zero` 0 all-reduces gradients; 1 reduce-scatters them and gathers parameters as the next step opens.

    2 keeps no more than its share of the gradients either, and so has to scatter them in every microbatch.
    `bucket` is in bytes; with `overlap` off each stage is one bucket, reduced after the rank's last
    backward (None: as the stack does).
    Assumes that a stage's parameters are gathered as one collective.
    """

    axis: ClassVar[str] = "dp"
    splits_batch: ClassVar[bool] = True
    weaves: ClassVar[int] = 2

    zero: int = 0
    bucket: float | None = None
    overlap: bool | None = None

    def settled(self, stack: "Stack") -> Self:
        """Overlap as the stack does, where it is left open; ZeRO-2 overlaps in any case."""
        return self if self.overlap is not None else replace(self, overlap=self.zero == 2 or stack.overlap_gradients)

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
    def splits_gradients(self) -> bool:
        """ZeRO-1 leaves each rank its share; without it all have the same gradients."""
        return self.zero > 0

    def share(self, state: str) -> float:
        """ZeRO-1 keeps a share of the optimizer's states, ZeRO-2 of the gradients too."""
        sharded = ((), ("optimizer",), ("optimizer", "gradients", "accumulated"))[self.zero]
        return 1 / self.degree if state in sharded else 1.0

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
        share = 1 / self.degree if self.zero else 1.0
        buckets = list(_buckets(draft, self._limit(draft.microbatch)))
        for each in draft.units:
            each.gradients.clear()
        for number, (unit, ready, parameters) in enumerate(buckets, 1):
            name = MARK if number == len(buckets) else f"{MARK}.{number}"
            draft.units[unit].ops.append(self._reduction(name, (ready,), parameters, draft.microbatch))
            draft.units[unit].gradients.append(Gradient(name, parameters * share))

    def open(self, stage: int, parameters: float, microbatch: Microbatch) -> tuple[Op, ...]:
        """ZeRO-1 gathers the parameters that the previous step's optimizer left in shares."""
        if self.degree == 1 or not self.zero or not parameters:
            return ()
        name, size = f"parameters.{stage}", parameters * microbatch.element
        return (
            Collective(
                name=name, stream=self.axis, kind="all_gather", axes=(self.axis,), bytes=size, dtype=microbatch.dtype
            ),
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
            self._reduction(name, after, parameters, microbatch) for name, parameters in zip(names, held, strict=False)
        )

    def marks(self) -> tuple[str, ...]:
        """The last bucket: the stream is in order, so it covers the others."""
        return (MARK,) if self.degree > 1 else ()

    def _limit(self, microbatch: Microbatch) -> float:
        """Gradients in a bucket."""
        usual = max(SMALLEST_BUCKET, BUCKET_PER_RANK * self.degree)
        return usual if self.bucket is None else self.bucket / microbatch.reduced_bytes

    def _reduction(self, name: str, after: tuple[str, ...], parameters: float, microbatch: Microbatch) -> Op:
        """The collective of one bucket."""
        return Collective(
            name=name,
            stream=self.axis,
            after=after,
            kind="reduce_scatter" if self.zero else "all_reduce",
            axes=(self.axis,),
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


def build(degree: int, zero: int = 0, bucket: float | None = None, overlap: bool | None = None) -> Strategy:
    """Data parallelism over `degree` replicas."""
    if overlap is not None:
        check_switch(overlap=overlap)
    if not is_whole(zero, 0, 2):
        raise ValueError(f"zero={as_text(zero)}: dp has zero=0, 1 or 2; for sharded parameters use fsdp={degree}")
    if zero == 2 and overlap is False:
        raise ValueError("zero=2 scatters gradients as they appear; overlap=off is for zero=0 and zero=1")
    if bucket is not None and not (is_number(bucket) and bucket >= 1):
        size = as_text(bucket)
        raise ValueError(f"bucket={size}: a bucket is a number of bytes, at least 1; default: 40e6 elements or more")
    return Data(degree, zero, None if bucket is None else float(bucket), overlap)
