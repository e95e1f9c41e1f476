"""The expected distribution of noise, and the band for the MOE of a sample."""

import math

import numpy as np
import pytest
from scipy import stats

from phsafe.accuracy_study.expected_magnitude import magnitude, sample_moe
from phsafe.privacy.mechanism import DISTRIBUTIONS, Noise
from phsafe.privacy_math.margins import geometric_variance


def noise(definition, scale):
    variance = scale**2 if definition == "zcdp" else geometric_variance(scale)
    return Noise(DISTRIBUTIONS[definition], scale, variance)


def probabilities(definition, scale, terms, reach=200):
    """P(|X| ≤ m) by direct convolution."""
    x = np.arange(-reach, reach + 1)
    one = np.exp(-((x / scale) ** 2) / 2 if definition == "zcdp" else -np.abs(x) / scale)
    one /= one.sum()
    total = one
    for _ in range(terms - 1):
        total = np.convolve(total, one)
    middle = len(total) // 2
    return [total[middle - m : middle + m + 1].sum() for m in range(60)]


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
@pytest.mark.parametrize("terms", [1, 2, 3])
def test_magnitude_matches_direct_convolution(definition, terms):
    found = magnitude(definition, noise(definition, 4.3), terms)
    expected = probabilities(definition, 4.3, terms)
    assert [found.within(m) for m in range(60)] == pytest.approx(expected, abs=1e-9)
    assert found.moe == next(m for m, share in enumerate(expected) if share >= 0.9)


def test_wide_gaussian_noise_matches_the_normal_distribution():
    found = magnitude("zcdp", noise("zcdp", 123_456.0))
    assert found.within(200_000) == pytest.approx(math.erf(200_000 / 123_456 / math.sqrt(2)), abs=1e-4)


@pytest.mark.parametrize("size", [1, 12, 500])
def test_band_agrees_with_p_value(size):
    found = magnitude("zcdp", noise("zcdp", 6.0))
    low, high = found.band(size, 0.01)
    inside = [m for m in range(60) if found.p_value(m, size) >= 0.01]
    assert (low, high) == (inside[0], inside[-1])
    below = found.at_most(size)
    outside = (below[low - 1] if low else 0) + 1 - below[high]
    assert outside <= 0.01


def test_sample_moe_has_the_stated_distribution():
    """Compare the distribution of the order statistic with seeded NumPy samples."""
    found = magnitude("zcdp", noise("zcdp", 6.0))
    draws = np.rint(np.random.default_rng(1).normal(0, 6.0, (4000, 30))).astype(np.int64)
    moes = [sample_moe(row) for row in draws]
    for m in (7, 9, 11):
        share = np.mean(np.array(moes) <= m)
        assert share == pytest.approx(found.at_most(30)[m], abs=0.03)


def test_sample_moe_is_the_smallest_that_covers_ninety_percent():
    assert sample_moe(np.arange(-50, 50)) == 45
    assert sample_moe(np.zeros((3, 4), dtype=np.int64)) == 0
    assert stats.norm.ppf(0.95) == pytest.approx(sample_moe(np.rint(1000 * stats.norm.ppf(
        (np.arange(100_000) + 0.5) / 100_000)).astype(np.int64)) / 1000, abs=0.01)  # fmt: skip
