"""Bubble rates of the Zero Bubble paper against replays with the times that it profiled.

Source: Zero Bubble Pipeline Parallelism, arXiv:2401.10241, tables 5 (rates) and 9 (times). A rate is the share of the
longest span of a rank in which it does not compute. Assumes that all stages take the profiled times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from typing import Any

import joblib
import pandas as pd

from simulator.validation import report
from simulator.validation.schedule_figures import Profile, figures
from simulator.validation.schedule_generators import searched
from workloads import schedules
from workloads.schedule import Schedule

SOURCE = files("simulator") / "data" / "schedule_bubbles_published.csv"
TIMES = ["forward_time", "backward_input_time", "backward_weight_time", "hop_time"]
LAST = Fraction(1, 10**4)
"""The last digit that is printed."""
NO_FEWER = Fraction(35, 10**4)
"""By how much interleaved 1F1B may come out above what is printed: the paper counts fewer of its hops."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How far a replayed rate may be below and above the printed one."""

    below: Fraction
    above: Fraction


EQUAL = Expected(LAST / 2, LAST / 2)
NO_MORE = Expected(Fraction(1), LAST / 2)
EXPECTED = {
    "1F1B": EQUAL,
    "1F1B-I": Expected(Fraction(0), NO_FEWER),
    "ZB-H1": EQUAL,
    "ZB-H2": EQUAL,
    "ZB-1p": NO_MORE,
    "ZB-2p": NO_MORE,
}
"""By schedule. What was searched for may be found better than in the paper."""


def compare(workers: int = 1) -> pd.DataFrame:
    """Each printed rate with the replayed one."""
    rows = joblib.Parallel(n_jobs=workers)(joblib.delayed(row)(*each) for each in printed())
    return pd.DataFrame(rows).assign(row=range(len(rows)))


def printed() -> Iterator[tuple[dict[Any, Any], list[Fraction]]]:
    """The rows of table 5, each with the times of F, I, W and a hop that go with it."""
    with SOURCE.open(encoding="utf-8") as file:
        frame = pd.read_csv(file, dtype={"value": str})
    times = frame[frame["table"] == 9].pivot(index=["model", "microbatches"], columns="quantity", values="value")
    profiled = {key: [Fraction(value) for value in values] for key, *values in times[TIMES].itertuples(name=None)}
    for rate in frame[frame["table"] == 5].to_dict("records"):
        yield rate, profiled[rate["model"], rate["microbatches"]]


def row(rate: dict[Any, Any], times: list[Fraction]) -> dict[str, Any]:
    """A printed rate beside the replayed one."""
    profile = Profile.split(*times)
    span = figures(_schedule(rate, profile), profile)["max_rank_span"][0]
    replayed = 1 - rate["microbatches"] * (profile.forward + profile.backward) / span
    wanted, expected = Fraction(rate["value"]), EXPECTED[rate["schedule"]]
    return {
        "model": rate["model"],
        "microbatches": rate["microbatches"],
        "schedule": rate["schedule"],
        "series": rate["series"],
        "measured": float(wanted),
        "predicted": float(replayed),
        "matches": -expected.below <= replayed - wanted <= expected.above,
    }


def _schedule(rate: dict[Any, Any], profile: Profile) -> Schedule:
    """The schedule of a printed rate; interleaved 1F1B has a layer a stage, two fewer at the ends."""
    ranks, microbatches = rate["pp"], rate["microbatches"]
    match rate["schedule"]:
        case "ZB-1p" | "ZB-2p" as name:
            return searched("zb_auto", ranks, microbatches, profile=profile, chunks=ranks * int(name[3]))
        case "1F1B-I":
            return schedules.build("interleaved", ranks, microbatches, virtual=(rate["layers"] + 2) // ranks)
        case name:
            return schedules.build(name.lower().replace("-", "_"), ranks, microbatches)


def validate(workers: int = 1) -> dict[str, Any]:
    """Errors over all rates and by schedule, and each rate."""
    rows = compare(workers)
    names = ["model", "microbatches", "schedule", "measured", "predicted", "matches"]
    renamed = rows[names].rename(columns={"measured": "printed", "predicted": "replayed"})
    return {
        **report.block(rows),
        "matching": int(rows["matches"].sum()),
        "groups": report.groups(rows, ["schedule"]),
        "rates": renamed.to_dict("records"),
    }


def mismatches(block: dict[str, Any]) -> list[dict[str, Any]]:
    """The rates that are not as expected, as `simulator.validation.schedules` lists what does not match."""
    return [
        {
            "table": f"Zero Bubble table 5, {each['model']}, m={each['microbatches']}",
            "what": f"bubble rate of {each['schedule']}",
            "given": each["printed"],
            "got": each["replayed"],
        }
        for each in block["rates"]
        if not each["matches"]
    ]


def text(block: dict[str, Any]) -> str:
    """The rates in words, a line for each, and what of them is not as expected."""
    head = f"Zero Bubble paper, table 5 from the times of table 9: {block['matching']} of {block['rows']} as expected"
    lines = [
        f"  {each['model']:>5} m={each['microbatches']:<3} {each['schedule']:<7} printed {each['printed']:.4f}, "
        f"replayed {each['replayed']:.4f}{'' if each['matches'] else '  <- not as expected'}"
        for each in block["rates"]
    ]
    return "\n".join([head, *lines])
