"""The expected magnitude of noise: its distribution, and how far the 90 % MOE of a sample may deviate from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from phsafe.privacy.mechanism import Noise
from phsafe.privacy_math.margins import COVERAGE
from phsafe.privacy_math.noise_sums import exact_moe
from phsafe.privacy_math.sensitivity import Definition

Array = NDArray[np.float64]
#: Noise with a larger scale is computed on a coarser lattice, which changes a probability by less than 1/10,000.
_FINE = 4000.0
#: Number of scales covered on either side of zero; the probability beyond is less than e^(−40).
_REACH: dict[Definition, int] = {"zcdp": 10, "puredp": 40}


@dataclass(frozen=True)
class Magnitude:
    """The distribution of |X|, where X is a sum of i.i.d. noise terms: `shares[i]` is P(|X| ≤ i·step).

    `moe` is the exact 90 % margin of error, as `phsafe budget` states it.
    """

    moe: int
    step: int
    shares: Array = field(repr=False)

    def within(self, value: float) -> float:
        """P(|X| ≤ value)."""
        index = min(int(value // self.step), len(self.shares) - 1)
        return float(self.shares[index])

    def at_most(self, size: int) -> Array:
        """P(the MOE of a sample of that size ≤ i·step), for every i."""
        below: Array = stats.binom.sf(_rank(size) - 1, size, self.shares)
        return below

    def p_value(self, moe: float, size: int) -> float:
        """The two-sided p-value of a sample's MOE: twice the smaller tail probability."""
        below = self.at_most(size)
        index = min(int(moe // self.step), len(below) - 1)
        above = 1 - below[index - 1] if index else 1.0
        return float(min(1.0, 2 * min(below[index], above)))

    def band(self, size: int, false_alarm: float) -> tuple[int, int]:
        """The lowest and highest MOE of a sample of that size with a p-value of at least `false_alarm`."""
        below = self.at_most(size)
        above = 1 - np.concatenate([[0.0], below[:-1]])
        inside = np.flatnonzero(2 * np.minimum(below, above) >= false_alarm)
        return int(inside[0]) * self.step, int(inside[-1]) * self.step


def sample_moe(noise: NDArray[np.int64]) -> int:
    """The 90 % MOE of a sample: the smallest magnitude that at least 90 % of its values don't exceed.

    >>> sample_moe(np.array([-9, 1, 2, -3, 4, 5, -6, 7, 8, 0]))
    8
    """
    magnitudes = np.abs(noise).ravel()
    rank = _rank(magnitudes.size)
    return int(np.partition(magnitudes, rank - 1)[rank - 1])


def _rank(size: int) -> int:
    # In floating point 0.9 × size can exceed a whole number by a rounding error, which ceil must not round up.
    return math.ceil(COVERAGE * size - 1e-9)


def magnitude(definition: Definition, noise: Noise, terms: int = 1) -> Magnitude:
    """The magnitude of the sum of `terms` independent noise terms.

    >>> from phsafe.privacy_math.margins import geometric_variance
    >>> magnitude("puredp", Noise("Two-Sided Geometric", 10.0, geometric_variance(10.0))).moe
    23
    """
    step, shares = _shares(definition, noise.scale, terms)
    return Magnitude(exact_moe(definition, noise, terms), step, shares)


@lru_cache(maxsize=128)
def _shares(definition: Definition, scale: float, terms: int) -> tuple[int, Array]:
    """The step and P(|X| ≤ i·step), convolved by Fourier transform; wide noise uses a coarser lattice."""
    step = max(1, int(scale / _FINE))
    reach = math.ceil(_REACH[definition] * scale / step) + 1
    x = np.arange(-reach, reach + 1) * step
    weights = np.exp(-((x / scale) ** 2) / 2 if definition == "zcdp" else -np.abs(x) / scale)
    weights /= weights.sum()
    if terms > 1:
        size = 1 << (2 * terms * reach + 1).bit_length()
        weights = np.fft.irfft(np.fft.rfft(weights, size) ** terms, size)[: 2 * terms * reach + 1]
    centre = len(weights) // 2
    shares = weights[centre] + 2 * np.concatenate([[0.0], np.cumsum(weights[centre + 1 :])])
    return step, np.clip(shares, 0.0, 1.0)
