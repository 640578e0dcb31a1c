"""What is checked of published schedules: orders, figures, searches, refusals, and tables that can never finish."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import product

import joblib

from simulator.validation.schedule_figures import Figures, Profile, busy, equal, figures, halved
from simulator.validation.schedule_generators import SEARCHED, generated, refusing, searched
from simulator.validation.schedule_tables import COSTS, Given, Published, Refusal, Table
from simulator.validation.tables import LeftOutError
from workloads.schedule import Schedule

MANY = 40
"""Tables from which on it pays to start other processes."""
NEVER = "can never finish"
LISTS = ("busy_per_rank", "peak_in_flight", "peak_in_flight_release_at_input")
BUBBLES = ("span_bubble", "bubble_fraction")
"""By which a searched schedule is judged: that of a rank within its own span, and that of all in the makespan."""

OWN_RULES = ("at least as many microbatches as stages",)
"""What others refuse and stepsim does not: it warns."""
RULES = {
    r"evenly into": ("evenly", "rounds"),
    r"number of stages|2P": ("twice", "two"),
    r"\beven\b|\bodd\b|divisible by 2\b|multiple of 2\b": ("even", "odd"),
}
"""For what the reason of a refusal says, words of which stepsim's own has one if it is by the same rule."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a file says of a schedule, and what stepsim makes of it.

    `part` is what kind of check it is. `rank` is empty for what is said of all ranks together, `profile` for what does
    not depend on times; `left_out` is why it could not be made, else empty.
    """

    part: str
    table: str
    schedule: str
    what: str
    given: float | str
    got: float | str = ""
    matches: bool = False
    profile: str = ""
    rank: int | None = None
    assumed: str = ""
    left_out: str = ""


def checks(published: Published, workers: int = 1) -> list[Check]:
    """Everything that a file of published schedules says."""
    profiles, decimals = _profiles(published), _decimals(published)
    tables = published.tables
    run = joblib.Parallel(n_jobs=workers if len(tables) >= MANY else 1)
    found = run(joblib.delayed(_of_table)(table, profiles, decimals) for table in tables)
    return [
        *(check for each in found for check in each),
        *map(refusal, published.refused),
        *map(deadlock, published.deadlocks),
    ]


def _of_table(table: Table, profiles: Mapping[str, Profile | str], decimals: int) -> list[Check]:
    """Its order or what was searched for the same times, and its figures under each profile."""
    try:
        given = table.replayable()
    except ValueError as error:
        return [Check("orders", table.id, table.schedule, "order", "a legal order", str(error))]
    found = list(search(table, given)) if table.schedule in SEARCHED else [order(table, given)]
    for name, results in table.results.items():
        profile = profiles[name]
        try:
            replayed = figures(given, profile) if isinstance(profile, Profile) else profile
        except ValueError as error:
            replayed = str(error)
        found += _figures(table, name, results, replayed, decimals)
    return found


def order(table: Table, given: Schedule) -> Check:
    """Whether the schedule of that name and size has the same actions in the same order on each rank."""
    found = Check("orders", table.id, table.schedule, "order", f"{sum(map(len, table.orders))} actions")
    try:
        mine, assumed = generated(table)
    except LeftOutError as reason:
        return replace(found, left_out=str(reason))
    except ValueError as error:
        return replace(found, got=str(error))
    differing = _difference(given, mine)
    return replace(found, got=differing or found.given, matches=not differing, assumed=assumed)


def _difference(given: Schedule, mine: Schedule) -> str:
    """The first action in which an order differs, in words."""
    for rank, wanted in given.orders.items():
        made = mine.orders.get(rank, ())
        for place in range(max(len(wanted), len(made))):
            pair = [str(each[place]) if place < len(each) else "nothing" for each in (wanted, made)]
            if pair[0] != pair[1]:
                return f"rank {rank}, action {place}: {pair[1]} in place of {pair[0]}"
    return "" if mine.ranks == given.ranks else f"{mine.ranks} ranks in place of {given.ranks}"


def _figures(
    table: Table,
    profile: str,
    results: Mapping[str, Given | list[Given]],
    found: Figures | str,
    decimals: int,
) -> Iterator[Check]:
    """Each figure of a table under a profile; `found` is why there are none if it is text."""
    for name, value in results.items():
        values = value if isinstance(value, list) else [value]
        base = Check("figures", table.id, table.schedule, name, "", profile=profile)
        if isinstance(found, str):
            yield replace(base, given=str(value), left_out=found)
        elif name not in found:
            yield replace(base, given=str(value), left_out=f"no figure {name!r}; known: {', '.join(found)}")
        elif len(values) != len(found[name]):
            yield replace(base, given=f"{len(values)} numbers", got=f"{len(found[name])} numbers")
        else:
            places = decimals if name == "bubble_fraction" else None
            for rank, (wanted, mine) in enumerate(zip(values, found[name], strict=True)):
                yield replace(
                    base,
                    given=float(wanted),
                    got=float(mine),
                    matches=equal(wanted, mine, places),
                    rank=rank if name in LISTS else None,
                )


def search(table: Table, given: Schedule) -> Iterator[Check]:
    """Whether stepsim's own search finds no larger bubble at no more memory, both replayed with the table's times."""
    profile, assumed = _cost(table)
    base = Check("searches", table.id, table.schedule, "search", "", assumed=assumed)
    limit = table.memory_limit * table.virtual if table.memory_limit else 0
    try:
        theirs = figures(given, profile)
        chunks = limit or int(max(theirs["peak_in_flight"]))
        name = SEARCHED[table.schedule]
        made = searched(name, table.stages, table.microbatches, profile=profile, chunks=chunks)
        mine = figures(made, profile)
    except LeftOutError as reason:
        yield replace(base, left_out=str(reason))
        return
    except ValueError as error:
        yield replace(base, got=str(error))
        return
    for name in (*BUBBLES, "peak_in_flight"):
        wanted, found = max(theirs[name]), max(mine[name])
        yield replace(base, what=name, given=float(wanted), got=float(found), matches=found <= wanted)
    most, found = max(Fraction(limit), *halved(given)), max(halved(made))
    assumed = "; ".join(filter(None, (assumed, "I lets go of one half of a chunk, W of the other")))
    yield replace(base, what="memory", given=float(most), got=float(found), matches=found <= most, assumed=assumed)


def _cost(table: Table) -> tuple[Profile, str]:
    """The times a schedule was searched for, and what of them is assumed."""
    if table.cost is None:
        return Profile.split(*[Fraction(1)] * 3), "searched for F = I = W without hops"
    return Profile.split(*(Fraction(table.cost[name]) for name in COSTS)), ""


def refusal(given: Refusal) -> Check:
    """Whether stepsim refuses the same, and names the same rule; what it allows by its own rule it must warn of."""
    found = Check("refusals", given.id, given.schedule, "refusal", given.reason)
    try:
        made = refusing(given)
    except LeftOutError as reason:
        return replace(found, left_out=str(reason))
    except ValueError as error:
        words = next((words for rule, words in RULES.items() if re.search(rule, given.reason)), ())
        unknown = "" if words else f"a rule in words that are not known here: {given.reason}"
        return replace(found, got=str(error), matches=_names(str(error), words, given.reason), left_out=unknown)
    allowed = any(words in given.reason for words in OWN_RULES) and bool(made.warnings)
    got = f"allowed, with the warning {made.warnings[0]}" if made.warnings else "allowed"
    return replace(found, got=got, matches=allowed, assumed="allowed by a rule of stepsim's own" if allowed else "")


def _names(message: str, words: tuple[str, ...], reason: str) -> bool:
    """Whether a message has one of the words of a rule, and every number that the reason derives from it.

    >>> _names("3 microbatches; needs twice the stages, 8", ("twice", "two"), "needs M >= 2P = 8")
    True
    """
    numbers = re.findall(r"\d+", message)
    return any(word in message for word in words) and all(each in numbers for each in re.findall(r" = (\d+)", reason))


def deadlock(table: Table) -> Check:
    """Whether an order that can never finish is known as such."""
    found = Check("deadlocks", table.id, table.schedule, "order", NEVER)
    try:
        table.replayable()
    except ValueError as error:
        return replace(found, got=str(error), matches=NEVER in str(error))
    return replace(found, got="accepted")


def _profiles(published: Published) -> dict[str, Profile | str]:
    """Profiles by name, or why one cannot be used."""
    found: dict[str, Profile | str] = {}
    for name, raw in published.profiles.items():
        try:
            profile = Profile.of(raw)
        except LeftOutError as reason:
            found[name] = f"profile {name}: {reason}"
        else:
            found[name] = (
                replace(profile, first=_first(published, name, profile)) if profile.stages == "ramp" else profile
            )
    return found


def _first(published: Published, name: str, profile: Profile) -> int:
    """What the stages of a ramp count from, 0 or 1, by the busy times of the tables; 0 if these do not tell."""
    for table, first in product(published.tables, (0, 1)):
        given = table.results.get(name, {}).get("busy_per_rank")
        try:
            found = busy(table.replayable(), replace(profile, first=first)) if isinstance(given, list) else []
        except ValueError:
            continue
        if found and isinstance(given, list) and len(given) == len(found) and all(map(equal, given, found)):
            return first
    return 0


def _decimals(published: Published) -> int:
    """To how many decimals a file gives bubble fractions: those of the one with most."""
    fractions = [each.get("bubble_fraction") for table in published.tables for each in table.results.values()]
    return max((-int(each.as_tuple().exponent) for each in fractions if isinstance(each, Decimal)), default=0)
