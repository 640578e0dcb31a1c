"""A rank's SMs as a fluid resource: kernels share what communication leaves."""

from functools import partial

import simpy

from simulator.instant import Instant
from simulator.progress import Progress


class Processor:
    """The SMs of one rank. Kernels share them evenly; held SMs slow all of them.

    Assumes that a kernel slows in proportion to the SMs it lacks. Held SMs are whole numbers, so that their
    sum is exact whatever the order; when all are held, kernels stand still.
    """

    def __init__(self, environment: simpy.Environment, instant: Instant, speed: float, sm_count: int) -> None:
        self._environment, self._instant = environment, instant
        self._speed, self._sm_count = speed, sm_count
        self._kernels: dict[Progress, None] = {}
        self.held = 0

    @property
    def running(self) -> bool:
        """Whether any kernel runs."""
        return bool(self._kernels)

    def sms(self, share: float) -> int:
        """Whole SMs for a share of them; at least one if any."""
        return max(1, round(share * self._sm_count)) if share > 0 else 0

    def start(self, seconds: float) -> Progress:
        """Begin a kernel that takes so many seconds on the whole device at full speed."""
        if self._kernels:
            self._instant.settle(self._settle)
            rate = 0.0
        else:
            rate = self._rate(1)
        kernel = Progress(self._environment, seconds, rate)
        self._kernels[kernel] = None
        kernel.event.callbacks.append(partial(self._end, kernel))
        return kernel

    def hold(self, sms: int) -> None:
        """Take SMs from the kernels, or give back if negative, from this instant on."""
        self.held += sms
        if self._kernels:
            self._instant.settle(self._settle)

    def _end(self, kernel: Progress, _: object) -> None:
        del self._kernels[kernel]
        if self._kernels:
            self._instant.settle(self._settle)

    def _rate(self, kernels: int) -> float:
        free = max(0, self._sm_count - self.held)
        return self._speed * (free / self._sm_count) / kernels

    def _settle(self) -> None:
        if not self._kernels:
            return
        rate = self._rate(len(self._kernels))
        for kernel in self._kernels:
            if kernel.rate != rate:
                kernel.proceed(self._environment, rate)
