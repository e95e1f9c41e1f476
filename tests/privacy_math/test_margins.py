"""Margins of error agree with independent computations."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from phsafe.privacy_math.margins import (
    gaussian_moe,
    gaussian_quantile,
    geometric_moe,
    geometric_quantile,
    geometric_variance,
    rho_for_moe,
)


def _within(m: int, variance: float) -> float:
    """P(|X| ≤ m) for the discrete Gaussian, by direct summation."""
    x = np.arange(-math.ceil(14 * math.sqrt(variance)) - 1, math.ceil(14 * math.sqrt(variance)) + 2)
    weights = np.exp(-(x.astype(float) ** 2) / (2 * variance))
    return float(weights[np.abs(x) <= m].sum() / weights.sum())


@given(st.floats(-4, 8).map(lambda e: 10.0**e))
@settings(max_examples=60, deadline=None)
def test_gaussian_quantile_is_the_smallest_that_covers(variance):
    m = gaussian_quantile(variance)
    assert _within(m, variance) >= 0.9 - 1e-12
    assert m == 0 or _within(m - 1, variance) < 0.9 + 1e-12


@pytest.mark.parametrize(
    ("sigma", "m"),
    [(0.3**0.5, 1), (49.9, 82), (50.1, 82), (50.156445, 82), (50.1571, 82), (50.1574, 83), (121.6, 200)],
)
def test_quantiles_for_which_a_rounded_normal_quantile_may_be_wrong(sigma, m):
    assert gaussian_quantile(sigma**2) == m
    assert _within(m, sigma**2) >= 0.9 > _within(m - 1, sigma**2)


def test_huge_noise_has_a_quantile():
    assert gaussian_quantile(1e24) == pytest.approx(1.6448536e12)


def test_the_papers_example():
    assert gaussian_moe(2 / 0.000022) == pytest.approx(495.99, abs=0.005)
    assert gaussian_moe(Fraction(242) / Fraction("0.016371")) == pytest.approx(200, abs=0.005)


@pytest.mark.parametrize("scale", [0.05, 0.4, 1.0, 22.0, 8400.15])
def test_geometric_noise(scale):
    x = np.arange(-math.ceil(60 * scale) - 2, math.ceil(60 * scale) + 3)
    p = stats.dlaplace.pmf(x, 1 / scale)
    assert geometric_variance(scale) == pytest.approx(float((p * x.astype(float) ** 2).sum()), rel=1e-9)
    m = geometric_quantile(scale)
    assert p[np.abs(x) <= m].sum() >= 0.9 - 1e-12
    assert m == 0 or p[np.abs(x) <= m - 1].sum() < 0.9
    assert geometric_moe(scale) == pytest.approx(scale * math.log(10))


@pytest.mark.parametrize(
    ("target", "k", "rho"),
    [
        (500, 242, "0.002619"), (200, 242, "0.016371"), (68, 242, "0.141622"),
        (500, 98, "0.001061"), (200, 98, "0.006630"), (20, 98, "0.662976"),
        (500, 2, "0.000022"), (200, 2, "0.000135"), (68, 2, "0.001170"),
    ],
)  # fmt: skip
def test_targets_give_every_budget_of_the_papers_table(target, k, rho):
    assert rho_for_moe(Fraction(target), Fraction(k)) == Decimal(rho)


def test_the_budget_is_increased_if_rounding_misses_the_target():
    # The budget rounds to 0, which meets no target.
    assert rho_for_moe(Fraction(10**9), Fraction(2)) == Decimal("0.000001")
    # With the rounded budget the MOE would be exactly 1645, one more than the target.
    assert rho_for_moe(Fraction(1644), Fraction(2)) == Decimal("0.000003")
