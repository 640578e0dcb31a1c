"""torchtitan of 2024 without torch.compile.

As torchtitan_2024, but every elementwise operation is a kernel of its own.
"""

from workloads.stack import Stack
from workloads.stacks import torchtitan_2024

PUBLISHED = torchtitan_2024.PUBLISHED.variant(
    "torchtitan_2024_eager", {"fusion": "torchtitan: training.compile is off by default"}, fusion=False
)


def build() -> Stack:
    """Torchtitan of 2024 without torch.compile."""
    return PUBLISHED
