"""Margins of error of sums of noise."""

import math

import numpy as np
import pytest

from phsafe.privacy.mechanism import Noise
from phsafe.privacy_math import noise_sums


def brute_force(privacy: str, scale: float, terms: int) -> int:
    """The 90 % MOE of a sum of noise draws, by convolving their distributions."""
    x = np.arange(-2000, 2001)
    single = np.exp(-((x / scale) ** 2) / 2 if privacy == "zcdp" else -np.abs(x) / scale)
    single /= single.sum()
    total = single
    for _ in range(terms - 1):
        total = np.convolve(total, single)
    centre = len(total) // 2
    m, within = 0, total[centre]
    while within < 0.9:
        m += 1
        within += total[centre - m] + total[centre + m]
    return m


@pytest.mark.parametrize("privacy", ["zcdp", "puredp"])
@pytest.mark.parametrize("terms", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.4, 1.3, 2.9, 3.1, 17.0, 60.0])
def test_exact_margins_of_sums_equal_brute_force(privacy, scale, terms):
    assert noise_sums.exact_moe(privacy, Noise("", scale, scale**2), terms) == brute_force(privacy, scale, terms)


def test_large_geometric_sums_approach_their_limit():
    noise = Noise("", 250.0, 0.0)
    assert noise_sums.exact_moe("puredp", noise, 4) == pytest.approx(noise_sums.moe("puredp", noise, 4), abs=1)
    larger = Noise("", 5000.0, 0.0)
    assert noise_sums.exact_moe("puredp", larger, 4) == math.ceil(noise_sums.moe("puredp", larger, 4))


def test_margins_of_one_term_and_of_gaussian_sums_follow_the_formula():
    noise = Noise("", 20.0, 400.0)
    assert noise_sums.moe("zcdp", noise, 4) == pytest.approx(2 * noise_sums.moe("zcdp", noise))
    assert noise_sums.moe("puredp", noise) == pytest.approx(20 * math.log(10), rel=1e-3)


@pytest.mark.parametrize("parts", [((2.0, 1), (9.0, 2)), ((5.0, 3), (40.0, 1)), ((30.0, 2), (900.0, 4))])
def test_sums_of_different_geometric_scales(parts):
    """Against a million draws: the MOE covers 90 %, and one step less covers less."""
    rng = np.random.default_rng(5)
    total = np.zeros(1_000_000)
    for scale, number in parts:
        q = 1 - math.exp(-1 / scale)
        for _ in range(number):
            total += rng.geometric(q, len(total)) - rng.geometric(q, len(total))
    margin = noise_sums.mixed_geometric_moe(parts)
    assert np.mean(np.abs(total) <= margin) == pytest.approx(0.9, abs=0.012 if margin < 60 else 0.002)
    largest = max(scale for scale, _ in parts)
    assert margin < noise_sums.exact_moe("puredp", Noise("", largest, 2 * largest**2), sum(n for _, n in parts))
