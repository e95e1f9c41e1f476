"""Margins of error of sums of basis cells: independent noises of one scale, added.

Sums of n discrete Gaussians are a discrete Gaussian of n·σ² up to e^(−2π²σ²), so the quantile of a single one
serves from σ = 3 on; below, and for the two-sided geometric, the noise is added up term by term.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from phsafe.privacy import margins

if TYPE_CHECKING:
    from phsafe.privacy.mechanism import Noise
    from phsafe.privacy.sensitivity import Definition

_SMOOTH_SIGMA = 3.0
#: From this scale on, the geometric's quantile is the Laplace's to the nearest integers.
_SMOOTH_SCALE = 300.0
_REACH = 60


def moe(definition: Definition, noise: Noise, terms: int = 1) -> float:
    """The 90 % MOE of a sum of `terms` noises by the paper's formula, 1.645·√n·σ (geometric: its Laplace limit)."""
    if definition == "zcdp":
        return margins.gaussian_moe(terms * noise.variance)
    if terms == 1:
        return margins.geometric_moe(noise.scale)
    return noise.scale * laplace_quantile(terms)


def exact_moe(definition: Definition, noise: Noise, terms: int = 1) -> int:
    """The smallest whole number that the sum's noise stays within with at least 90 % probability."""
    if definition == "zcdp":
        if terms == 1 or noise.scale >= _SMOOTH_SIGMA:
            return margins.gaussian_quantile(terms * noise.variance)
        return _summed("zcdp", noise.scale, terms)
    if terms == 1:
        return margins.geometric_quantile(noise.scale)
    if noise.scale >= _SMOOTH_SCALE:
        return math.ceil(noise.scale * laplace_quantile(terms))
    return _summed("puredp", noise.scale, terms)


@lru_cache(maxsize=256)
def laplace_quantile(terms: int) -> float:
    """The x with P(|sum of n standard Laplace| ≤ x) = 90 %.

    The sum's absolute value is a mixture of gamma variables of shape k + 1, with weights C(2n−2−k, n−1)·2^k / 4^(n−1).

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
def _summed(definition: Definition, scale: float, terms: int) -> int:
    """The quantile by convolving the noise's probabilities with themselves (by Fourier transform)."""
    reach = math.ceil(scale * _REACH) + 2
    x = np.arange(-reach, reach + 1)
    log_weight = -((x / scale) ** 2) / 2 if definition == "zcdp" else -np.abs(x) / scale
    single = np.exp(log_weight)
    single /= single.sum()
    size = 1 << (terms * 2 * reach + 1).bit_length()
    total = np.fft.irfft(np.fft.rfft(single, size) ** terms, size)[: terms * 2 * reach + 1]
    centre = terms * reach
    within, m = total[centre], 0
    while within < margins.COVERAGE - 1e-12:
        m += 1
        within += total[centre - m] + total[centre + m]
    return m
