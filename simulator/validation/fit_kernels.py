"""Fitting the constants of kernels to measured ones.

Constants that steps tell better (`calibration_priors`) are fitted along, so that the others do not make up for them,
but the file has them as steps tell them.

python -m simulator.validation.fit_kernels > simulator/kernels.yaml.new
"""

from collections.abc import Mapping, Sequence

import numpy as np

from simulator import constants
from simulator.compute import Roofline
from simulator.constants import Key, as_yaml
from simulator.demand import Floats
from simulator.kernels import Constants, published
from simulator.validation.calibration_priors import prior as of_steps
from simulator.validation.fitting import Fit
from simulator.validation.measured_kernels import APART, Case, cases, read

PRIORS: Mapping[str, Mapping[str, float]] = {
    "gemm": {"extra_depth_bytes": 244, "tile_loss": 32, "quantisation": 0.5},
    "kernel": {"memory_share": 0.85, "kernel_seconds": 4e-6, "graph_seconds": 1.5e-6},
    "A100": {"gemm": 0.85},
    "Hopper": {"gemm_fp8": 0.72},
    "Blackwell": {"gemm": 0.65},
    "all": {"overhead_keys": 200},
    "best": {"score_depth": 64},
    "flash2": {"score_depth": 32},
    "A100 flash2": {"share": 0.7},
    "Hopper best": {"share": 0.65},
}
"""Towards what a fit is drawn, for an entry of the file: shares as best-shape searches show them, the depth of tiles
and heads as the literature has them (64 elements take a Hopper SM as long as an exponential)."""

PRIOR_WEIGHT, SHARE_WEIGHT = 0.3, 2.0
"""Residual of a constant that is a factor e off its prior, and the same for a share; one of log time counts 1."""
LEAST, MOST = 1e-9, 1.0


class Model(Fit):
    """Times of measured kernels as a function of the constants: the simulator's own.

    Fitted are the constants that have a prior and change the time of any case; `told` are those that steps tell.
    """

    outlier = 0.15

    def __init__(self, cases: Sequence[Case], constants: Constants) -> None:
        self.cases = cases
        self.constants = constants
        self.measured = np.array([case.measured for case in cases])
        self.series = np.array([case.series for case in cases])
        self.keys = [key for key in constants.values if _prior(key) and self._matters(key)]
        self.told = np.array([of_steps(key) is not None for key in self.keys])
        self.start = np.log([constants.values[key] for key in self.keys])
        self.prior = np.log([_prior(key) for key in self.keys])
        shares = np.array(["share" in key[2] or key[2].startswith("gemm") for key in self.keys])
        capped = shares | np.array([key[2] == "quantisation" for key in self.keys])
        self.bounds = np.full(len(capped), np.log(LEAST)), np.where(capped, np.log(MOST), np.inf)
        self.stiffness = np.where(shares, SHARE_WEIGHT, PRIOR_WEIGHT)

    def seconds(self, logs: Floats) -> Floats:
        """The time of each case, given the logarithms of the constants."""
        return self._times(self.fitted(logs))

    def fitted(self, logs: Floats) -> Constants:
        """The constants with fitted values in place of their own."""
        return Constants({**self.constants.values, **dict(zip(self.keys, np.exp(logs).tolist(), strict=True))})

    def _times(self, constants: Constants) -> Floats:
        roofline = Roofline(constants=constants)
        return np.array([case.seconds(roofline) for case in self.cases])

    def _matters(self, key: Key) -> bool:
        """Whether a constant changes any time."""
        changed = Constants({**self.constants.values, key: self.constants.values[key] * 0.9})
        return bool((self._times(changed) != self._times(self.constants)).any())


def _prior(key: Key) -> float:
    """Towards what a constant is drawn; 0 where it is not fitted."""
    _, entry, name = key
    return PRIORS.get(entry, {}).get(name, 0.0)


def usable(found: Sequence[Case]) -> list[Case]:
    """The cases that constants are fitted to: ordinary measurements.

    Not the best shapes of a search, which were selected for being fast, nor acceptance baselines, which state no shape.
    """
    return [case for case in found if case.kind not in APART]


def main() -> None:
    """Print the constants fitted to the package's measurements, with their standard errors; the rest as it is.

    What steps tell is part of the rest.
    """
    model = Model(usable(cases(read())[0]), published())
    logs = model.fit()
    values = model.fitted(np.where(model.told, model.start, logs)).values
    own = dict(zip(model.keys, model.standard_errors(logs).tolist(), strict=True))
    filed = constants.errors("kernels.yaml")
    errors = {**own, **{key: error for key, error in filed.items() if key not in own or of_steps(key) is not None}}
    ordered = {key: errors[key] for key in values if key in errors}
    print(as_yaml(values, ordered, constants.sources("kernels.yaml")))  # noqa: T201


if __name__ == "__main__":
    main()
