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


@dataclass(frozen=True)
class Kernel:
    """A symmetric noise of scale 1. `log_cdf` and `from_log_cdf` are each other's inverse.

    `mean_above(a)` is the mean of the noise given that it exceeds `a`; `scale(variance)` the scale of noise
    with that variance; `stable`, whether sums of this noise are of the same family; `excess_kurtosis`, the fourth
    cumulant over the squared variance.
    """

    log_cdf: Callable[[Array], Array]
    from_log_cdf: Callable[[Array], Array]
    mean_above: Callable[[Array], Array]
    scale: Callable[[Array], Array]
    stable: bool
    excess_kurtosis: float

    def log_mass(self, low: Array, high: Array | float = np.inf) -> Array:
        """log P(low < X < high); −inf where the interval is empty.

        >>> import numpy as np
        >>> float(np.round(NORMAL.log_mass(np.array(40.0)), 3))
        -804.608
        """
        low, high = _lower_tail(low, high)[:2]
        top, bottom = self.log_cdf(high), self.log_cdf(low)
        with np.errstate(divide="ignore", invalid="ignore"):
            mass = top + np.log(-np.expm1(np.minimum(bottom - top, 0)))
        return np.where(low < high, mass, -np.inf)

    def draw(self, u: Array, low: Array, high: Array | float = np.inf) -> Array:
        """The `u` quantile of X given low < X < high: an exact draw where `u` is uniform."""
        a, b, flipped = _lower_tail(low, high)
        u = np.where(flipped, 1 - u, u)
        with np.errstate(divide="ignore"):
            mixed = np.logaddexp(np.log1p(-u) + self.log_cdf(a), np.log(u) + self.log_cdf(b))
        x = np.clip(self.from_log_cdf(np.minimum(mixed, 0)), a, b)
        return np.where(flipped, -x, x)

    def equal_tails(self, low: Array) -> tuple[Array, Array]:
        """The 5 % and 95 % quantiles of X given X > low."""
        return self.draw(np.array(TAIL), low), self.draw(np.array(1 - TAIL), low)

    def shortest(self, low: Array) -> tuple[Array, Array]:
        """The shortest interval that holds 90 % of X given X > low.

        Symmetric around the peak where that fits, else from `low` up: near the boundary equal tails would leave
        the boundary itself, the true value of an empty cell, outside.
        """
        inside = 0.5 + COVERAGE / 2 * np.exp(self.log_mass(low))
        half = self.from_log_cdf(np.log(inside))
        fits = -half >= low
        return np.where(fits, -half, low), np.where(fits, half, self.draw(np.array(COVERAGE), low))


def _lower_tail(low: Array, high: Array | float) -> tuple[Array, Array, NDArray[np.bool_]]:
    """The interval, mirrored where it lies above the peak: lower tails keep their digits."""
    low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
    flipped = low > 0
    return np.where(flipped, -high, low), np.where(flipped, -low, high), flipped


def _normal_mean_above(a: Array) -> Array:
    return np.exp(-0.5 * np.square(a) - 0.5 * np.log(2 * np.pi) - special.log_ndtr(-a))


def _laplace_log_cdf(x: Array) -> Array:
    return np.where(x < 0, x - np.log(2), np.log1p(-0.5 * np.exp(-np.maximum(x, 0))))


def _laplace_from_log_cdf(log_p: Array) -> Array:
    with np.errstate(divide="ignore"):
        upper = -np.log(-2 * np.expm1(np.minimum(log_p, 0)))
    return np.where(log_p < -np.log(2), log_p + np.log(2), upper)


def _laplace_mean_above(a: Array) -> Array:
    tail = 0.5 * np.exp(np.minimum(a, 0))
    return np.where(a < 0, tail * (1 - np.minimum(a, 0)) / (1 - tail), a + 1)


def _geometric_scale(variance: Array) -> Array:
    """The b with 2e^(−1/b)/(1 − e^(−1/b))² = variance, that is cosh(1/b) = 1 + 1/variance."""
    return 0.5 / np.arcsinh(np.sqrt(0.5 / np.asarray(variance)))


NORMAL = Kernel(
    special.log_ndtr, special.ndtri_exp, _normal_mean_above, np.sqrt, stable=True, excess_kurtosis=0.0
)
#: The continuous form of the two-sided geometric: the same exponential decay on both sides.
LAPLACE = Kernel(
    _laplace_log_cdf,
    _laplace_from_log_cdf,
    _laplace_mean_above,
    _geometric_scale,
    stable=False,
    excess_kurtosis=3.0,
)
#: By the name in a release's NOISE_DISTRIBUTION column.
KERNELS = {"Discrete Gaussian": NORMAL, "Two-Sided Geometric": LAPLACE}
