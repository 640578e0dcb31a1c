"""Fitting constants to measured times, and how well that predicts series left out of the fit."""

from abc import ABC, abstractmethod

import numpy as np

from simulator.demand import Floats

OUTLIER = 0.3
"""Log errors well above this count linearly, not squared."""


class Fit(ABC):
    """Times of many cases as a function of the logarithms of some constants.

    `measured` and `series` have an entry for each case; `start`, `prior`, `stiffness` and both `bounds` one for each
    constant. `stiffness` is the residual of a constant that is a factor e off its prior; one of log time counts 1.
    """

    measured: Floats
    series: "np.ndarray"
    start: Floats
    prior: Floats
    stiffness: Floats
    bounds: tuple[Floats, Floats]
    outlier = OUTLIER
    slope_step = 1e-4
    finite = False
    """Whether a fit itself takes slopes over `slope_step`, where times have kinks, and not as scipy would."""

    @abstractmethod
    def seconds(self, logs: Floats) -> Floats:
        """The time of each case, given the logarithms of the constants."""

    def weights(self) -> Floats:
        """A series with many rows weighs more than one with few, but less than in proportion."""
        _, number, count = np.unique(self.series, return_inverse=True, return_counts=True)
        weight = count[number] ** -0.25
        return np.asarray(weight / weight.mean())

    def fit(self, evaluations: int = 100) -> Floats:
        """Logarithms of the constants that suit all cases best: robust least squares of log time."""
        from scipy.optimize import least_squares

        weight, start = self.weights(), np.clip(self.start, *self.bounds)

        def residuals(logs: Floats) -> Floats:
            return np.concatenate(
                [weight * np.log(self.seconds(logs) / self.measured), self.stiffness * (logs - self.prior)]
            )

        def slopes(logs: Floats) -> Floats:
            return np.concatenate([weight[:, None] * self.slopes(logs), np.diag(self.stiffness)])

        found = least_squares(
            residuals,
            start,
            jac=slopes if self.finite else "2-point",
            bounds=self.bounds,
            loss="soft_l1",
            f_scale=self.outlier,
            max_nfev=evaluations,
        )
        return np.asarray(found.x)

    def standard_errors(self, logs: Floats) -> Floats:
        """Relative standard error of each constant at a fit, from the Gauss-Newton covariance.

        Assumes that rows err independently, which understates it where all rows of a series are off together; what a
        constant is drawn to counts as one measurement of it.
        """
        weight, error = self.weights(), np.log(self.seconds(logs) / self.measured)
        slopes, robust = self.slopes(logs) * weight[:, None], self.robust(weight * error)
        curvature = (slopes * robust[:, None]).T @ slopes + np.diag(self.stiffness**2)
        variance = np.sum(robust * (weight * error) ** 2) / max(len(error) - len(logs), 1)
        return np.asarray(np.sqrt(variance * np.diag(np.linalg.inv(curvature))))

    def left_out(self) -> Floats:
        """The time of each case as predicted by a fit without any row of its series.

        One Gauss-Newton step leads from the fit of all rows to each of these fits. Assumes that log times are linear in
        the logarithms of the constants near it; the predictions themselves are not linearised.
        """
        logs = self.fit()
        weight, error = self.weights(), np.log(self.seconds(logs) / self.measured)
        slopes = self.slopes(logs) * weight[:, None]
        robust = self.robust(weight * error)
        spring, found = np.diag(self.stiffness**2), np.empty(len(error))
        for name in np.unique(self.series):
            mine = self.series == name
            kept = slopes[~mine] * robust[~mine, None]
            pull = kept.T @ (weight * error)[~mine] + spring @ (logs - self.prior)
            step = np.linalg.solve(kept.T @ slopes[~mine] + spring, pull)
            found[mine] = self.seconds(np.clip(logs - step, *self.bounds))[mine]
        return found

    def robust(self, residuals: Floats) -> Floats:
        """What each residual counts in a robust fit, against a least-squares fit."""
        return np.asarray((1.0 + (residuals / self.outlier) ** 2) ** -0.5)

    def slopes(self, logs: Floats) -> Floats:
        """How log times change with each constant's logarithm, [cases, constants], over `slope_step`."""
        base, steps = np.log(self.seconds(logs)), self.slope_step * np.eye(len(logs))
        return np.stack([(np.log(self.seconds(logs + each)) - base) / self.slope_step for each in steps], axis=1)
