"""The operations of a training step, as a rank sees them: FLOPs and bytes, never seconds or links.

An op waits for its predecessor in its stream and for its `after`: names, each resolved to the latest
op of that name before it in the rank's program order (its own block first). So a prefetch issued in
one block serves a later one, and a gradient bucket can wait for layers of several blocks.
"""

import math
from dataclasses import dataclass

COPIES = ("to_host", "from_host", "load", "store", "update")
"""Kinds of copies between an accelerator and its host, or at the host: from its drives, to them, within its memory."""
MEDIA = ("cpu", "nvme")
"""Where the bytes lie at the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """A unit of work in one in-order stream of a rank."""

    name: str
    stream: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute(Op):
    """A kernel: useful FLOPs, the memory traffic it cannot avoid, and its shape.

    `kind` names the kernel's cost model: gemm, attention, attention_backward, norm, optimizer …
    `flops` are model FLOPs; what a kernel computes beside them is its cost model's business. `shape` is (m, n, k) for
    a GEMM, (groups, m, n, k) for a batched or grouped one, (tokens, span, heads, head_dim) for attention, where a
    query reaches `span` keys at most: the sequence, or its window. `variant` says which of several implementations
    runs, `recompute` that it repeats what the forward pass has already computed.
    """

    stream: str = "compute"
    kind: str
    flops: float = 0.0
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    dtype: str = "bf16"
    shape: tuple[float, ...] = ()
    variant: str = ""
    recompute: bool = False

    def __post_init__(self) -> None:
        _check_amounts(self.name, flops=self.flops, read_bytes=self.read_bytes, write_bytes=self.write_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective(Op):
    """A collective of the group that spans `axes`: all_reduce, all_gather, reduce_scatter and so on.

    `bytes` is one rank's whole buffer as nccl-tests counts it (all-gather output, reduce-scatter input).
    `positions` restricts the group to members at these coordinates of a single axis: `(0, -1)` joins the
    first and the last stage.
    """

    kind: str
    axes: tuple[str, ...]
    bytes: float
    dtype: str = "bf16"
    positions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_amounts(self.name, bytes=self.bytes)
        if not self.axes:
            raise ValueError(f"{self.name}: a collective spans at least one axis")


MARK = "mark"
"""The kind of a kernel of no length that marks a place in a stream."""
P2P_MODES = ("latency", "send_block", "recv_block", "blocking")
"""Who is held by a message: see `P2P`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class P2P(Op):
    """A message along one axis, `offset` places up (wrapping around): send, recv or shift.

    A recv with offset k takes what the rank k places down sent with offset k; a shift does both as one op.
    `mode` says who is held: `latency` nobody (the message leaves when the op is reached and needs no
    receiver), `send_block` the sender until delivery, `recv_block` the transfer starts once the receiver
    waits, `blocking` both wait for each other and for the end.
    """

    stream: str = "compute"
    kind: str
    axis: str
    offset: int
    bytes: float
    tag: str = ""
    mode: str = "latency"

    def __post_init__(self) -> None:
        _check_amounts(self.name, bytes=self.bytes)
        if self.mode not in P2P_MODES:
            raise ValueError(f"{self.name}: unknown mode {self.mode!r}; known: {', '.join(P2P_MODES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCopy(Op):
    """A copy between a rank's accelerator and its host, `to_host` or `from_host`, by copy engines that take no SMs.

    `medium` is where the bytes lie at the host: cpu, its memory, or nvme, the drives behind that. For a rank, the host
    also moves bytes by itself: `load` from the drives into its memory, `store` back, and `update` what its CPUs read
    and write of it. Copies of one stream follow each other; on different streams, the two directions do not hinder
    each other.
    """

    stream: str = "host"
    kind: str
    bytes: float
    medium: str = "cpu"

    def __post_init__(self) -> None:
        _check_amounts(self.name, bytes=self.bytes)
        known = ("nvme",) if self.kind in ("load", "store") else ("cpu",) if self.kind == "update" else MEDIA
        for what, value, values in (("kind", self.kind, COPIES), ("medium", self.medium, known)):
            if value not in values:
                raise ValueError(f"{self.name}: {what}={value!r} of a copy is none of {', '.join(values)}")


def _check_amounts(name: str, **amounts: float) -> None:
    for what, amount in amounts.items():
        if not 0 <= amount < math.inf:
            raise ValueError(f"{name}: {what}={amount}; an amount is 0 or more, and finite")
