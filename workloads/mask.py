"""Which keys a query attends to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mask:
    """The part of the square of scores that counts.

    `causal`: no key after the query; `window`: at most so many keys, the query's own included (0: all), before it or
    around it; `density`: the share of blocks within these that a block-sparse kernel computes. Assumes half of the
    diagonal under a causal mask (at most half a key is left out), and without one whole windows at the ends of the
    sequence too.

    >>> Mask().keys(8192), Mask(causal=False).keys(8192), Mask(window=4096).keys(8192), Mask(window=4096).span(8192)
    (4096.0, 8192.0, 3072.0, 4096)
    """

    causal: bool = True
    window: int = 0
    density: float = 1.0

    def span(self, sequence: int) -> int:
        """Keys in reach of a query at most."""
        return min(sequence, self.window or sequence)

    def keys(self, sequence: int) -> float:
        """Keys that a query attends to, on average over a sequence of s tokens.

        Causal: s / 2; with a window w below s: w - w^2 / 2s, since the first w queries see a triangle and all others
        w keys. Not causal: s, or the w around the query.
        """
        span = self.span(sequence)
        triangle = span / 2 * (span / sequence) if self.causal else 0.0
        return (span - triangle) * self.density
