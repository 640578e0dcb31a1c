"""How long a kernel runs on an accelerator that does nothing else: a roofline with size effects."""

import math
from dataclasses import dataclass, field, replace
from typing import Protocol

from simulator import gemm
from simulator.attention import attention_seconds
from simulator.kernels import Constants, Kernels, Training, published
from topologies import Accelerator
from topologies.plugins import unknown
from workloads.ops import Compute

GEMMS = ("gemm", "batched_gemm", "grouped_gemm")
ATTENTIONS = ("attention", "attention_backward")
MEMORY_BOUND = (
    *("elementwise", "norm", "activation", "softmax", "dropout", "embedding", "loss"),
    *("optimizer", "cast", "router", "permutation"),
)
MEASURED = Training()
KINDS = (*GEMMS, *ATTENTIONS, *MEMORY_BOUND)
"""Kinds of kernels that the roofline knows."""


class ComputeModel(Protocol):
    """Seconds of one kernel, alone on the accelerator at full speed."""

    def seconds(self, op: Compute, accelerator: Accelerator) -> float:
        """Time from the kernel's start to its end."""
        ...


@dataclass(frozen=True)
class Roofline:
    """The slower of arithmetic and memory traffic, each at the share of its peak that real kernels reach.

    With `graphs`, kernels start as they do when CUDA graphs launch them. With `sustained` they run as in training, with
    the kernels of a `stack` and in a job of so many `ranks`; otherwise as fast as measured by themselves. Assumes that
    a lower limit of power lowers the clock in proportion, as where the voltage cannot fall. Assumes that a kernel's
    traffic and arithmetic overlap fully, and that traffic is the op's compulsory bytes.
    """

    graphs: bool = False
    sustained: bool = False
    stack: str = ""
    ranks: int = 1
    constants: Constants = field(default_factory=published, repr=False)

    def seconds(self, op: Compute, accelerator: Accelerator) -> float:
        """Time of the kernel, its start included."""
        if op.kind not in KINDS:
            raise ValueError(unknown("kind of kernel", op.kind, KINDS))
        kernels, training = self.constants.kernels(accelerator.name, self.stack), self.training(accelerator)
        bandwidth = accelerator.memory_bandwidth * kernels.memory_share * training.memory
        memory = (op.read_bytes + op.write_bytes) / bandwidth
        start = kernels.graph_seconds if self.graphs else kernels.kernel_seconds
        if op.kind == "grouped_gemm" and op.shape:
            start += kernels.graph_seconds * (op.shape[0] - 1)
        clock = _clock(op, training) * (accelerator.power_share if self.sustained else 1.0)
        alone = start + max(memory, arithmetic_seconds(op, accelerator, kernels) / clock)
        return alone / training.kernel_share * self.slowest(training)

    def training(self, accelerator: Accelerator) -> Training:
        """How steps differ from kernels measured by themselves; not at all unless `sustained`.

        A program of no stack, made by hand, knows neither other ranks' jitter nor a host's work between steps.
        """
        if not self.sustained:
            return MEASURED
        found = self.constants.kernels(accelerator.name, self.stack).training
        return found if self.stack else replace(found, jitter=0.0, step_seconds=0.0)

    def slowest(self, training: Training) -> float:
        """How much longer the slowest rank takes than the mean one: jitter x sqrt(2 ln ranks), that of a normal spread.

        Assumes that ranks wait for the slowest of all everywhere, though pipelines and replicas do so less often.
        """
        return 1.0 + training.jitter * math.sqrt(2.0 * math.log(self.ranks))


def _clock(op: Compute, training: Training) -> float:
    """How fast arithmetic is in training, relative to a kernel by itself."""
    if op.kind in GEMMS:
        return training.clock
    return training.attention_clock if op.kind in ATTENTIONS else 1.0


def arithmetic_seconds(op: Compute, accelerator: Accelerator, kernels: Kernels) -> float:
    """Time of a kernel's arithmetic alone; a GEMM does what its shape says, though `flops` may count less.

    Assumes that memory-bound kernels never wait for their arithmetic beyond what the peak of their data type gives.
    """
    if not op.flops and not (op.shape and op.kind in GEMMS):
        return 0.0
    peak = accelerator.peak(op.dtype)
    if op.kind in ATTENTIONS:
        return attention_seconds(op, peak, accelerator.sm_count, kernels)
    if op.kind in GEMMS:
        if op.shape:
            return gemm.seconds(op, peak, accelerator.sm_count, kernels)
        return op.flops / (peak * kernels.gemm_share(op.dtype))
    return op.flops / peak


class FlopsAreSeconds:
    """Replays schedules in abstract time: one FLOP is one second."""

    def seconds(self, op: Compute, accelerator: Accelerator) -> float:
        """The op's FLOPs."""
        return op.flops
