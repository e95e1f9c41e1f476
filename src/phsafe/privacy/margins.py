"""Margins of error: from a variance to a 90 % MOE and from a MOE target to a budget.

Two readings are kept apart: the paper's formula z·σ with z = 1.645, which its parameter table was made
with, and the exact 90 % quantile of the discrete distribution itself.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

#: The normal quantile of the paper's table; its corollary prints 1.64, which gives 89.9 %.
Z = Fraction(1645, 1000)
COVERAGE = 0.9
#: Budgets are decided with six decimal places, as in 2020.
PLACES = Decimal("0.000001")
#: The exact normal quantile, where the search for a discrete one starts.
_NORMAL_90 = 1.6448536269514722
#: From this σ on, the sum of the weights and its Euler-Maclaurin form agree to the last digits of a float.
_SMOOTH = 50.0
#: Beyond this σ neighbouring integers can't be told apart by a float probability; the relative error is 1e-9.
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
    # Never too small: the whole numbers up to m stand for the line up to m + ½.
    m = math.ceil(_NORMAL_90 * sigma)
    while _probability(m - 1, sigma) >= COVERAGE:
        m -= 1
    return m


def geometric_moe(scale: Fraction | float) -> float:
    """The 90 % MOE of two-sided geometric noise by its continuous limit, the Laplace: b·ln 10."""
    return float(scale) * math.log(10)


def geometric_quantile(scale: Fraction | float) -> int:
    """The smallest m with P(|X| ≤ m) ≥ 90 % for the two-sided geometric of scale b.

    P(|X| > m) = 2 e^(−(m+1)/b) / (1 + e^(−1/b)).
    """
    b = float(scale)
    tail = (1 - COVERAGE) * (1 + math.exp(-1 / b)) / 2
    return max(0, math.ceil(-b * math.log(tail) - 1 - 1e-12))


def geometric_variance(scale: Fraction | float) -> float:
    """2e^(−1/b) / (1 − e^(−1/b))²."""
    b = float(scale)
    return 2 * math.exp(-1 / b) / math.expm1(-1 / b) ** 2


def rho_for_moe(target: Fraction, variance_times_rho: Fraction) -> Decimal:
    """The stated budget whose MOE meets the target: z²k/MOE², six places, half-even, as in 2020.

    A target is met when ⌊MOE⌋ ≤ target; where rounding misses it, the last place goes up by one.

    >>> rho_for_moe(Fraction(200), Fraction(2 * 11**2)), rho_for_moe(Fraction(500), Fraction(2))
    (Decimal('0.016371'), Decimal('0.000022'))
    """
    exact = Z**2 * variance_times_rho / target**2
    rho = (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(PLACES, ROUND_HALF_EVEN)
    return rho if _meets(rho, target, variance_times_rho) else rho + PLACES


def _meets(rho: Decimal, target: Fraction, variance_times_rho: Fraction) -> bool:
    """⌊z·σ⌋ ≤ target, that is z²k/ρ < (⌊target⌋ + 1)², without a square root."""
    return rho > 0 and Z**2 * variance_times_rho / Fraction(rho) < (math.floor(target) + 1) ** 2


def _summed_quantile(sigma: float) -> int:
    """The quantile by adding up e^(−x²/2σ²), from the tail in so that small terms are not lost."""
    weights = [math.exp(-((x / sigma) ** 2) / 2) * (2 if x else 1) for x in range(math.ceil(12 * sigma) + 2)]
    total, beyond = math.fsum(weights), 0.0
    for x in range(len(weights) - 1, 0, -1):
        beyond += weights[x]
        if beyond > (1 - COVERAGE) * total:
            return x
    return 0


def _probability(m: int, sigma: float) -> float:
    """P(|X| ≤ m) by Euler-Maclaurin: the integral, plus half of each end, plus f'/12 of each end."""
    end = math.exp(-((m / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
    return math.erf(m / (sigma * math.sqrt(2))) + end * (1 - m / (6 * sigma**2))
