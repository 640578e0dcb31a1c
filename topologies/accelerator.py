"""An accelerator's data sheet: what a chip can do at most, never what software reaches on it."""

from collections.abc import Mapping
from dataclasses import dataclass

NON_NEGATIVE = (
    "clock_hertz",
    "cores",
    "tensor_cores",
    "cache_bytes",
    "host_bandwidth",
    "host_devices",
    "power_watts",
    "power_limit_watts",
)
"""Facts that are 0 where they are unknown."""


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Peaks and sizes of one device, each from the named source.

    `peak_flops` maps a dtype to dense FLOP/s (no structured sparsity), with block-scaled formats where the chip has
    them; `memory_bytes` is the data sheet's figure with GB = 1e9 bytes, `usable_memory_bytes` what software sees
    (vendors often mean GiB; by default the same), `memory_bandwidth` is in bytes/s, `clock_hertz` the boost clock
    behind the peaks. An SM (compute unit, TensorCore) has so many `cores` for FP32 and `tensor_cores` (matrix cores,
    matrix units); `cache_bytes` is the last level of cache, or SRAM. `host_bandwidth` is the link to the host, bytes/s
    each way, of the kind `host_kind` (pcie or c2c); `host_devices` how many devices share a host where that is less
    than a scale-up domain. `power_watts` is what a board is made for, `power_limit_watts` a lower limit under
    which it is run. Each is 0 where unknown. Infinite values are legal, for ideal devices.

    >>> chip = Accelerator("toy", {"bf16": 1e15}, 80e9, 3e12, sm_count=132, source="an example")
    >>> chip.peak("bf16"), chip.usable_memory_bytes
    (1000000000000000.0, 80000000000.0)
    """

    name: str
    peak_flops: Mapping[str, float]
    memory_bytes: float
    memory_bandwidth: float
    sm_count: int
    source: str
    usable_memory_bytes: float = 0.0
    clock_hertz: float = 0.0
    cores: int = 0
    tensor_cores: int = 0
    cache_bytes: float = 0.0
    host_bandwidth: float = 0.0
    host_kind: str = "pcie"
    host_devices: int = 0
    power_watts: float = 0.0
    power_limit_watts: float = 0.0

    def __post_init__(self) -> None:
        if not self.usable_memory_bytes:
            object.__setattr__(self, "usable_memory_bytes", self.memory_bytes)
        if not self.peak_flops:
            raise ValueError(f"accelerator {self.name} has no peak FLOP/s for any dtype")
        for what, value in self._positive_facts():
            if not value > 0:
                raise ValueError(f"accelerator {self.name}: {what}={value}, but it must be above 0")
        for what in NON_NEGATIVE:
            if not getattr(self, what) >= 0:
                raise ValueError(f"accelerator {self.name}: {what}={getattr(self, what)}, but it must be 0 or more")

    @property
    def power_share(self) -> float:
        """The share of its power that a lower limit leaves; 1 without one."""
        limited = self.power_watts and 0 < self.power_limit_watts < self.power_watts
        return self.power_limit_watts / self.power_watts if limited else 1.0

    def __hash__(self) -> int:
        return hash(self.name)

    def peak(self, dtype: str) -> float:
        """Dense FLOP/s for a dtype; there is no default, so an unknown one fails with the known ones."""
        if dtype not in self.peak_flops:
            raise ValueError(f"unknown dtype of {self.name} {dtype!r}; Known: {', '.join(sorted(self.peak_flops))}")
        return self.peak_flops[dtype]

    def _positive_facts(self) -> list[tuple[str, float]]:
        facts = ["memory_bytes", "usable_memory_bytes", "memory_bandwidth", "sm_count"]
        return [
            *((f"peak {key}", value) for key, value in self.peak_flops.items()),
            *((x, getattr(self, x)) for x in facts),
        ]
