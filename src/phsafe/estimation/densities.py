"""The posterior of a true count given its noisy count: the noise density restricted to feasible values.

With a flat prior, the posterior of a true count is the noise density centred on the noisy count and restricted to
feasible values. Both noise distributions are symmetric and unimodal, so the same formulas serve both. They work with
logarithms of lower tails, which keeps them accurate for noisy counts many σ below zero. As in 2020, the true count is
treated as a real number. All arguments are in units of the noise scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]

#: Probability inside an interval, and in each tail outside it.
COVERAGE = 0.9
TAIL = (1 - COVERAGE) / 2
#: Standard deviations from the middle of a normal interval to its end.
Z_90 = float(special.ndtri(1 - TAIL))

#: Below this point the lower tail probability underflows, so the formulas switch to logarithms.
FAR = -30.0


@dataclass(frozen=True)
class Density:
    """A symmetric noise distribution of scale 1.

    Attributes:
        cdf: The distribution function.
        quantile: The inverse of `cdf`.
        log_cdf: The logarithm of `cdf`.
        log_quantile: The inverse of `log_cdf`.
        mean_above: The mean of the noise, given that it exceeds the argument.
        scale: The scale of noise with a given variance.
        stable: Whether sums of this noise belong to the same family.
        excess_kurtosis: The fourth cumulant divided by the squared variance.
    """

    cdf: Callable[[Array], Array]
    quantile: Callable[[Array], Array]
    log_cdf: Callable[[Array], Array]
    log_quantile: Callable[[Array], Array]
    mean_above: Callable[[Array], Array]
    scale: Callable[[Array], Array]
    stable: bool
    excess_kurtosis: float

    def quantile_between(self, u: Array, low: Array, high: Array | float = np.inf) -> tuple[Array, Array]:
        """Return the `u` quantile of X given low < X < high, and log P(low < X < high).

        If `u` is uniform, the quantile is an exact draw from the restricted distribution.

        >>> x, log_mass = NORMAL.quantile_between(np.array(0.5), np.array(40.0))
        >>> float(np.round(x, 4)), float(np.round(log_mass, 3))
        (40.0173, -804.608)
        """
        low, high, u = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float), np.asarray(u, float))
        # Mirror intervals above the peak: lower tails keep their precision.
        flipped = low > 0
        a, b = np.where(flipped, -high, low), np.where(flipped, -low, high)
        u = np.where(flipped, 1 - u, u)
        bottom = self.cdf(a)
        mass = self.cdf(b) - bottom
        x = np.asarray(self.quantile(bottom + u * mass))
        with np.errstate(divide="ignore", invalid="ignore"):
            log_mass = np.asarray(np.log(np.maximum(mass, 0)))
            far = b < FAR
            if far.any():
                top, under, v = self.log_cdf(b[far]), self.log_cdf(a[far]), u[far]
                x[far] = self.log_quantile(np.logaddexp(np.log(v) + top, np.log1p(-v) + under))
                log_mass[far] = top + np.log(-np.expm1(np.minimum(under - top, 0)))
        x = np.clip(x, a, b)
        return np.where(flipped, -x, x), log_mass

    def quantile_above(self, u: float, low: Array) -> Array:
        """The `u` quantile of X given X > low."""
        return self.quantile_between(np.array(u), low)[0]

    def survival(self, x: Array, low: Array) -> Array:
        """P(X > x | X > low), for x ≥ low."""
        x, low = np.broadcast_arrays(x, low)
        far = low > -FAR
        share = np.asarray(self.cdf(-x) / self.cdf(-np.where(far, 0, low)))
        if far.any():
            share[far] = np.exp(self.log_cdf(-x[far]) - self.log_cdf(-low[far]))
        return share

    def equal_tails(self, low: Array) -> tuple[Array, Array]:
        """The 5 % and 95 % quantiles of X given X > low."""
        return self.quantile_above(TAIL, low), self.quantile_above(1 - TAIL, low)

    def shortest(self, low: Array) -> tuple[Array, Array]:
        """The shortest interval that contains X with probability 90 %, given X > low.

        It is symmetric about the peak if that fits above `low`, and otherwise starts at `low`. Near the boundary, an
        equal-tailed interval would exclude the boundary itself, which is the true value of an empty cell.
        """
        inside = 0.5 + COVERAGE / 2 * self.cdf(-low)
        half = self.quantile(inside)
        fits = -half >= low
        return np.where(fits, -half, low), np.where(fits, half, self.quantile_above(COVERAGE, low))


def _normal_mean_above(a: Array) -> Array:
    return np.asarray(np.exp(-0.5 * np.square(a) - 0.5 * np.log(2 * np.pi) - special.log_ndtr(-a)))


def _laplace_cdf(x: Array) -> Array:
    tail = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, tail, 1 - tail)


def _laplace_quantile(p: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.where(p < 0.5, np.log(2 * p), -np.log(2 * (1 - p)))


def _log_half(x: Array) -> Array:
    """The logarithm of the lower tail of the Laplace distribution, e^x/2."""
    return np.asarray(x - np.log(2))


def _laplace_mean_above(a: Array) -> Array:
    tail = 0.5 * np.exp(np.minimum(a, 0))
    return np.asarray(np.where(a < 0, tail * (1 - np.minimum(a, 0)) / (1 - tail), a + 1))


def _geometric_scale(variance: Array) -> Array:
    """The b for which 2e^(−1/b)/(1 − e^(−1/b))² = variance, that is, cosh(1/b) = 1 + 1/variance."""
    return np.asarray(0.5 / np.arcsinh(np.sqrt(0.5 / np.asarray(variance))))


NORMAL = Density(
    cdf=special.ndtr,
    quantile=special.ndtri,
    log_cdf=special.log_ndtr,
    log_quantile=special.ndtri_exp,
    mean_above=_normal_mean_above,
    scale=np.sqrt,
    stable=True,
    excess_kurtosis=0.0,
)
#: The continuous counterpart of the two-sided geometric distribution, with the same exponential decay.
LAPLACE = Density(
    cdf=_laplace_cdf,
    quantile=_laplace_quantile,
    log_cdf=_log_half,
    log_quantile=lambda log_p: log_p + np.log(2),
    mean_above=_laplace_mean_above,
    scale=_geometric_scale,
    stable=False,
    excess_kurtosis=3.0,
)
#: Densities by their name in the NOISE_DISTRIBUTION column of a release.
DENSITIES = {"Discrete Gaussian": NORMAL, "Two-Sided Geometric": LAPLACE}
