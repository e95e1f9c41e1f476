"""Margins of error of sums of basis cells, that is, of sums of independent noise terms, mostly of the same scale.

The sum of n discrete Gaussians is a discrete Gaussian of variance n·σ² up to an error of order e^(−2π²σ²), so for
σ ≥ 3 its quantile is used. For smaller σ and for two-sided geometric noise, the probabilities are convolved.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phsafe.privacy_math import margins

if TYPE_CHECKING:
    from phsafe.privacy.mechanism import Noise
    from phsafe.privacy_math.sensitivity import Definition

_SMOOTH_SIGMA = 3.0
#: From this scale on, the quantiles of geometric and Laplace noise agree to the nearest integer.
_SMOOTH_SCALE = 300.0
#: Noise beyond this many scales has negligible probability.
_REACH = 60


def moe(definition: Definition, noise: Noise, terms: int = 1) -> float:
    """The 90 % MOE of a sum of `terms` noise terms by the paper's formula, 1.645·√n·σ (geometric: Laplace limit)."""
    if definition == "zcdp":
        return margins.gaussian_moe(terms * noise.variance)
    if terms == 1:
        return margins.geometric_moe(noise.scale)
    return noise.scale * laplace_quantile(terms)


def exact_moe(definition: Definition, noise: Noise, terms: int = 1) -> int:
    """The smallest m such that the noise of a sum of `terms` terms is within ±m with at least 90 % probability."""
    if definition == "zcdp":
        if terms == 1 or noise.scale >= _SMOOTH_SIGMA:
            return margins.gaussian_quantile(terms * noise.variance)
        return _convolved_quantile("zcdp", noise.scale, terms)
    if terms == 1:
        return margins.geometric_quantile(noise.scale)
    if noise.scale >= _SMOOTH_SCALE:
        return math.ceil(noise.scale * laplace_quantile(terms))
    return _convolved_quantile("puredp", noise.scale, terms)


@lru_cache(maxsize=1024)
def mixed_geometric_moe(parts: tuple[tuple[float, int], ...]) -> int:
    """The 90 % MOE of a sum of two-sided geometric noise terms of different scales.

    Args:
        parts: Scales, each with the number of its terms.

    >>> mixed_geometric_moe(((20.0, 2),)) == _convolved_quantile("puredp", 20.0, 2)
    True
    """
    # Above scales of _SMOOTH_SCALE, a coarser lattice gives the same quantile up to a rounding of its step.
    step = max(1, math.ceil(max(scale for scale, _ in parts) / _SMOOTH_SCALE))
    reach = math.ceil(max(scale for scale, _ in parts) / step * _REACH) + 2
    x, terms = np.arange(-reach, reach + 1), sum(number for _, number in parts)
    size = 1 << (terms * 2 * reach + 1).bit_length()
    transform = np.ones(size // 2 + 1, np.complex128)
    for scale, number in parts:
        single = np.exp(-np.abs(x) * step / scale)
        transform *= np.fft.rfft(single / single.sum(), size) ** number
    return step * _central_quantile(np.fft.irfft(transform, size), terms * reach)


@lru_cache(maxsize=256)
def laplace_quantile(terms: int) -> float:
    """The x with P(|sum of n standard Laplace variables| ≤ x) = 90 %, where n is `terms`.

    The absolute value of the sum is a mixture of gamma variables of shape k + 1 with weights
    C(2n−2−k, n−1)·2^k / 4^(n−1).

    >>> round(laplace_quantile(1) - math.log(10), 12)
    0.0
    """
    weights = [math.comb(2 * terms - 2 - k, terms - 1) * 2**k / 4 ** (terms - 1) for k in range(terms)]

    def tail(x: float) -> float:
        poisson, term = [], math.exp(-x)
        for j in range(terms):
            poisson.append(term)
            term *= x / (j + 1)
        return math.fsum(w * math.fsum(poisson[: k + 1]) for k, w in enumerate(weights))

    low, high = 0.0, 10.0 * terms
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > 1 - margins.COVERAGE else (low, middle)
    return high


@lru_cache(maxsize=4096)
def _convolved_quantile(definition: Definition, scale: float, terms: int) -> int:
    """Compute the quantile by convolving the noise probabilities with themselves, using a Fourier transform."""
    reach = math.ceil(scale * _REACH) + 2
    x = np.arange(-reach, reach + 1)
    log_weight = -((x / scale) ** 2) / 2 if definition == "zcdp" else -np.abs(x) / scale
    single = np.exp(log_weight)
    single /= single.sum()
    size = 1 << (terms * 2 * reach + 1).bit_length()
    return _central_quantile(np.fft.irfft(np.fft.rfft(single, size) ** terms, size), terms * reach)


def _central_quantile(total: NDArray[np.float64], centre: int) -> int:
    """The smallest m with 90 % of the probabilities in centre ± m."""
    within, m = float(total[centre]), 0
    while within < margins.COVERAGE - 1e-12:
        m += 1
        within += total[centre - m] + total[centre + m]
    return m
