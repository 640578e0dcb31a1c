"""Which keys a query attends to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mask:
    """The part of the square of scores that counts.

    `causal`: no key after the query; `window`: at most so many keys, the query's own included (0: all), before it or
    around it; `density`: the share of blocks within these that a block-sparse kernel computes.

    >>> Mask().keys(8192), Mask(causal=False).keys(8192), Mask(window=4096).keys(8192), Mask(window=4096).span(8192)
    (4096.0, 8192, 3072.0, 4096)
    """

    causal: bool = True
    window: int = 0
    density: float = 1.0

    def span(self, sequence: int) -> int:
        """Keys in reach of a query at most."""
        return min(sequence, self.window or sequence)

    def keys(self, sequence: int) -> float:
        """Keys that a query attends to, the mean over a sequence: half the sequence under a causal mask."""
        span = self.span(sequence)
        mean = span - span * span / (2 * sequence) if self.causal else span
        return mean if self.density == 1 else self.density * mean
