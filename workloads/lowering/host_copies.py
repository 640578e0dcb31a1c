"""Copies between a rank and its host: parameters fetched, gradients sent off, the update of an offloaded optimizer."""

from collections.abc import Iterator

from workloads.lowering.draft import Draft
from workloads.offload import Offload
from workloads.ops import HostCopy
from workloads.optimizer import Optimizer

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
GRADIENTS = "host.gradients"
"""The last copy of a rank's gradients to the host."""


def weave(offload: Offload, draft: Draft, share: float) -> None:
    """Fetch the parameters that a layer uses, a `share` of them, before it; send gradients off where complete."""
    if offload.keeps("parameters") and draft.kind != "W":
        _fetch(offload, draft, share)
    if offload and draft.completes_gradients and (draft.is_last or offload.keeps("gradients")):
        _send(offload, draft)


def update(
    offload: Offload, optimizer: Optimizer, element: int, parameters: float, after: tuple[str, ...]
) -> Iterator[HostCopy]:
    """The update of so many parameters at the host, and their way back. From drives, states are read first.

    Offloaded parameters stay where they are; on drives they are written there. With overlap all this is a pipeline
    of a few parts.
    """
    states, moved = optimizer.state_bytes(element), optimizer.read_bytes(element) + optimizer.written_bytes(element)
    written = states + (element if offload.keeps("parameters") else 0)
    parts = PARTS if offload.overlap else 1
    for number in range(1, parts + 1):
        part, end = parameters / parts, "" if number == parts else f".{number}"
        ready = after
        if offload.to == "nvme":
            yield _copy(offload, f"host.load{end}", "load", states * part, after=after)
            ready = (*after, f"host.load{end}")
        yield _copy(offload, f"optimizer{end}", "update", moved * part, after=ready)
        if offload.to == "nvme":
            yield _copy(offload, f"host.store{end}", "store", written * part, after=(f"optimizer{end}",))
        if not offload.keeps("parameters"):
            yield _copy(offload, f"host.parameters{end}", "from_host", element * part, after=(f"optimizer{end}",))


def _fetch(offload: Offload, draft: Draft, share: float) -> None:
    """A copy before the first use of each unit's parameters, or the gather of its shares, one unit ahead."""
    launched: list[tuple[int, HostCopy]] = []
    place = {op.name: number for number, unit in enumerate(draft.units) for op in unit.ops}
    for unit in draft.units:
        if unit.user:
            early = max(0, place[unit.user] - 1)
            before = draft.units[early - 1].last_compute() if early else ""
            size = unit.used * share * draft.microbatch.element
            after = (before,) if before else ()
            fetch = _copy(offload, f"{unit.name}.fetch", "from_host", size, after=after, medium=offload.to)
            draft.units[place[unit.user]].wait(unit.user, fetch.name)
            unit.user = fetch.name
            launched.append((early, fetch))
    for early, fetch in reversed(launched):
        draft.units[early].ops.insert(0, fetch)


def _send(offload: Offload, draft: Draft) -> None:
    """A copy of every unit's gradients behind what completes them."""
    units = [unit for unit in draft.units if unit.gradients]
    for unit in units:
        size = sum(gradient.parameters for gradient in unit.gradients) * draft.microbatch.reduced_bytes
        name = GRADIENTS if unit is units[-1] else f"{unit.name}.leave"
        unit.ops.append(_copy(offload, name, "to_host", size, after=(unit.gradients[-1].ready,)))


def _copy(
    offload: Offload, name: str, kind: str, size: float, *, after: tuple[str, ...], medium: str = "cpu"
) -> HostCopy:
    """A copy in its stream; without overlap in that of the kernels."""
    return HostCopy(
        name=name,
        stream=STREAMS[kind] if offload.overlap else "compute",
        kind=kind,
        bytes=size,
        medium="nvme" if kind in ("load", "store") else medium,
        after=after,
    )
