"""Bubble rates of the Zero Bubble paper against replays with the times it profiled.

Source: Zero Bubble Pipeline Parallelism, arXiv:2401.10241, tables 5 (rates) and 9 (times).
"""

from fractions import Fraction
from importlib.resources import files
from typing import Any

import pandas as pd

from simulator.validation.schedule_figures import Profile, figures

SOURCE = files("simulator") / "data" / "schedule_bubbles_published.csv"
TIMES = ("forward_time", "backward_input_time", "backward_weight_time", "hop_time")
DIGITS = 4
INTERLEAVED = 0.0035
"""By how much more than printed interleaved 1F1B may come out: the paper counts fewer of its hops."""
EXACT, AT_MOST, ABOVE = "equal", "at most", f"0 to {INTERLEAVED} above"
EXPECTED = {"1F1B": EXACT, "ZB-H1": EXACT, "ZB-H2": EXACT, "ZB-1p": AT_MOST, "ZB-2p": AT_MOST, "1F1B-I": ABOVE}
"""What replay should make of the printed rate of each schedule, to its digits."""


def compare() -> pd.DataFrame:
    """Each printed rate with the replayed one."""
    printed = pd.read_csv(SOURCE.open(encoding="utf-8"))
    times = printed[printed["table"] == 9].pivot_table("value", ["model", "microbatches"], "quantity")
    rates = printed[printed["table"] == 5]
    rows = [_row(rate, times.loc[(rate["model"], rate["microbatches"]), list(TIMES)]) for _, rate in rates.iterrows()]
    frame = pd.DataFrame(rows)
    return frame.assign(row=range(len(frame)), error=frame["predicted"] / frame["measured"] - 1.0)


def _row(rate: "pd.Series[Any]", times: "pd.Series[Any]") -> dict[str, Any]:
    """A printed rate and the largest share of a rank's own span in which it does not compute."""
    ranks, microbatches = int(rate["pp"]), int(rate["microbatches"])
    forward, inputs, weights, hop = (Fraction(str(value)) for value in times)
    profile = Profile(forward, inputs + weights, inputs, weights, hop)
    schedule = None
    span = figures(schedule, profile)["max_rank_span"][0]
    busy = microbatches * (forward + inputs + weights)
    found = float(1 - busy / span)
    ...
