"""Fitting the constants of fabrics to measured collectives.

python -m simulator.validation.fit > simulator/fabrics.yaml.new
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator import constants
from simulator.constants import Key, as_yaml
from simulator.demand import Demand, Floats, Ints, price
from simulator.fabrics import Fabric, Fabrics, published
from simulator.validation.fitting import Fit
from simulator.validation.measured import Case, cases, read

PRIORS: Mapping[str, Mapping[str, float]] = {
    "all": {"launch": 10e-6, "setup": 10e-6, "step": 0.7e-6, "ramp": 50e-6},
    "scale_up": {"share": 0.76, "low_latency_share": 0.25, "in_switch_tree_share": 0.93},
    "network": {"share": 0.94, "low_latency_share": 0.05, "bulk_step": 14e-6},
    "ethernet": {"lone_share": 0.7},
    "hosted": {"software_step": 25e-6},
    "accelerators": {"share": 0.76, "launch": 10e-6},
    "Hopper": {"in_switch_share": 0.69},
    "Blackwell": {"in_switch_share": 0.60},
    "GB200": {"in_switch_share": 0.48},
    "links": {"share": 0.94, "software_step": 25e-6},
    "slingshot": {"share": 0.58},
}
"""Towards what a fit is drawn, for a section or an entry of it: shares as nccl-tests logs show them at large sizes,
times of single steps in microbenchmarks."""

PRIOR_WEIGHT = 0.15
"""Residual of a time that is a factor e off its prior; one of log time counts 1."""
SHARE_WEIGHT = 3.0
"""The same for a share of the line rate, which is read off large messages and known within some percent."""
LARGE = 2**24
"""Bytes from which a message is of the size that training steps are made of."""
LEAST, MOST = 1e-9, 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """All phases with one kind of share, and for each constant's name where its value is: index [phases, kinds].

    Indices beyond the fitted values lead to what is not fitted.
    """

    demand: Demand
    places: Mapping[str, Ints]
    candidate: Ints

    def constants(self, values: Floats) -> Callable[[str], Floats]:
        """The constants by name, given all values."""
        return lambda name: values[self.places[name]]


class Model(Fit):
    """Times of many cases as a function of the constants alone: the same prices as the simulator's, all at once."""

    def __init__(self, cases: Sequence[Case], fabrics: Fabrics) -> None:
        self.keys: list[Key] = []
        self.fixed: list[float] = []
        self.measured = np.array([case.measured for case in cases])
        self.series = np.array([case.series for case in cases])
        self.bytes = np.array([case.collective.bytes for case in cases])
        self._place: dict[Key, int] = {}
        self._constant: dict[float, int] = {}
        rows = [
            (number, demand, case)
            for number, (case, activity) in enumerate(_candidates(cases))
            for demand in (phase.demand for phase in activity.phases)
        ]
        counts = [len(case.activities) for case in cases]
        self._first = np.cumsum([0, *counts[:-1]])
        self._candidates = sum(counts)
        places = [self._places(case, fabrics) for _, _, case in rows]
        offset = len(self.keys)
        self._parts = list(_parts(rows, places, offset))
        self.start = np.log([fabrics.values[key] for key in self.keys])
        self.prior = np.log([_prior(key) for key in self.keys])
        self.bounds = np.log(LEAST), np.log([MOST if "share" in key[2] else np.inf for key in self.keys])
        shares = [key[2].endswith("share") and key[2] != "low_latency_share" for key in self.keys]
        self.stiffness = np.where(shares, SHARE_WEIGHT, PRIOR_WEIGHT)

    def _places(self, case: Case, fabrics: Fabrics) -> list[dict[str, int]]:
        """For each kind of link of a case's topology, where its constants are; negative for those not fitted."""
        chip, found = case.topology.accelerators[0].name, []
        for kind in case.topology.links.kinds:
            fabric, keys = fabrics.fabric(kind, chip), fabrics.keys(kind, chip)
            found.append(
                {
                    name: self._fitted(keys[name]) if name in keys else self._known(getattr(fabric, name))
                    for name in Fabric.__dataclass_fields__
                }
            )
        return found

    def _fitted(self, key: Key) -> int:
        if key not in self._place:
            self._place[key] = len(self.keys)
            self.keys.append(key)
        return self._place[key]

    def _known(self, value: float) -> int:
        if value not in self._constant:
            self._constant[value] = len(self.fixed)
            self.fixed.append(value)
        return -1 - self._constant[value]

    def seconds(self, logs: Floats) -> Floats:
        """The time of each case with the fastest of its algorithms, given the logarithms of the constants."""
        values = np.concatenate([np.exp(logs), self.fixed])
        total = np.zeros(self._candidates)
        for part in self._parts:
            np.add.at(total, part.candidate, price(part.demand, part.constants(values)).seconds)
        return np.minimum.reduceat(total, self._first)

    def weights(self) -> Floats:
        """As of any fit, and twice that for large messages."""
        weight = super().weights() * np.where(self.bytes >= LARGE, 2.0, 1.0)
        return np.asarray(weight / weight.mean())

    def fabrics(self, logs: Floats, fabrics: Fabrics) -> Fabrics:
        """A set of constants with fitted values in place of its own."""
        return Fabrics({**fabrics.values, **dict(zip(self.keys, np.exp(logs).tolist(), strict=True))})


def _candidates(cases: Sequence[Case]) -> Iterator[tuple[Case, Any]]:
    for case in cases:
        for activity in case.activities:
            yield case, activity


def _parts(rows: list[tuple[int, Demand, Case]], places: list[list[dict[str, int]]], offset: int) -> Iterator[Part]:
    """Phases with one kind of share as one demand, padded to equally many kinds of links."""
    width = max(len(each) for each in places)
    for share, starts in sorted({(demand.share, demand.starts) for _, demand, _ in rows}):
        mine = [index for index, (_, demand, _) in enumerate(rows) if (demand.share, demand.starts) == (share, starts)]
        demands = [rows[index][1] for index in mine]

        def stacked(name: str, demands: list[Demand] = demands) -> Floats:
            return np.concatenate([_padded(getattr(each, name), width) for each in demands])

        demand = Demand(
            stacked("line_seconds"),
            stacked("steps"),
            np.concatenate([each.hops for each in demands]),
            np.ones((1, len(demands)), np.bool_),
            np.concatenate([each.passes for each in demands]),
            share,
            starts,
        )
        indices = {
            name: np.array([[_index(each[name], offset) for each in _extended(places[index], width)] for index in mine])
            for name in Fabric.__dataclass_fields__
        }
        yield Part(demand, indices, np.array([rows[index][0] for index in mine]))


def _padded(values: Floats, width: int) -> Floats:
    return np.pad(values, [(0, 0), (0, width - values.shape[1])])


def _extended(places: list[dict[str, int]], width: int) -> list[dict[str, int]]:
    return [*places, *[places[0]] * (width - len(places))]


def _index(place: int, offset: int) -> int:
    return place if place >= 0 else offset - 1 - place


def _prior(key: Key) -> float:
    section, entry, name = key
    own = PRIORS.get(entry, {})
    return own[name] if name in own else PRIORS[section][name]


def main() -> None:
    """Print the constants fitted to the package's measurements, with their standard errors."""
    model = Model(cases(read())[0], published())
    logs = model.fit()
    errors = dict(zip(model.keys, model.standard_errors(logs).tolist(), strict=True))
    values = model.fabrics(logs, published()).values
    ordered = {key: errors[key] for key in values if key in errors}
    print(as_yaml(values, ordered, constants.sources("fabrics.yaml")))  # noqa: T201


if __name__ == "__main__":
    main()
