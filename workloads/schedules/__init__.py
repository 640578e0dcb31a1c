"""Pipeline schedules, one a file: `build("interleaved", stages=4, microbatches=8, virtual=2)`."""

from typing import Any

from workloads.plugins import Folder, parse
from workloads.schedule import Schedule

# What users type: spellings of papers, of PyTorch's schedule classes, and short forms.
_SPELLINGS = {
    "breadth_first": ("LoopedBFS", "looped_bfs", "bfs"),
    "depth_first": ("dfs",),
    "dualpipe": ("DualPipe",),
    "dualpipe_v": ("DualPipeV", "dualpipev"),
    "gpipe": ("GPipe",),
    "interleaved": ("Interleaved1F1B", "interleaved_1f1b", "vpp"),
    "one_f_one_b": ("1F1B", "1f1b"),
    "pipedream": ("PipeDream",),
    "zb_h1": ("ZB-H1", "zb-h1", "zbh1", "InterleavedZeroBubble"),
    "zb_h2": ("ZB-H2", "zb-h2", "zbh2"),
    "zb_v": ("ZB-V", "zb-v", "zbv", "ZBVZeroBubble"),
}
_ALIASES = {spelling: name for name, spellings in _SPELLINGS.items() for spelling in spellings}
_FOLDER = Folder("workloads.schedules", "schedule", aliases=_ALIASES)


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
    name, options = parse(name, stages=stages, microbatches=microbatches, **options)
    schedule: Schedule = _FOLDER.build(name, **options)
    return schedule


def resolve(name: str) -> str:
    """The schedule that a name or an alias means.

    >>> resolve("1f1b")
    'one_f_one_b'
    """
    return _FOLDER.resolve(name)


def options(name: str) -> list[str]:
    """Names of the options that a schedule takes beside stages and microbatches.

    >>> options("interleaved")
    ['virtual', 'group', 'strict', 'rounds']
    """
    return list(defaults(name))


def defaults(name: str) -> dict[str, Any]:
    """The options of a schedule with their defaults.

    >>> defaults("interleaved")["virtual"]
    2
    """
    return _FOLDER.defaults(name, after=2)
