"""Files of published schedules: what each rank does, what that costs by a profile of times, and what is refused.

The format is that of `simulator/data/schedules.json.gz`, which says in its own `format` and `rules` what it means.
"""

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from workloads.schedule import Action, Schedule
from workloads.schedule_text import read_action

SOURCE = files("simulator") / "data" / "schedules.json.gz"
GZIPPED = b"\x1f\x8b"
LARGEST = 2**30
"""Bytes of text that a file may hold."""

COSTS = ("tF", "tI", "tW", "tcomm")
"""What a search was given as times of F, I, W and a hop."""

Given = int | Decimal
Entry = dict[str, Any]
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """One published schedule: the actions of each rank, in order, and its figures by profile.

    `stages` are ranks and `virtual` the virtual stages of each, 1 for a schedule of two directions. `cost` are the
    times that a searched schedule was made for, `memory_limit` its limit in microbatches where one is stated.
    """

    id: str
    schedule: str
    source: str
    stages: int
    microbatches: int
    virtual: int
    orders: tuple[tuple[Action, ...], ...]
    chains: tuple[tuple[int, ...], ...]
    group: int | None
    cost: Mapping[str, Given] | None
    memory_limit: int | None
    results: Mapping[str, Mapping[str, Given | list[Given]]]

    def replayable(self) -> Schedule:
        """The published orders as a schedule; those that break a rule or can never finish raise ValueError."""
        places = {
            single.stage: rank for rank, order in enumerate(self.orders) for each in order for single in each.singles
        }
        count = max(len(places), 1 + max(places, default=-1))
        placement = tuple(places.get(stage, 0) for stage in range(count))
        weights = tuple(range(self.stages)) * len(self.chains) if self.chains else ()
        return Schedule(self.id, dict(enumerate(self.orders)), placement, weights, self.chains)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a program rejects, and why."""

    schedule: str
    stages: int
    microbatches: int
    virtual: int
    reason: str

    @property
    def id(self) -> str:
        """What it is called in reports."""
        return f"{self.schedule.lower()}/p{self.stages}/m{self.microbatches}/v{self.virtual} refused"


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """A file: profiles as they stand there, tables, refusals, and tables that can never finish."""

    profiles: Mapping[str, Entry]
    tables: tuple[Table, ...]
    refused: tuple[Refusal, ...]
    deadlocks: tuple[Table, ...]


def read(path: str | Path | None = None) -> Published:
    """Published schedules from a file, gzipped or not, or the package's own; ValueError says what is wrong with it."""
    file = SOURCE if path is None else Path(path)
    try:
        text = file.read_bytes()
        if text.startswith(GZIPPED):
            text = _unpacked(text)
        content = json.loads(text, parse_float=Decimal, parse_constant=_no_number)
        return _published(content)
    except OSError as error:
        raise ValueError(f"cannot read {file}: {error.strerror or error}") from None
    except (EOFError, zlib.error, ValueError, RecursionError) as error:
        raise ValueError(f"cannot read {file}: {error}") from None


def _unpacked(text: bytes) -> bytes:
    """The content of a gzipped file, unless it is beyond any list of schedules."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    content = unpacker.decompress(text, LARGEST)
    if unpacker.unconsumed_tail:
        raise ValueError(f"it holds more than {LARGEST} bytes")
    return content if unpacker.eof else gzip.decompress(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _published(content: object) -> Published:
    """What a file holds, all of it checked but for what profiles mean."""
    whole = _kind(content, dict, "the file")
    profiles = _need(whole, "profiles", dict, "the file")
    for name, profile in profiles.items():
        _kind(profile, dict, f"profile {name!r}")
    tables = tuple(
        _table(entry, f"table {place}") for place, entry in enumerate(_need(whole, "tables", list, "the file"))
    )
    refused = tuple(_refusal(entry, f"refusal {place}") for place, entry in enumerate(_list(whole, "refused")))
    deadlocks = tuple(
        _table(entry, f"deadlock {place}") for place, entry in enumerate(_list(whole, "deadlocking_tables"))
    )
    if not tables:
        raise ValueError("it has no tables")
    for table in tables:
        for profile in table.results:
            if profile not in profiles:
                raise ValueError(f"{table.id}: no profile {profile!r}; known: {', '.join(profiles) or 'none'}")
    return Published(profiles, tables, refused, deadlocks)


def _list(whole: Entry, name: str) -> list[Any]:
    """A list that a file may lack."""
    return _need(whole, name, list, "the file") if name in whole else []


def _table(entry: object, where: str) -> Table:
    """A table, deadlocking or not."""
    raw = _kind(entry, dict, where)
    where = name = _need(raw, "id", str, where)
    stages, microbatches, virtual = (_count(raw, key, where) for key in ("P", "M", "V"))
    orders = tuple(_order(line, f"{where}, rank {rank}") for rank, line in enumerate(_need(raw, "ranks", list, where)))
    if len(orders) != stages:
        raise ValueError(f"{where}: actions of {len(orders)} ranks; P={stages}")
    return Table(
        name,
        _need(raw, "schedule", str, where),
        str(raw.get("source", "")),
        stages,
        microbatches,
        virtual,
        orders,
        _chains(raw, stages, where),
        _count(raw, "group_size", where) if "group_size" in raw else None,
        _cost(raw["scheduler_cost"], where) if "scheduler_cost" in raw else None,
        _limit(raw, stages, where),
        _results(raw.get("results", {}), where),
    )


def _order(line: object, where: str) -> tuple[Action, ...]:
    """The actions of one rank."""
    try:
        return tuple(map(read_action, _kind(line, str, where).split()))
    except ValueError as error:
        raise ValueError(f"{where}: {str(error).removeprefix(f'{where}: ')}") from None


def _chains(raw: Entry, stages: int, where: str) -> tuple[tuple[int, ...], ...]:
    """The stages of each direction, where there are two; stages p to 2p - 1 are the second one's."""
    if "chains" not in raw:
        return ()
    chains = tuple(tuple(_kind(chain, list, f"{where}, chains")) for chain in _need(raw, "chains", list, where))
    if sorted(map(str, sum(chains, ()))) != sorted(map(str, range(stages * len(chains)))):
        raise ValueError(f"{where}: chains {raw['chains']}; each of {stages} × {len(chains)} stages is in one, once")
    return chains


def _limit(raw: Entry, stages: int, where: str) -> int | None:
    """A limit such as `2*P`, in microbatches."""
    limit = raw.get("scheduler_memory_limit")
    if limit is None:
        return None
    factor = str(limit).removesuffix("*P")
    if not factor.isdigit():
        raise ValueError(f"{where}: scheduler_memory_limit={limit!r} is neither a count nor one such as '2*P'")
    return int(factor) * (stages if factor != str(limit) else 1)


def _cost(raw: object, where: str) -> dict[str, Given]:
    """Times of F, I, W and a hop."""
    cost = _kind(raw, dict, f"{where}, scheduler_cost")
    for name in COSTS:
        if not is_number(cost.get(name)) or cost[name] < 0:
            raise ValueError(f"{where}, scheduler_cost: {name}={cost.get(name)!r} is no number of at least 0")
    return cost


def _results(raw: object, where: str) -> dict[str, dict[str, Given | list[Given]]]:
    """Figures by profile, each a number or one for each rank."""
    results = _kind(raw, dict, f"{where}, results")
    for profile, figures in results.items():
        for name, value in _kind(figures, dict, f"{where}, {profile}").items():
            for each in value if isinstance(value, list) else [value]:
                if not is_number(each):
                    raise ValueError(f"{where}, {profile}: {name}={each!r} is no number")
    return results


def _refusal(entry: object, where: str) -> Refusal:
    raw = _kind(entry, dict, where)
    stages, microbatches, virtual = (_count(raw, key, where) for key in ("P", "M", "V"))
    return Refusal(_need(raw, "schedule", str, where), stages, microbatches, virtual, _need(raw, "reason", str, where))


def is_number(value: object) -> bool:
    """Whether JSON had a number there.

    >>> is_number(3), is_number(Decimal("0.5")), is_number(True), is_number("3")
    (True, True, False, False)
    """
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _count(raw: Entry, key: str, where: str) -> int:
    """A whole number of at least 1."""
    value = raw.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{where}: {key}={value!r} is no whole number of at least 1")
    return value


def _need(raw: Entry, key: str, kind: type[Kind], where: str) -> Kind:
    """An entry that must be there."""
    if key not in raw:
        raise ValueError(f"{where} has no {key!r}")
    return _kind(raw[key], kind, f"{where}, {key}")


def _kind(value: object, kind: type[Kind], where: str) -> Kind:
    """A value that must be of some type."""
    if not isinstance(value, kind):
        names = {"dict": "an object", "list": "a list", "str": "text"}
        raise ValueError(f"{where}: {str(value)[:40]!r} is not {names[kind.__name__]}")  # noqa: TRY004 (one error for bad files)
    return value
