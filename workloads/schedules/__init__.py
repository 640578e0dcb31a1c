"""Pipeline schedules, one a file: `build("interleaved", stages=4, microbatches=8, virtual=2)`."""

from typing import Any

from workloads.plugins import Folder, parse
from workloads.schedule import Schedule

_FOLDER = Folder("workloads.schedules", "schedule", aliases={"1f1b": "one_f_one_b"})


def names() -> list[str]:
    """Every schedule there is.

    >>> "one_f_one_b" in names()
    True
    """
    return _FOLDER.names()


def build(name: str, stages: int, microbatches: int, **options: Any) -> Schedule:
    """A schedule by name or text, for `stages` pipeline ranks.

    >>> build("1f1b", stages=4, microbatches=8).peak_in_flight
    (4, 3, 2, 1)
    >>> build("interleaved,virtual=4", stages=4, microbatches=8).stages
    16
    """
    name, written = parse(name)
    beside = {"stages": stages, "microbatches": microbatches, **options}
    twice = next((key for key in beside if key in written), None)
    if twice is not None:
        raise ValueError(f"{twice} is given twice: {written[twice]!r} in the text, {beside[twice]!r} beside it")
    schedule: Schedule = _FOLDER.build(name, stages, microbatches, **written, **options)
    return schedule
