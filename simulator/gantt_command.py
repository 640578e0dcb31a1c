"""What `stepsim gantt` does: a schedule by name or from a CSV file, replayed, in figures, text, CSV and pictures."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from simulator.outputs import check_picture, check_writable, save_picture

if TYPE_CHECKING:
    from simulator.schedule_replay import ScheduleResult
    from workloads.schedule import Schedule


def gantt(
    schedule: str, *, counts: dict[str, int | None], times: dict[str, Any], files: dict[str, str | None], **shown: bool
) -> tuple[dict[str, Any], str]:
    """The figures of a schedule, and the same as text.

    `counts` are stages, microbatches, virtual and chains, None where not given; `times` go to `replay_schedule`;
    `files` are `out`, a picture, and `csv`, the schedule. `shown` says whether the picture has `arrows` and `memory`,
    and whether the table of ranks and steps is printed: `text`.
    """
    from simulator.schedule_replay import replay_schedule
    from workloads import schedule_text

    check_writable(*files.values())
    check_picture(files["out"])
    if files["csv"] is not None and files["csv"] == files["out"]:
        raise ValueError(f"--csv and --out are both {files['csv']}; the picture would take the schedule's place")
    is_file = schedule.lower().endswith(".csv")
    built = load(schedule, **counts) if is_file else build(_timed(schedule, times), **counts)
    result = replay_schedule(built, **times)
    if files["csv"] is not None:
        schedule_text.save(built, files["csv"])
    if files["out"] is not None:
        save_picture(result.plot("gantt", arrows=shown["arrows"], memory=shown["memory"]), files["out"])
    report, table = figures(result), str(built)
    warnings = [*built.warnings, *_idle(built, times)]
    lines = [table if shown["text"] else result.title, *(f"{name:<15} {value}" for name, value in report.items())]
    lines += [f"{'warning':<15} {warning}" for warning in warnings]
    return report | {"warnings": warnings} | ({"text": table} if shown["text"] else {}), "\n".join(lines)


def _timed(schedule: str, times: dict[str, Any]) -> str:
    """A schedule's text with the times of its replay, where it is searched for times and the text names none.

    >>> _timed("zb_auto,memory=2", {"forward": 3.0, "hop": 0.0})
    'zb_auto,memory=2,forward=3.0,hop=0.0'
    """
    from workloads import schedules
    from workloads.plugins import parse

    name, options = parse(schedule)
    known = schedules.defaults(name)
    searched = [key for key in ("forward", "backward_input", "backward_weight", "hop") if key in known and key in times]
    given = any(key in options for key in searched)
    return schedule if given else ",".join([schedule, *(f"{key}={times[key]}" for key in searched)])


def _idle(built: "Schedule", times: dict[str, Any]) -> Iterator[str]:
    """Options that make no difference to a schedule."""
    actions = [action for order in built.orders.values() for action in order]
    if times["pair_factor"] != 1 and not any(action.parts for action in actions):
        yield f"--pair-factor {times['pair_factor']:g} changes nothing: {built.name} overlaps no F and B"
    if times["release"] != "W" and not any(action.kind == "I" for action in actions):
        yield f"--release {times['release']} changes nothing: {built.name} has no B in two parts"


def figures(result: "ScheduleResult") -> dict[str, Any]:
    """The figures of a replay by name."""
    return {
        "makespan": result.makespan,
        "span": result.span,
        "bubble_fraction": result.bubble_fraction,
        "bubble_ratio": result.bubble_ratio,
        "peak_in_flight": list(result.peak_in_flight),
    }


def build(name: str, *, chains: int | None = None, **counts: int | None) -> "Schedule":
    """A schedule by name or text, which needs stages and microbatches.

    >>> str(build("zb_h1,virtual=2", stages=2, microbatches=4)).splitlines()[0]
    'zb_h1: ranks=2 stages=4 microbatches=4'
    """
    from workloads import schedules

    if chains is not None:
        raise ValueError(f"--chains {chains} is for schedules from CSV files; {name} knows its own")
    for count in ("stages", "microbatches"):
        if counts[count] is None:
            raise ValueError(f"{name} needs --{count}")
    return schedules.build(name, **{count: value for count, value in counts.items() if value is not None})


def load(path: str, *, chains: int | None = None, **counts: int | None) -> "Schedule":
    """A schedule from a CSV file, whose counts are what the file says: see `workloads.schedule_text`."""
    from workloads import schedule_text

    if counts.get("virtual") is not None:
        raise ValueError(f"{path}: --virtual {counts['virtual']} is no option of a file, which says what is where")
    try:
        found = schedule_text.load(path, 1 if chains is None else chains)
    except ValueError as error:
        hint = (
            "; if microbatches enter at both ends, say --chains 2" if chains is None and "never" in str(error) else ""
        )
        raise ValueError(f"{error}{hint}") from None
    for count, value in (("stages", found.ranks), ("microbatches", found.microbatches)):
        if counts.get(count) not in (None, value):
            raise ValueError(f"{path}: --{count} {counts[count]}, but the file has {value}")
    return found


def factors(text: str | None) -> Sequence[float] | None:
    """Numbers of a text such as 1,1,1,1.5.

    >>> factors("1,1,1,1.5")
    [1.0, 1.0, 1.0, 1.5]
    """
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--stage-factors {text}: not numbers such as 1,1,1,1.5") from None
