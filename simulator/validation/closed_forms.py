"""Closed forms of pipeline schedules, and whether replays come to them exactly.

They are exact where all times are multiples of v, the virtual stages a rank. Sources: GPipe, arXiv:1811.06965;
Megatron-LM, arXiv:2104.04473; Breadth-First Pipeline Parallelism, arXiv:2211.05953; Zero Bubble Pipeline Parallelism,
arXiv:2401.10241; the documentation of DualPipe (github.com/deepseek-ai/DualPipe).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import pandas as pd

from simulator.validation.schedule_figures import Figures, Profile, figures
from workloads import schedules

ALL = ("latency", "send_block", "recv_block")
STEADY = Fraction(8, 10)
"""The least factor of overlapped pairs for which the form of DualPipe holds."""


@dataclass(frozen=True)
class Case:
    """A size and times: p ranks, m microbatches, v virtual stages a rank; F, I, W and c, the times of a rank and a hop.

    For DualPipe, F, I and W are of one stage, and m counts both directions. `phi` is what an overlapped pair takes of
    the times of its two actions.
    """

    p: int
    m: int
    v: int
    F: int
    I: int  # noqa: E741 (the letter of the literature)
    W: int
    c: int = 0
    mode: str = "latency"
    phi: Fraction = Fraction(1)

    @property
    def B(self) -> int:  # noqa: N802
        """The whole backward."""
        return self.I + self.W

    @property
    def T(self) -> int:  # noqa: N802
        """The time that a rank computes."""
        return self.m * (self.F + self.B)

    @property
    def flush(self) -> int:
        """The makespan of GPipe and 1F1B."""
        return (self.m + self.p - 1) * (self.F + self.B)

    @property
    def looped(self) -> Fraction:
        """The makespan of interleaved 1F1B."""
        return self.T + Fraction((self.p - 1) * (self.F + self.B), self.v)

    @property
    def round(self) -> int:
        """Microbatches a round where rounds are as long as each other: the ranks, if these divide the microbatches."""
        return self.m // max(1, self.m // self.p)

    def __str__(self) -> str:
        times = f"F={self.F} I={self.I} W={self.W}"
        hops = f" c={self.c} {self.mode}" if self.c else ""
        return f"p={self.p} m={self.m} v={self.v} {times}{hops}" + (f" φ={self.phi}" if self.phi != 1 else "")


@dataclass(frozen=True)
class Form:
    """A figure of a schedule in closed form, a number or one for each rank, and where it holds.

    Without `modes` it is for hops that take no time; else for hops in these modes that take up to `most`.
    """

    schedule: str
    figure: str
    value: Callable[[Case], Any]
    holds: Callable[[Case], bool] = lambda _: True
    modes: tuple[str, ...] = ()
    most: Callable[[Case], Fraction | int] = lambda _: 10**6

    @cached_property
    def takes_virtual(self) -> bool:
        """Whether v is an option of the schedule."""
        return "virtual" in schedules.options(self.schedule.partition(",")[0])

    @property
    def has_pairs(self) -> bool:
        """Whether the schedule overlaps actions in pairs."""
        return self.schedule.startswith("dualpipe")

    @property
    def name(self) -> str:
        """What it is called in reports and tests."""
        return " ".join((self.schedule, self.figure, *self.modes))

    def fits(self, case: Case) -> bool:
        """Whether it holds for a case."""
        if bool(case.c) != bool(self.modes) or (case.c and (case.mode not in self.modes or case.c > self.most(case))):
            return False
        return (self.takes_virtual or case.v == 1) and (self.has_pairs or case.phi == 1) and self.holds(case)

    def expected(self, case: Case) -> list[Fraction]:
        """The figure by the form."""
        value = self.value(case)
        return [Fraction(each) for each in (value if isinstance(value, list) else [value])]

    def replayed(self, case: Case) -> list[Fraction]:
        """The figure by a replay."""
        return _replayed(self.schedule, case, takes_virtual=self.takes_virtual)[self.figure]


@lru_cache(maxsize=64)
def _replayed(name: str, case: Case, *, takes_virtual: bool) -> Figures:
    """All figures of a schedule; a rank of DualPipeV has two stages, each with the times of one."""
    schedule = schedules.build(name, case.p, case.m, **({"virtual": case.v} if takes_virtual else {}))
    stages = 2 if name == "dualpipe_v" else 1
    times = (Fraction(time * stages) for time in (case.F, case.I, case.W))
    return figures(schedule, Profile.split(*times, Fraction(case.c), mode=case.mode, pair_factor=case.phi))


def _dualpipe(case: Case, n: int, ranks: int) -> Fraction:
    """DualPipe's documentation, and the pairs that fewer ranks than one direction has can form."""
    pair = case.phi * (case.F + case.B)
    return n * pair + (ranks // 2 - 1) * (pair + case.B - 3 * case.W) + (ranks + 1) * (case.F + case.B - pair)


def _zero_bubble(case: Case, longest: int) -> Fraction:
    """What ZB-H1 leaves of the bubble of 1F1B, as much on fewer stages a rank as on more."""
    return case.T + Fraction((case.p - 1) * (case.F + longest - case.W), case.v) + 4 * (case.p - 1) * case.c


def _full(case: Case) -> bool:
    return case.m >= case.p


def _whole_rounds(case: Case) -> bool:
    return case.m % case.p == 0


def _even_rounds(case: Case) -> bool:
    return _full(case) and case.m % (case.m // case.p) == 0


def _several(case: Case) -> bool:
    return case.p > 1


def _zb_h1(case: Case) -> bool:
    return case.m >= 2 * case.p and _even_rounds(case) and case.W <= case.F


def _zb_h2(case: Case) -> bool:
    return case.m >= 2 * case.p and min(case.F, case.I) >= case.W


def _zb_v(case: Case) -> bool:
    return case.m >= 2 * case.p - 1 and case.W <= case.F <= case.I and case.v == 1


def _equal_times(case: Case) -> bool:
    return case.F == case.I == case.W


def _dualpipe_v_fits(case: Case) -> bool:
    return case.m >= 2 * case.p and _equal_times(case) and case.phi >= STEADY


def _dualpipe_fits(case: Case) -> bool:
    return case.p % 2 == 0 and case.m % 2 == 0 and _dualpipe_v_fits(case)


def _interleaved(schedule: str, holds: Callable[[Case], bool]) -> Iterator[Form]:
    """Interleaved 1F1B by any rule of rounds."""
    yield Form(schedule, "makespan", lambda k: k.looped, holds)
    yield Form(
        schedule,
        "peak_in_flight",
        lambda k: [min(k.m * k.v, (k.v - 1) * k.round + 2 * (k.p - r - 1) + 1) for r in range(k.p)],
        holds,
    )
    yield Form(
        schedule,
        "makespan",
        lambda k: k.looped + 2 * (k.p * k.v - 1) * k.c,
        lambda k: _several(k) and _whole_rounds(k),
        ("latency",),
        lambda k: Fraction(min(k.F, k.B), k.v),
    )


def _one_f_one_b(schedule: str) -> Iterator[Form]:
    """1F1B, drained after m microbatches or not."""
    yield Form(schedule, "makespan", lambda k: k.flush)
    yield Form(schedule, "peak_in_flight", lambda k: [min(k.m, k.p - r) for r in range(k.p)])
    yield Form(
        schedule,
        "makespan",
        lambda k: k.flush + k.c * (Fraction(2 * (k.p - 1) * k.m, k.p) + 2 * (k.p - 2)),
        lambda k: _several(k) and _whole_rounds(k),
        ("latency",),
    )
    yield Form(
        schedule,
        "makespan",
        lambda k: k.flush + k.c * (k.m + 1 if k.p == 2 else 2 * k.m + 2 * k.p - 5),
        lambda k: _several(k) and _full(k),
        ("recv_block",),
    )


FORMS = (
    Form("naive", "makespan", lambda k: k.p * k.T),
    Form("naive", "peak_in_flight", lambda k: [1] * k.p),
    Form("gpipe", "makespan", lambda k: k.flush),
    Form("gpipe", "peak_in_flight", lambda k: [k.m] * k.p),
    Form("gpipe", "makespan", lambda k: k.flush + 2 * (k.p - 1) * k.c, modes=("latency",)),
    Form("gpipe", "makespan", lambda k: k.flush + 2 * (k.m + k.p - 2) * k.c, _several, ("send_block", "recv_block")),
    *_one_f_one_b("one_f_one_b"),
    *_one_f_one_b("pipedream"),
    *_interleaved("interleaved", _whole_rounds),
    *_interleaved("interleaved,rounds=pytorch", _even_rounds),
    *_interleaved("depth_first", _whole_rounds),
    Form("breadth_first", "makespan", lambda k: k.looped, _full),
    Form("breadth_first", "peak_in_flight", lambda k: [k.m * k.v] * k.p, _full),
    Form(
        "breadth_first",
        "makespan",
        lambda k: k.looped + 2 * (k.p - 1) * k.c,
        _full,
        ("latency",),
        lambda k: Fraction((k.m - k.p) * min(k.F, k.B), k.p * k.v),
    ),
    Form("zb_h1", "max_rank_span", lambda k: _zero_bubble(k, k.I), _zb_h1),
    Form("zb_h1", "makespan", lambda k: _zero_bubble(k, max(k.I, k.W)), _zb_h1),
    Form("zb_h1", "peak_in_flight", lambda k: [(k.v - 1) * k.round + k.p] * k.p, _zb_h1),
    Form(
        "zb_h1",
        "peak_in_flight_release_at_input",
        lambda k: [k.p - r for r in range(k.p)],
        lambda k: k.v == 1 and _zb_h1(k),
    ),
    *(
        Form(
            "zb_h1",
            figure,
            lambda k: _zero_bubble(k, k.I),
            lambda k: k.v == 1 and _zb_h1(k) and k.W <= k.I,
            ("latency",),
            lambda k: Fraction(min(k.F, k.I, k.W), 2),
        )
        for figure in ("max_rank_span", "makespan")
    ),
    Form("zb_h2", "max_rank_span", lambda k: k.T + (k.p - 1) * (k.F + k.I - 2 * k.W), _zb_h2),
    Form("zb_h2", "peak_in_flight", lambda k: [2 * k.p - 1] * k.p, _zb_h2),
    Form("zb_v", "max_rank_span", lambda k: k.T + (k.p - 1) * (max(k.F, k.I) - k.W), _zb_v),
    Form("zb_v", "makespan", lambda k: k.T + Fraction((k.p - 1) * k.F, 2), lambda k: _zb_v(k) and _equal_times(k)),
    Form("zb_v", "peak_in_flight", lambda k: [2 * k.p] * k.p, _zb_v),
    Form("dualpipe", "makespan", lambda k: _dualpipe(k, k.m, k.p), _dualpipe_fits),
    Form("dualpipe", "peak_in_flight", lambda k: [k.p + 1] * k.p, _dualpipe_fits),
    Form("dualpipe_v", "makespan", lambda k: _dualpipe(k, 2 * k.m, 2 * k.p), _dualpipe_v_fits),
    Form("dualpipe_v", "peak_in_flight", lambda k: [2 * k.p + 1] * k.p, _dualpipe_v_fits),
)
"""Every one that literature states or that follows from it; W of zero bubble schedules must be short enough."""

TIMES = ((6, 6, 6), (12, 18, 6), (18, 12, 6), (6, 6, 12))
"""F, I and W of the cases that `validate` replays."""


def cases() -> Iterator[Case]:
    """Sizes and times for all forms, few enough to replay in seconds."""
    hops = ((0, "latency"), *((1, mode) for mode in ALL))
    for p, rounds, v, times, (c, mode) in product((2, 4), (1, 2, 3), (1, 2, 3), TIMES, hops):
        case = Case(p, rounds * p, v, *times, c, mode)
        yield case
        yield replace(case, phi=STEADY)


def validate() -> pd.DataFrame:
    """Each form in each of the cases that it fits, and whether a replay comes to it."""
    rows = [
        {"case": str(case), "form": form.name, "expected": form.expected(case), "replayed": form.replayed(case)}
        for case, form in product(cases(), FORMS)
        if form.fits(case)
    ]
    frame = pd.DataFrame(rows)
    return frame.assign(matches=frame["expected"] == frame["replayed"])
