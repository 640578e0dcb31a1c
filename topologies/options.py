"""Options of cluster families: checks with the numbers and the rule, and the text that builds a cluster again."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from topologies.accelerator import Accelerator
from topologies.plugins import as_text, unknown

MAXIMUM_DEVICES = 2**20


def check_size(option: str, value: int, limit: int, multiple: int = 1) -> int:
    """A size given by the user, if it is a whole multiple up to the limit.

    >>> check_size("gpus", 12, limit=2**20, multiple=8)
    Traceback (most recent call last):
    ValueError: gpus=12 is not a multiple of 8 from 8 to 1048576; nearest: 8, 16
    """
    if _whole(value) and 0 < value <= limit and value % multiple == 0:
        return int(value)
    rule = f"a multiple of {multiple}" if multiple > 1 else "a whole number"
    near = f"; nearest: {_nearest(value, limit, multiple)}" if isinstance(value, Real) and math.isfinite(value) else ""
    raise ValueError(f"{option}={value} is not {rule} from {multiple} to {limit}{near}")


def check_seed(seed: int) -> int:
    """A seed: any whole number from 0."""
    if _whole(seed) and seed >= 0:
        return int(seed)
    raise ValueError(f"seed={seed} is not a whole number from 0")


def check_number(option: str, value: float, least: float) -> float:
    """A finite number of at least so much.

    >>> check_number("oversubscription", 0.5, least=1)
    Traceback (most recent call last):
    ValueError: oversubscription=0.5 is not a number of at least 1
    """
    if isinstance(value, Real) and not isinstance(value, bool) and least <= value < math.inf:
        return value
    raise ValueError(f"{option}={value} is not a number of at least {least:g}")


def check_choice(option: str, value: str, known: Iterable[str]) -> str:
    """One of a few words.

    >>> check_choice("routing", "ecpm", ["spray", "ecmp"])
    Traceback (most recent call last):
    ValueError: unknown routing 'ecpm'; did you mean ecmp? Known: ecmp, spray
    """
    if value not in known:
        raise ValueError(unknown(option, str(value), known))
    return value


def idle(options: Mapping[str, Any], names: Iterable[str], reason: str) -> tuple[str, ...]:
    """A warning of the options, of those named, that were given and change nothing.

    >>> idle({"seed": 3, "nics": 4}, ["uplinks", "seed"], "routing=spray hashes nothing")
    ('seed=3 has no effect: routing=spray hashes nothing',)
    """
    return tuple(f"{name}={_text(options[name])} has no effect: {reason}" for name in names if name in options)


HASHED = "routing=ecmp hashes every pair of devices by itself: hardly any ranks are alike, so nothing folds"


def given(build: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that differ from the defaults in a family's own signature."""
    defaults = own_options(build)
    return {name: value for name, value in options.items() if value != defaults.get(name)}


def title(build: Callable[..., Any], /, **options: Any) -> str:
    """The text that builds a cluster: its family, the first option, and those that differ from `build`'s defaults.

    >>> from topologies.clusters import rail_optimized
    >>> title(rail_optimized.build, nodes=32, nodes_per_unit=32, pxn=False)
    'rail_optimized,nodes=32,pxn=off'
    """
    first, changed = next(iter(own_options(build))), given(build, options)
    parts = [f"{key}={_text(value)}" for key, value in options.items() if key == first or key in changed]
    return ",".join([family(build), *parts])


def own_options(build: Callable[..., Any]) -> dict[str, Any]:
    """The options in a family's own signature, with their defaults."""
    parameters = inspect.signature(build).parameters
    return {key: each.default for key, each in parameters.items() if each.kind is not each.VAR_KEYWORD}


def family(build: Callable[..., Any]) -> str:
    """The name of the family that a `build` is of: its module's."""
    return build.__module__.rpartition(".")[2]


def _text(value: Any) -> str:
    return value.name if isinstance(value, Accelerator) else as_text(value)


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _nearest(value: float, limit: int, multiple: int) -> str:
    steps = (math.floor(value / multiple), math.ceil(value / multiple))
    top = limit // multiple
    return ", ".join(map(str, sorted({multiple * min(max(step, 1), top) for step in steps})))
