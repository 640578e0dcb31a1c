"""What of a Gantt chart's bars is recomputation: where it ran, or as a share where that is too fine to be seen."""

import pandas

COLOUR = "#6A3FD0"
"""As far from the colours of actions and communication as those are from each other."""
FINEST = 1 / 400
"""Stretches that are shorter than this share of the picture are not drawn one by one."""

_ACTION = ["lane", "stage", "action", "microbatch"]
_TIMES = ["start_seconds", "end_seconds"]


def stretches(spans: pandas.DataFrame) -> pandas.DataFrame:
    """From the first to the last of the kernels that recompute, for each time that an action does so."""
    if "recompute" not in spans or not spans["recompute"].any():
        return pandas.DataFrame(columns=[*_ACTION, *_TIMES])
    kernels = spans[spans["work"] == "compute"].sort_values(["lane", "start_seconds"], kind="stable")
    facts = kernels[[*_ACTION, "recompute"]]
    number = (facts != facts.shift()).any(axis=1).cumsum()
    kernels = kernels.assign(number=number)[kernels["recompute"]]
    found = kernels.groupby([*_ACTION, "number"], as_index=False)
    return found.agg(start_seconds=("start_seconds", "min"), end_seconds=("end_seconds", "max"))


def too_fine(found: pandas.DataFrame, limits: tuple[float, float]) -> bool:
    """Whether most of the stretches would hardly be seen within limits."""
    start, end = limits
    return bool((found["end_seconds"] - found["start_seconds"]).median() < FINEST * (end - start))


def gathered(found: pandas.DataFrame, actions: pandas.DataFrame) -> pandas.DataFrame:
    """One stretch for each action, from its start and as long as all of its stretches."""
    timed = found.assign(length=found["end_seconds"] - found["start_seconds"])
    lengths = timed.groupby(_ACTION, as_index=False).agg(length=("length", "sum"))
    bars = actions[[*_ACTION, "start_seconds"]].merge(lengths, on=_ACTION)
    return bars.assign(end_seconds=bars["start_seconds"] + bars["length"]).drop(columns="length")


def remaining(actions: pandas.DataFrame, shares: pandas.DataFrame) -> pandas.DataFrame:
    """The actions without the stretches at their starts, as far as they are seen."""
    ends = shares[[*_ACTION, "end_seconds"]].rename(columns={"end_seconds": "until"})
    left = actions.merge(ends, on=_ACTION, how="left")
    return left.assign(left=left[["left", "until"]].max(axis=1)).drop(columns="until")
