"""Fully sharded data parallelism (ZeRO-3): a rank keeps a share of every layer and gathers it when needed.

Sources: ZeRO, arXiv:1910.02054; PyTorch FSDP, arXiv:2304.11277. One unit is one layer; embedding and head are
units of their own. Per microbatch the gathers and the scatter move about 3 times the parameters' bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from workloads.checks import check_switch, is_whole
from workloads.microbatch import Microbatch
from workloads.ops import Collective
from workloads.plugins import as_text
from workloads.strategy import Strategy

if TYPE_CHECKING:
    from workloads.lowering.draft import Draft, Unit
    from workloads.step import TrainingStep

MARK = "fsdp.gradients"
SCATTERS = "fsdp_reduce"
MOST_AHEAD = 1000


@dataclass(frozen=True, slots=True)
class FullyShardedData(Strategy):
    """`reshard` frees gathered parameters after each pass; `prefetch` units are gathered ahead of their use.

    Without `reshard` parameters are gathered in the step's first forward alone; without `sync` gradients stay whole
    until the step's last backward, which alone scatters them. The gather of unit i + prefetch may start once unit i
    starts. Assumes that the first gathers of a block may run while the block before it ends, one unit earlier than the
    prefetch depth says; and that a tied table is gathered for each of its uses.
    """

    axis: ClassVar[str] = "fsdp"
    splits_batch: ClassVar[bool] = True
    weaves: ClassVar[int] = 1

    reshard: bool = True
    prefetch: int = 1
    sync: bool = True

    @property
    def accumulates(self) -> bool:
        """Without `sync`."""
        return not self.sync

    def share(self, state: str) -> float:
        """A share of all states; gradients accumulate whole without `sync`."""
        return (
            1.0 if state in ("boundary", "message") or (state == "accumulated" and not self.sync) else 1 / self.degree
        )

    @property
    def regathers(self) -> bool:
        """With `reshard`."""
        return self.degree > 1 and self.reshard

    @property
    def fetches(self) -> bool:
        """With `reshard`: without it parameters stay."""
        return self.reshard

    def check(self, step: "TrainingStep") -> None:
        """Gradients that wait for the last microbatch are scattered by nobody else before."""
        for other in step.plan.strategies if self.degree > 1 and not self.sync else ():
            if other.degree > 1 and other.splits_batch and not other.accumulates:
                raise ValueError(
                    f"{self} scatters gradients in the last microbatch, but {other} in every one; use sync=on or zero=1"
                )

    def gathered(self, used: Sequence[float]) -> float:
        """With `reshard` those of the 1 + prefetch largest units, else all."""
        if self.degree == 1:
            return 0.0
        return sum(sorted(used, reverse=True)[: 1 + self.prefetch]) if self.reshard else sum(used)

    def unscattered(self, units: Sequence[Sequence[float]], microbatch: Microbatch) -> float:
        """With `sync` one unit's."""
        return max(map(sum, units), default=0.0) if self.degree > 1 and self.sync else 0.0

    def weave(self, draft: "Draft") -> None:
        """Gather before each unit, scatter after its last gradient."""
        if self.degree == 1:
            return
        if draft.kind != "W" if self.reshard else draft.kind == "F" and draft.is_first:
            self._gather(draft)
        if draft.completes_gradients and (self.sync or draft.is_last):
            self._scatter(draft)

    def marks(self) -> tuple[str, ...]:
        """The last scatter."""
        return (MARK,) if self.degree > 1 else ()

    def _gather(self, draft: "Draft") -> None:
        """One all-gather per unit with parameters, in the order of use."""
        launched: list[tuple[int, Collective]] = []
        for number, unit in enumerate(draft.units):
            if not unit.user:
                continue
            early = max(0, number - self.prefetch)
            before = draft.units[early - 1].last_compute() if early else ""
            launched.append((early, self._collective(draft, unit, "all_gather", before)))
            unit.wait(unit.user, launched[-1][1].name)
            unit.user = launched[-1][1].name
        for early, gather in reversed(launched):
            draft.units[early].ops.insert(0, gather)

    def _scatter(self, draft: "Draft") -> None:
        """One reduce-scatter per unit; what dp reduces after it is this rank's share."""
        from workloads.lowering.draft import Gradient

        units = [unit for unit in draft.units if unit.gradients]
        for unit in units:
            scatter = self._collective(draft, unit, "reduce_scatter", unit.gradients[-1].ready, mark=unit is units[-1])
            unit.ops.append(scatter)
            unit.gradients[:] = [Gradient(scatter.name, unit.parameters / self.degree)]

    def _collective(self, draft: "Draft", unit: "Unit", kind: str, after: str, *, mark: bool = False) -> Collective:
        """A gather or scatter of one unit's parameters."""
        numbers = draft.microbatch
        return Collective(
            name=MARK if mark else f"{unit.name}.{kind}",
            stream=self.axis if kind == "all_gather" else SCATTERS,
            after=(after,) if after else (),
            kind=kind,
            axes=(self.axis,),
            bytes=unit.used * numbers.element if kind == "all_gather" else unit.parameters * numbers.reduced_bytes,
            dtype=numbers.dtype if kind == "all_gather" else numbers.reduced_dtype,
        )


def build(degree: int, reshard: bool = True, prefetch: int = 1, sync: bool = True) -> Strategy:
    """Fully sharded data parallelism over `degree` ranks."""
    check_switch(reshard=reshard, sync=sync)
    if not is_whole(prefetch, 0, MOST_AHEAD):
        raise ValueError(
            f"prefetch={as_text(prefetch)}: a whole number of units from 0 to {MOST_AHEAD} is gathered ahead"
        )
    return FullyShardedData(degree, reshard, prefetch, sync)
