"""Figures of a schedule under a profile of times, as exact fractions, from the engine that simulates whole steps."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from typing import Any

from simulator.schedule_replay import replay_schedule
from simulator.validation.schedule_tables import Entry, Given, is_number
from simulator.validation.tables import LeftOutError
from topologies.plugins import unknown
from workloads.ops import P2P_MODES
from workloads.schedule import Schedule, peak_in_flight

TIMES = ("forward", "backward", "backward_input", "backward_weight", "hop")
KNOWN = (*TIMES, "mode", "pair_factor", "stages")
NOISE = 1e-6
"""How far from a whole number a sum of whole times may come out, by rounding of the factor of pairs."""
DIGITS = 9
"""Digits that files give of times that are no whole numbers."""

Figures = dict[str, list[Fraction]]
"""Each figure by name: one number, or one for each rank."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Times of one microbatch on all of a rank's virtual stages together, and the rules that go with them.

    `stages` is even, `last` with a factor for the last stage of each chain, or ramp: the k-th of S stages takes 1 + k/S
    times as long. `first` is what k starts from.

    >>> times = {"forward": 8, "backward": 16, "backward_input": 8, "backward_weight": 8}
    >>> [float(Profile.of(times | {"stages": stages}).factor(1, 2)) for stages in ("even", "last1.5", "ramp")]
    [1.0, 1.5, 1.5]
    """

    forward: Fraction
    backward: Fraction
    backward_input: Fraction
    backward_weight: Fraction
    hop: Fraction = Fraction(0)
    mode: str = "latency"
    pair_factor: Fraction = Fraction(1)
    stages: str = "even"
    first: int = 0

    @classmethod
    def of(cls, raw: Entry) -> "Profile":
        """A profile as a file has it; LeftOutError says what in it is not known here."""
        for name in raw:
            if name not in KNOWN:
                raise LeftOutError(unknown("entry of a profile", name, KNOWN))
        times = [_number(name, raw.get(name, 0)) for name in TIMES]
        mode, pair = str(raw.get("mode", "latency")), raw.get("pair_factor")
        if mode not in P2P_MODES:
            raise LeftOutError(unknown("mode", mode, P2P_MODES))
        factor = _number("pair_factor", 1 if pair is None else pair)
        forward, backward, backward_input, backward_weight, hop = times
        stages = str(raw.get("stages", "even"))
        profile = cls(forward, backward, backward_input, backward_weight, hop, mode, factor, stages)
        profile.factor(0, 1)
        return profile

    @classmethod
    def split(cls, *times: Fraction, mode: str = "latency", pair_factor: Fraction = Fraction(1)) -> "Profile":
        """Times of F, I, W and, if it takes any, a hop."""
        forward, backward_input, backward_weight, hop = (*times, Fraction(0))[:4]
        return cls(forward, backward_input + backward_weight, backward_input, backward_weight, hop, mode, pair_factor)

    def factor(self, place: int, count: int) -> Fraction:
        """Of the stage at a place, counted from 0, of a chain of so many stages."""
        if self.stages == "even":
            return Fraction(1)
        if self.stages == "ramp":
            return 1 + Fraction(place + self.first, count)
        end, _, text = self.stages.partition("last")
        if end or not text.replace(".", "", 1).isdigit():
            raise LeftOutError(f"unknown stages={self.stages!r}; known: even, ramp, and last with a factor (last1.5)")
        return Fraction(text) if place == count - 1 else Fraction(1)

    def factors(self, schedule: Schedule) -> list[Fraction]:
        """Of every stage of a schedule."""
        found = {
            stage: self.factor(place, len(chain)) for chain in schedule.chains for place, stage in enumerate(chain)
        }
        return [found[stage] for stage in range(schedule.stages)]

    def times(self, schedule: Schedule) -> tuple[Fraction, Fraction, Fraction]:
        """Of F, I and W in a schedule; where it splits no backward, all of B is in the second."""
        parts = self.backward_input, self.backward_weight
        if self.backward != sum(parts):
            kinds = {single.kind for order in schedule.orders.values() for each in order for single in each.singles}
            if {"B", "I"} <= kinds:
                raise LeftOutError(
                    f"backward={float(self.backward):g} is not {float(parts[0]):g} + {float(parts[1]):g}, and the "
                    "schedule has both whole and split backwards"
                )
            if "B" in kinds:
                parts = self.backward, Fraction(0)
        return self.forward, *parts


def _number(name: str, value: Any) -> Fraction:
    """A number of a profile, exactly."""
    if not is_number(value) or value < 0:
        raise LeftOutError(f"{name}={value!r} is no number of at least 0")
    return Fraction(value)


def figures(schedule: Schedule, profile: Profile) -> Figures:
    """What files of published schedules give of a schedule.

    It is replayed in a unit of which all times are whole numbers, so that sums of them have no error.

    >>> from workloads import schedules
    >>> found = figures(schedules.build("1f1b", 2, 2), Profile.split(*map(Fraction, (1, 1, 1))))
    >>> {name: [str(value) for value in values] for name, values in found.items() if len(values) == 1}
    {'makespan': ['9'], 'max_rank_span': ['9'], 'bubble_fraction': ['1/3'], 'span_bubble': ['3']}
    """
    times, factors = profile.times(schedule), profile.factors(schedule)
    virtual = len(set(schedule.weights)) // schedule.ranks
    fine = _common((*times, profile.hop, *(time * profile.pair_factor for time in times)))
    rough = _common(factors)
    unit = Fraction(1, virtual * fine * rough)
    forward, backward_input, backward_weight = (float(time * fine * virtual) for time in times)
    result = replay_schedule(
        schedule,
        forward,
        backward_input,
        backward_weight,
        float(profile.hop / unit),
        mode=profile.mode,
        pair_factor=float(profile.pair_factor),
        stage_factors=[float(factor * rough) for factor in factors],
    )
    accounts = result.timeline.accounts
    makespan, *spans = (_whole(each) * unit for each in (result.makespan, *(one.ends - one.begins for one in accounts)))
    busy = [_whole(account.compute) * unit for account in accounts]
    return {
        "makespan": [makespan],
        "max_rank_span": [max(spans)],
        "bubble_fraction": [1 - sum(busy) / (makespan * len(busy))],
        "span_bubble": [max(span - each for span, each in zip(spans, busy, strict=True))],
        "busy_per_rank": busy,
        "peak_in_flight": peaks(schedule, "W"),
        "peak_in_flight_release_at_input": peaks(schedule, "I"),
    }


def peaks(schedule: Schedule, release: str) -> list[Fraction]:
    """The most chunks that each rank holds from F to B, or to W or I."""
    ones = [1.0] * schedule.stages
    return [Fraction(peak_in_flight(schedule.orders[rank], ones, release)) for rank in range(schedule.ranks)]


def halved(schedule: Schedule) -> list[Fraction]:
    """The most chunks that each rank holds if I lets go of one half of a chunk, and W of the other."""
    change = {"F": Fraction(1), "B": Fraction(-1), "I": Fraction(-1, 2), "W": Fraction(-1, 2)}
    found = []
    for rank in range(schedule.ranks):
        kinds = (each.kind for action in schedule.orders[rank] for each in action.singles)
        found.append(max(accumulate(change[kind] for kind in kinds)))
    return found


def busy(schedule: Schedule, profile: Profile) -> list[Fraction]:
    """The time that each rank computes, added up without a replay."""
    forward, backward_input, backward_weight = profile.times(schedule)
    whole = {"F": forward, "B": backward_input + backward_weight, "I": backward_input, "W": backward_weight}
    factors, virtual = profile.factors(schedule), len(set(schedule.weights)) // schedule.ranks
    found = [Fraction(0)] * schedule.ranks
    for rank, order in schedule.orders.items():
        for action in order:
            share = (profile.pair_factor if action.parts else 1) / Fraction(virtual)
            found[rank] += share * sum(whole[each.kind] * factors[each.stage] for each in action.singles)
    return found


def equal(given: Given, got: Fraction, decimals: int | None = None) -> bool:
    """Whether a figure is the given one: exactly if that is whole, else to its digits, or to so many decimals.

    >>> equal(3, Fraction(3)), equal(3, Fraction(31, 10)), equal(Decimal("0.333333333"), Fraction(1, 3))
    (True, False, True)
    """
    if decimals is None and isinstance(given, int):
        return got == given
    last = Decimal(given).adjusted() - DIGITS + 1 if decimals is None else -decimals
    return abs(got - Fraction(given)) <= Fraction(10) ** last / 2


def _common(numbers: Iterable[Fraction]) -> int:
    """The least common denominator."""
    return math.lcm(*(number.denominator for number in numbers))


def _whole(time: float) -> Fraction:
    """A sum of whole times."""
    nearest = round(time)
    return Fraction(nearest if abs(time - nearest) <= NOISE else time)
