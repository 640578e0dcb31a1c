"""A calibration as a file to review, as a table and as one JSON object."""

from importlib.resources import files
from typing import Any

from simulator import constants
from simulator.constants import Key, as_yaml
from simulator.validation.calibration import Calibration, Fitted
from simulator.validation.calibration_priors import FIXED

FILE = "kernels.yaml"


def as_file(found: Calibration) -> str:
    """The constants in the form of the package's file, comments first: values, standard errors, sources.

    A refused constant that has neither gets what its prior is taken from.
    """
    fitted = {each.key: each.error for each in found.fitted if each.error is not None}
    errors = {**constants.errors(FILE), **fitted}
    priors = {each.key: _source(each) for each in found.fitted if each.refused}
    sources = {**priors, **FIXED, **constants.sources(FILE)}
    return header() + as_yaml(
        found.values,
        {key: errors[key] for key in found.values if key in errors},
        {key: sources[key] for key in found.values if key in sources and key not in errors},
    )


def header() -> str:
    """The comments with which the package's file begins."""
    lines = (files("simulator") / FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    count = next(number for number, line in enumerate(lines) if not line.startswith(("#", "\n")))
    return "".join(lines[:count])


def _source(fitted: Fitted) -> str:
    return f"prior, as training runs do not tell it: {fitted.prior.source}"


def summary(found: Calibration) -> dict[str, Any]:
    """What `stepsim calibrate --json` prints."""
    return {
        "rows": len(found.rows),
        "recipes": int(found.rows["series"].nunique()),
        "before": found.errors("before"),
        "after": found.errors("after"),
        "constants": [_entry(each) for each in found.fitted],
    }


def _entry(fitted: Fitted) -> dict[str, Any]:
    return {
        "constant": list(fitted.key),
        "before": fitted.before,
        "after": fitted.after,
        "standard_error": fitted.error,
        "prior": fitted.prior.value,
        "prior_spread": fitted.prior.spread,
        "rows": fitted.rows,
        "refused": fitted.refused,
    }


def text(found: Calibration) -> str:
    """The same as a table."""
    lines = [f"{'constant':<36} {'before':>9} {'after':>9} {'error':>7} {'prior':>9} {'rows':>5}"]
    lines += [_line(each) for each in found.fitted]
    recipes = found.rows["series"].nunique()
    lines += ["", f"{len(found.rows)} rows of {recipes} recipes, each of which weighs 1:"]
    for name in ("before", "after"):
        block: Any = found.errors(name)
        lines.append(
            f"  {name:<7} mean error {block['wmape']:.1%}, median {block['median_ape']:.1%}, "
            f"p90 {block['p90_ape']:.1%}, bias {block['bias']:+.1%}"
        )
    return "\n".join(lines)


def _line(fitted: Fitted) -> str:
    error = "-" if fitted.error is None else f"{fitted.error:.1%}"
    words = "  refused: keeps its prior" if fitted.refused else ""
    return (
        f"{name(fitted.key):<36} {fitted.before:>9.3g} {fitted.after:>9.3g} {error:>7} "
        f"{fitted.prior.value:>9.3g} {fitted.rows:>5}{words}"
    )


def name(key: Key) -> str:
    """A constant's place in words."""
    return " ".join(key)
