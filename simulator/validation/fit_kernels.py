"""Fitting the constants of kernels to measured ones.

python -m simulator.validation.fit_kernels > simulator/kernels.yaml.new
"""

from collections.abc import Mapping, Sequence

import numpy as np

from simulator.compute import Roofline
from simulator.constants import Key, as_yaml
from simulator.demand import Floats
from simulator.kernels import OTHER, Constants, published
from simulator.validation.fitting import Fit
from simulator.validation.measured_kernels import Case, cases, read

PRIORS: Mapping[str, Mapping[str, float]] = {
    "gemm": {"extra_depth_bytes": 244, "tile_loss": 32, "quantisation": 0.5},
    "grouped_gemm": {"group_seconds": 1.5e-6},
    "A100": {"gemm_bf16": 0.85, "gemm_tf32": 0.85},
    "Hopper": {"gemm_bf16": 0.80, "gemm_fp8": 0.72},
    "Blackwell": {"gemm_fp8": 0.65},
    "MI300": {"gemm_bf16": 0.6},
    "families": {"memory_share": 0.85, "kernel_seconds": 4e-6},
    "best": {"overhead_keys": 200, "score_depth": 64},
    "flash2": {"overhead_keys": 200, "score_depth": 32},
    "A100 flash2": {"share": 0.7},
    "Hopper best": {"share": 0.65},
    "Hopper flash2": {"share": 0.4},
}
"""Towards what a fit is drawn, for a section or an entry of it: shares as best-shape searches show them, the depth of
tiles and heads as the literature has them (64 elements take a Hopper SM as long as an exponential)."""

GAIN_PRIOR = 0.95
"""Time of the best of many shapes in that of a shape like it, to begin with."""
PRIOR_WEIGHT, SHARE_WEIGHT = 0.3, 2.0
"""Residual of a constant that is a factor e off its prior, and the same for a share; one of log time counts 1."""
SEARCH_WEIGHT = 0.5
"""Weight of a best shape."""
LEAST, MOST = 1e-9, 1.0


class Model(Fit):
    """Times of measured kernels as a function of the constants: the simulator's own.

    Fitted are the constants that have a prior and change the time of any case. The best shapes of a search were
    selected for being fast; one more value, fitted beside and then forgotten, says how much.
    """

    outlier = 0.15

    def __init__(self, cases: Sequence[Case], constants: Constants) -> None:
        self.cases = cases
        self.constants = constants
        self.measured = np.array([case.measured for case in cases])
        self.series = np.array([case.series for case in cases])
        self._searched = np.array([case.kind == "gemm_best_shape" for case in cases])
        self.keys = [key for key in constants.values if _prior(key) and self._matters(key)]
        self.start = np.log([*(constants.values[key] for key in self.keys), GAIN_PRIOR])
        self.prior = np.log([*(_prior(key) for key in self.keys), GAIN_PRIOR])
        shares = np.array(["share" in key[2] or key[2].startswith("gemm_") for key in self.keys])
        capped = np.array([*(shares | np.array([key[2] == "quantisation" for key in self.keys])), True])
        self.bounds = np.full(len(capped), np.log(LEAST)), np.where(capped, np.log(MOST), np.inf)
        self.stiffness = np.where([*shares, True], SHARE_WEIGHT, PRIOR_WEIGHT)

    def weights(self) -> Floats:
        """As of any fit, and less for best shapes, which say as much of the search as of the kernel."""
        return np.where(self._searched, SEARCH_WEIGHT, 1.0) * super().weights()

    def seconds(self, logs: Floats) -> Floats:
        """The time of each case, given the logarithms of the constants and of the gain of a search."""
        found = self._times(self.fitted(logs))
        return np.where(self._searched, found * np.exp(logs[-1]), found)

    def fitted(self, logs: Floats) -> Constants:
        """The constants with fitted values in place of their own."""
        own = dict(zip(self.keys, np.exp(logs[:-1]).tolist(), strict=True))
        return Constants({**self.constants.values, **own})

    def _times(self, constants: Constants) -> Floats:
        roofline = Roofline(constants=constants)
        return np.array([case.seconds(roofline) for case in self.cases])

    def _matters(self, key: Key) -> bool:
        """Whether a constant changes any time."""
        changed = Constants({**self.constants.values, key: self.constants.values[key] * 0.9})
        return bool((self._times(changed) != self._times(self.constants)).any())


def _prior(key: Key) -> float:
    """Towards what a constant is drawn; 0 where it is not fitted."""
    section, entry, name = key
    if entry.startswith(OTHER):
        return 0.0
    return PRIORS.get(entry, {}).get(name, 0.0) or PRIORS.get(section, {}).get(name, 0.0)


def usable(found: Sequence[Case]) -> list[Case]:
    """The cases that constants are fitted to: all but acceptance baselines, which state no shape."""
    return [case for case in found if case.kind != "gemm_acceptance_baseline"]


def main() -> None:
    """Print the constants fitted to the package's measurements."""
    model = Model(usable(cases(read())[0]), published())
    print(as_yaml(model.fitted(model.fit()).values))  # noqa: T201


if __name__ == "__main__":
    main()
