"""Offload: model states that a rank keeps at its host, and the copies that this takes.

Sources: ZeRO-Offload, arXiv:2101.06840 (optimizer and gradients in CPU memory, updated by the CPUs); ZeRO-Infinity,
arXiv:2104.07857 (drives, parameters).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from workloads.checks import check_switch
from workloads.ops import MEDIA, HostCopy
from workloads.plugins import parse, unknown

if TYPE_CHECKING:
    from workloads.lowering.draft import Draft
    from workloads.optimizer import Optimizer
    from workloads.step import TrainingStep

STATES = ("optimizer", "gradients", "parameters")
NONE = "none"
STREAMS = {
    "to_host": "host_out",
    "from_host": "host_in",
    "load": "host_load",
    "store": "host_store",
    "update": "host_update",
}
"""A stream for each kind of copy."""
PARTS = 8
"""Parts in which an update at the host goes on, so that drives, CPUs and the way back overlap."""
MARK = "host.gradients"


@dataclass(frozen=True, slots=True)
class Offload:
    """Which `states` are kept at the host, in its memory or on its drives (`to` cpu or nvme).

    With the `optimizer` the host updates the parameters: it gets the gradients once a step and gives back the
    parameters. Beside it, `gradients` leave the accelerator in every microbatch, as soon as they are complete, and are
    added up at the host; `parameters` are fetched for every forward and backward, a layer ahead of its use. With
    `overlap` off every copy holds up the kernels. Assumes that the host's own copies of gradients and parameters are as
    large as those that travel, that drives hold the optimizer's states and the parameters but never gradients, and that
    gradients are added up at the host in no time, and that those of tied embeddings leave before the two copies are.

    >>> offload = Offload.parse("optimizer+gradients,to=nvme")
    >>> offload.states, str(offload), bool(Offload.parse("none"))
    (('optimizer', 'gradients'), 'optimizer+gradients,to=nvme', False)
    """

    states: tuple[str, ...] = ()
    to: str = "cpu"
    overlap: bool = True

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read text such as `optimizer+gradients,to=nvme`."""
        names, options = parse(text)
        for key in options:
            if key not in ("to", "overlap"):
                raise ValueError(unknown("option of offload", key, ("to", "overlap")))
        return cls(() if names == NONE else tuple(names.split("+")), **options)

    def __post_init__(self) -> None:
        for name in self.states:
            if name not in STATES:
                raise ValueError(unknown("state to offload", name, (*STATES, NONE)))
        if self.to not in MEDIA:
            raise ValueError(unknown("place to offload to", str(self.to), MEDIA))
        if self.states and "optimizer" not in self.states:
            raise ValueError(f"offload={'+'.join(self.states)}: without the optimizer nothing else is offloaded")
        check_switch(overlap=self.overlap)

    def __str__(self) -> str:
        options = ["to=nvme"] if self.to == "nvme" else []
        return ",".join(["+".join(self.states) or NONE, *options, *([] if self.overlap else ["overlap=off"])])

    def __bool__(self) -> bool:
        return bool(self.states)

    def keeps(self, state: str) -> bool:
        """Whether a state is at the host: one of `STATES`, or the master weights, which are the optimizer's."""
        return state in self.states or (state == "master_weights" and "optimizer" in self.states)

    def check(self, step: "TrainingStep") -> None:
        """Gradients that leave in every microbatch, or while the backward pass goes on, have to be reduced by then."""
        for strategy in step.plan.strategies if self and step.optimizer.steps else ():
            if strategy.degree > 1 and strategy.splits_batch:
                once = strategy.accumulates and "gradients" in self.states and step.microbatches > 1
                if once or strategy.reduces_late:
                    why = "in every microbatch" if once else "as they become complete"
                    raise ValueError(
                        f"offload={self} sends gradients {why}, but {strategy} reduces them at the end of the step; "
                        f"{'use zero=2 or fsdp with sync=on' if once else 'use overlap=on'}"
                    )

    def weave(self, draft: "Draft", share: float) -> None:
        """Fetch the parameters that a layer uses, a `share` of them, before it; send gradients off where complete."""
        if self.keeps("parameters") and draft.kind != "W":
            self._fetch(draft, share)
        if self and draft.completes_gradients and (draft.is_last or self.keeps("gradients")):
            self._send(draft)

    def update(
        self, optimizer: "Optimizer", element: int, parameters: float, after: tuple[str, ...]
    ) -> Iterator[HostCopy]:
        """The update of so many parameters at the host, and their way back. From drives, states are read first.

        Offloaded parameters stay where they are; on drives they are written there. With overlap all this is a pipeline
        of a few parts.
        """
        states, moved = optimizer.state_bytes(element), optimizer.read_bytes(element) + optimizer.written_bytes(element)
        written = states + (element if self.keeps("parameters") else 0)
        parts = PARTS if self.overlap else 1
        for number in range(1, parts + 1):
            part, end = parameters / parts, "" if number == parts else f".{number}"
            ready = after
            if self.to == "nvme":
                yield self._copy(f"host.load{end}", "load", states * part, after)
                ready = (*after, f"host.load{end}")
            yield self._copy(f"optimizer{end}", "update", moved * part, ready)
            if self.to == "nvme":
                yield self._copy(f"host.store{end}", "store", written * part, (f"optimizer{end}",))
            if not self.keeps("parameters"):
                yield self._copy(f"host.parameters{end}", "from_host", element * part, (f"optimizer{end}",))

    def _fetch(self, draft: "Draft", share: float) -> None:
        """A copy before the first use of each unit's parameters, or the gather of its shares, one unit ahead."""
        launched: list[tuple[int, HostCopy]] = []
        place = {op.name: number for number, unit in enumerate(draft.units) for op in unit.ops}
        for unit in draft.units:
            if unit.user:
                early = max(0, place[unit.user] - 1)
                before = draft.units[early - 1].last_compute() if early else ""
                size = unit.parameters * share * draft.microbatch.element
                fetch = self._copy(f"{unit.name}.fetch", "from_host", size, (before,) if before else (), self.to)
                draft.units[place[unit.user]].wait(unit.user, fetch.name)
                unit.user = fetch.name
                launched.append((early, fetch))
        for early, fetch in reversed(launched):
            draft.units[early].ops.insert(0, fetch)

    def _send(self, draft: "Draft") -> None:
        """A copy of every unit's gradients behind what completes them."""
        units = [unit for unit in draft.units if unit.gradients]
        for unit in units:
            size = sum(gradient.parameters for gradient in unit.gradients) * draft.microbatch.reduced_bytes
            name = MARK if unit is units[-1] else f"{unit.name}.leave"
            unit.ops.append(self._copy(name, "to_host", size, (unit.gradients[-1].ready,)))

    def _copy(self, name: str, kind: str, size: float, after: tuple[str, ...], medium: str = "cpu") -> HostCopy:
        """A copy in its stream; without overlap in that of the kernels."""
        medium = "nvme" if kind in ("load", "store") else medium
        return HostCopy(
            name=name,
            stream=STREAMS[kind] if self.overlap else "compute",
            kind=kind,
            bytes=size,
            medium=medium,
            after=after,
        )
