"""Adam in mixed precision: the bytes it keeps and the bytes it moves for each parameter.

Sources: states, ZeRO, arXiv:1910.02054, section 3.1; traffic, a fused update that reads and writes each tensor once.
"""

from dataclasses import dataclass

SINGLE_BYTES = 4
"""An FP32 number: a moment, or the master copy of a parameter of lower precision."""
MOMENTS = 2


@dataclass(frozen=True, slots=True)
class Adam:
    """Bytes per parameter where parameters and gradients take `element` bytes each.

    Both moments are in FP32. The weight that is updated is an FP32 master copy, or in FP32 the parameter itself.
    In BF16 an update reads gradient 2, weight 4 and moments 8, and writes weight 4, moments 8, parameter 2 and
    cleared gradient 2: 30 bytes in all. In FP32 parameter and weight are one: 16 read, 16 written.

    >>> [(adam.state_bytes, adam.read_bytes, adam.written_bytes) for adam in (Adam(2), Adam(4))]
    [(12, 14, 16), (8, 16, 16)]
    """

    element: int

    @property
    def state_bytes(self) -> int:
        """What it keeps beside parameter and gradient: the master copy, if there is one, and the moments."""
        return self._master_bytes + MOMENTS * SINGLE_BYTES

    @property
    def read_bytes(self) -> int:
        """Gradient, weight, moments."""
        return self.element + self._weight_bytes + MOMENTS * SINGLE_BYTES

    @property
    def written_bytes(self) -> int:
        """Its states, the parameter, the cleared gradient."""
        return self.state_bytes + 2 * self.element

    @property
    def _master_bytes(self) -> int:
        return SINGLE_BYTES if self.element < SINGLE_BYTES else 0

    @property
    def _weight_bytes(self) -> int:
        return self._master_bytes or self.element
