"""Equal-cost multipath: a pair of devices is hashed on one of several parallel planes of switches."""

import numpy as np
import numpy.typing as npt

from topologies.link import Integers

_WORD = 2**64
_GOLDEN = 0x9E3779B97F4A7C15


def planes(sources: Integers, destinations: Integers, count: int, seed: int = 0) -> Integers:
    """The plane, 0 to count - 1, of each pair (source, destination): the same for the same seed, always.

    Assumes that all messages of a pair take one plane, as all flows with the same addresses do. Source of the mixing:
    SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).

    >>> pairs = np.arange(6), np.arange(6) + 8
    >>> planes(*pairs, 4).tolist() == planes(*pairs, 4, seed=0).tolist() != planes(*pairs, 4, seed=1).tolist()
    True
    >>> planes(*pairs, 1).tolist()
    [0, 0, 0, 0, 0, 0]
    """
    start = np.uint64((seed + 1) * _GOLDEN % _WORD)
    mixed = _mix(_mix(sources.astype(np.uint64) + start) + destinations.astype(np.uint64) * np.uint64(_GOLDEN))
    return (mixed % np.uint64(count)).astype(np.int64)


def _mix(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
