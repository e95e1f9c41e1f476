"""Margins of error (MOE): the 90 % MOE for a noise variance, and the budget that meets an MOE target.

Two versions of the MOE are kept apart: the paper's formula z·σ with z = 1.645, on which its parameter table is based,
and the exact 90 % quantile of the discrete noise distribution.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from functools import lru_cache

#: The normal quantile behind the paper's table. Its corollary prints 1.64, which covers only 89.9 %.
Z = Fraction(1645, 1000)
COVERAGE = 0.9
#: Budgets have six decimal places, as in 2020.
PLACES = Decimal("0.000001")
#: The exact normal quantile, from which the search for the discrete quantile starts.
_NORMAL_90 = 1.6448536269514722
#: From this σ on, the sum of the weights and its Euler–Maclaurin approximation agree to float precision.
_SMOOTH = 50.0
#: Beyond this σ a float probability can't separate adjacent integers; the relative error of the quantile is 1e-9.
_VAST = 1e9


def gaussian_moe(variance: Fraction | float) -> float:
    """The paper's 90 % MOE of discrete Gaussian noise: 1.645 σ.

    >>> round(gaussian_moe(2 / 0.000022), 2)
    495.99
    """
    return float(Z) * math.sqrt(variance)


def gaussian_quantile(variance: Fraction | float) -> int:
    """The smallest m with P(|X| ≤ m) ≥ 90 % for the discrete Gaussian of parameter σ².

    >>> gaussian_quantile(0.01), gaussian_quantile(1), gaussian_quantile(14783)
    (0, 2, 200)
    """
    sigma = math.sqrt(variance)
    if sigma > _VAST:
        return math.ceil(_NORMAL_90 * sigma)
    if sigma < _SMOOTH:
        return _summed_quantile(sigma)
    # This start is never too small: the integers up to m cover the real line up to m + ½.
    m = math.ceil(_NORMAL_90 * sigma)
    while _probability(m - 1, sigma) >= COVERAGE:
        m -= 1
    return m


def geometric_moe(scale: Fraction | float) -> float:
    """The 90 % MOE of two-sided geometric noise, approximated by its continuous limit, the Laplace: b·ln 10."""
    return float(scale) * math.log(10)


def geometric_quantile(scale: Fraction | float) -> int:
    """The smallest m with P(|X| ≤ m) ≥ 90 % for the two-sided geometric of scale b.

    P(|X| > m) = 2 e^(−(m+1)/b) / (1 + e^(−1/b)).
    """
    b = float(scale)
    tail = (1 - COVERAGE) * (1 + math.exp(-1 / b)) / 2
    return max(0, math.ceil(-b * math.log(tail) - 1 - 1e-12))


def geometric_variance(scale: Fraction | float) -> float:
    """The variance of two-sided geometric noise of scale b: 2e^(−1/b) / (1 − e^(−1/b))²."""
    b = float(scale)
    return 2 * math.exp(-1 / b) / math.expm1(-1 / b) ** 2


def rho_for_moe(target: Fraction, variance_times_rho: Fraction) -> Decimal:
    """The budget whose MOE meets a target: z²k/MOE², rounded half-even to six decimal places as in 2020.

    A target is met if ⌊MOE⌋ ≤ target. If the rounded budget misses it, the last decimal place is increased by one.

    Args:
        target: The largest acceptable 90 % MOE.
        variance_times_rho: k in σ² = k/ρ, from `Sensitivity.variance_times_rho`.

    >>> rho_for_moe(Fraction(200), Fraction(2 * 11**2)), rho_for_moe(Fraction(500), Fraction(2))
    (Decimal('0.016371'), Decimal('0.000022'))
    """
    exact = Z**2 * variance_times_rho / target**2
    rho = (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(PLACES, ROUND_HALF_EVEN)
    return rho if _meets(rho, target, variance_times_rho) else rho + PLACES


def _meets(rho: Decimal, target: Fraction, variance_times_rho: Fraction) -> bool:
    """Whether ⌊z·σ⌋ ≤ target, computed without a square root as z²k/ρ < (⌊target⌋ + 1)²."""
    return rho > 0 and Z**2 * variance_times_rho / Fraction(rho) < (math.floor(target) + 1) ** 2


@lru_cache(maxsize=1024)
def _summed_quantile(sigma: float) -> int:
    """The quantile by summing e^(−x²/2σ²), starting from the tail so that small terms are not lost."""
    weights = [math.exp(-((x / sigma) ** 2) / 2) * (2 if x else 1) for x in range(math.ceil(12 * sigma) + 2)]
    total, beyond = math.fsum(weights), 0.0
    for x in range(len(weights) - 1, 0, -1):
        beyond += weights[x]
        if beyond > (1 - COVERAGE) * total:
            return x
    return 0


def _probability(m: int, sigma: float) -> float:
    """P(|X| ≤ m) by the Euler–Maclaurin formula: the integral, plus f/2 and f'/12 at both ends."""
    end = math.exp(-((m / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
    return math.erf(m / (sigma * math.sqrt(2))) + end * (1 - m / (6 * sigma**2))
