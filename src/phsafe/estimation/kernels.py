"""What a noisy number says about the true one: a density around it, cut off at what is impossible.

With a flat prior the posterior of a true count is the noise's own density around the noisy count, cut to the
possible values. Both noises are symmetric with one peak, so the same few formulas serve both; they work with
logarithms of lower tails and stay exact where a noisy count lies many σ below zero. As in 2020 the true count
is treated as a real number. All arguments are in units of the noise's scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]

#: Probability of an interval, and of each tail outside it.
COVERAGE = 0.9
TAIL = (1 - COVERAGE) / 2


#: Below this, a lower tail is no longer a normal floating-point number; logarithms take over.
FAR = -30.0


@dataclass(frozen=True)
class Kernel:
    """A symmetric noise of scale 1, by its distribution function and the inverse, plain and in logarithms.

    `mean_above(a)` is the mean of the noise given that it exceeds `a`; `scale(variance)` the scale of noise
    with that variance; `stable`, whether sums of this noise are of the same family; `excess_kurtosis`, the fourth
    cumulant over the squared variance.
    """

    cdf: Callable[[Array], Array]
    quantile: Callable[[Array], Array]
    log_cdf: Callable[[Array], Array]
    log_quantile: Callable[[Array], Array]
    mean_above: Callable[[Array], Array]
    scale: Callable[[Array], Array]
    stable: bool
    excess_kurtosis: float

    def cut(self, u: Array, low: Array, high: Array | float = np.inf) -> tuple[Array, Array]:
        """The `u` quantile of X given low < X < high (an exact draw where `u` is uniform), and log P(low < X < high).

        >>> x, log_mass = NORMAL.cut(np.array(0.5), np.array(40.0))
        >>> float(np.round(x, 4)), float(np.round(log_mass, 3))
        (40.0173, -804.608)
        """
        low, high, u = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float), np.asarray(u, float))
        # Mirrored where the interval lies above the peak: lower tails keep their digits.
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

    def draw(self, u: float, low: Array) -> Array:
        """The `u` quantile of X given X > low."""
        return self.cut(np.array(u), low)[0]

    def above(self, x: Array, low: Array) -> Array:
        """P(X > x given X > low), for x ≥ low."""
        x, low = np.broadcast_arrays(x, low)
        far = low > -FAR
        share = np.asarray(self.cdf(-x) / self.cdf(-np.where(far, 0, low)))
        if far.any():
            share[far] = np.exp(self.log_cdf(-x[far]) - self.log_cdf(-low[far]))
        return share

    def equal_tails(self, low: Array) -> tuple[Array, Array]:
        """The 5 % and 95 % quantiles of X given X > low."""
        return self.draw(TAIL, low), self.draw(1 - TAIL, low)

    def shortest(self, low: Array) -> tuple[Array, Array]:
        """The shortest interval that holds 90 % of X given X > low.

        Symmetric around the peak where that fits, else from `low` up: near the boundary equal tails would leave
        the boundary itself, the true value of an empty cell, outside.
        """
        inside = 0.5 + COVERAGE / 2 * self.cdf(-low)
        half = self.quantile(inside)
        fits = -half >= low
        return np.where(fits, -half, low), np.where(fits, half, self.draw(COVERAGE, low))


def _normal_mean_above(a: Array) -> Array:
    return np.asarray(np.exp(-0.5 * np.square(a) - 0.5 * np.log(2 * np.pi) - special.log_ndtr(-a)))


def _laplace_cdf(x: Array) -> Array:
    tail = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, tail, 1 - tail)


def _laplace_quantile(p: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.where(p < 0.5, np.log(2 * p), -np.log(2 * (1 - p)))


def _log_half(x: Array) -> Array:
    """The logarithm of the Laplace's lower tail, which is e^x/2."""
    return np.asarray(x - np.log(2))


def _laplace_mean_above(a: Array) -> Array:
    tail = 0.5 * np.exp(np.minimum(a, 0))
    return np.asarray(np.where(a < 0, tail * (1 - np.minimum(a, 0)) / (1 - tail), a + 1))


def _geometric_scale(variance: Array) -> Array:
    """The b with 2e^(−1/b)/(1 − e^(−1/b))² = variance, that is cosh(1/b) = 1 + 1/variance."""
    return np.asarray(0.5 / np.arcsinh(np.sqrt(0.5 / np.asarray(variance))))


NORMAL = Kernel(
    cdf=special.ndtr,
    quantile=special.ndtri,
    log_cdf=special.log_ndtr,
    log_quantile=special.ndtri_exp,
    mean_above=_normal_mean_above,
    scale=np.sqrt,
    stable=True,
    excess_kurtosis=0.0,
)
#: The continuous form of the two-sided geometric: the same exponential decay on both sides.
LAPLACE = Kernel(
    cdf=_laplace_cdf,
    quantile=_laplace_quantile,
    log_cdf=_log_half,
    log_quantile=lambda log_p: log_p + np.log(2),
    mean_above=_laplace_mean_above,
    scale=_geometric_scale,
    stable=False,
    excess_kurtosis=3.0,
)
#: By the name in a release's NOISE_DISTRIBUTION column.
KERNELS = {"Discrete Gaussian": NORMAL, "Two-Sided Geometric": LAPLACE}
