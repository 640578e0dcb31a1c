"""Fitting the constants of fabrics to measured collectives, and how well that predicts series left out of the fit.

python -m simulator.validation.fit > simulator/fabrics.yaml.new
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from simulator.demand import Demand, Floats, Ints, price
from simulator.fabrics import Fabric, Fabrics, Key, published
from simulator.validation.measured import Case, cases, read

PRIORS: Mapping[str, Mapping[str, float]] = {
    "scale_up": {"low_latency_share": 0.3, "low_latency_step": 0.7e-6, "setup": 10e-6, "step": 1.5e-6},
    "network": {"lone_share": 0.75, "low_latency_share": 0.05, "setup": 10e-6, "in_switch_step": 30e-6},
    "accelerators": {
        "share": 0.75,
        "pair_share": 0.75,
        "in_switch_share": 0.6,
        "launch": 10e-6,
        "ramp": 100e-6,
        "in_switch_ramp": 100e-6,
    },
    "links": {
        "share": 0.94,
        "lone_share": 0.75,
        "message_share": 0.75,
        "low_latency_step": 5e-6,
        "step": 14e-6,
        "fill": 20e-6,
    },
    "infiniband": {"lone_share": 0.9},
    "A100": {"share": 0.77},
    "Hopper": {"share": 0.81, "pair_share": 0.77, "in_switch_share": 0.69, "in_switch_tree_share": 0.65},
    "Blackwell": {"share": 0.77, "in_switch_share": 0.60, "in_switch_tree_share": 0.56},
    "GB200": {"share": 0.76, "in_switch_share": 0.48},
    "MI300": {"share": 0.70},
    "slingshot": {"share": 0.58},
    "tcpx": {"share": 0.7},
    "A100 efa": {"share": 0.84},
    "pcie": {"share": 0.7},
}
"""Towards what a fit is drawn, for a section or an entry of it: shares as nccl-tests logs show them at large sizes,
times of single steps in microbenchmarks."""

PRIOR_WEIGHT = 0.15
"""Residual of a time that is a factor e off its prior; one of log time counts 1."""
SHARE_WEIGHT = 3.0
"""The same for a share of the line rate, which is read off large messages and known within some percent."""
OUTLIER = 0.3
"""Log errors well above this count linearly, not squared."""
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


class Model:
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

    def fit(self, evaluations: int = 100) -> Floats:
        """Logarithms of the constants that suit all cases best: robust least squares of log time."""
        from scipy.optimize import least_squares

        weight, start = self._weights(), np.clip(self.start, *self.bounds)

        def residuals(logs: Floats) -> Floats:
            return np.concatenate(
                [weight * np.log(self.seconds(logs) / self.measured), self.stiffness * (logs - self.prior)]
            )

        found = least_squares(
            residuals, start, bounds=self.bounds, loss="soft_l1", f_scale=OUTLIER, max_nfev=evaluations
        )
        return np.asarray(found.x)

    def _weights(self) -> Floats:
        """A series with many rows weighs more than one with few, but less than in proportion; large messages double."""
        _, number, count = np.unique(self.series, return_inverse=True, return_counts=True)
        weight = count[number] ** -0.25 * np.where(self.bytes >= LARGE, 2.0, 1.0)
        return np.asarray(weight / weight.mean())

    def left_out(self) -> Floats:
        """The time of each case as predicted by a fit without any row of its series.

        One Gauss-Newton step leads from the fit of all rows to each of these fits. Assumes that log times are linear in
        the logarithms of the constants near it; the predictions themselves are not linearised.
        """
        logs = self.fit()
        weight, error = self._weights(), np.log(self.seconds(logs) / self.measured)
        slopes = self._slopes(logs) * weight[:, None]
        robust = (1.0 + (weight * error / OUTLIER) ** 2) ** -0.5
        spring, found = np.diag(self.stiffness**2), np.empty(len(error))
        for name in np.unique(self.series):
            mine = self.series == name
            kept = slopes[~mine] * robust[~mine, None]
            pull = kept.T @ (weight * error)[~mine] + spring @ (logs - self.prior)
            step = np.linalg.solve(kept.T @ slopes[~mine] + spring, pull)
            found[mine] = self.seconds(np.clip(logs - step, *self.bounds))[mine]
        return found

    def _slopes(self, logs: Floats, step: float = 1e-4) -> Floats:
        """How log times change with each constant's logarithm, [cases, constants]."""
        base, steps = np.log(self.seconds(logs)), step * np.eye(len(logs))
        return np.stack([(np.log(self.seconds(logs + each)) - base) / step for each in steps], axis=1)

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


def as_yaml(fabrics: Fabrics) -> str:
    """The constants as the package's file has them, without its comments."""
    sections: dict[str, dict[str, dict[str, float]]] = {}
    for (section, entry, name), value in fabrics.values.items():
        sections.setdefault(section, {}).setdefault(entry, {})[name] = float(f"{value:.3g}")
    return yaml.safe_dump(sections, sort_keys=False, default_flow_style=None, width=120)


def main() -> None:
    """Print the constants fitted to the package's measurements."""
    model = Model(cases(read())[0], published())
    print(as_yaml(model.fabrics(model.fit(), published())))  # noqa: T201


if __name__ == "__main__":
    main()
