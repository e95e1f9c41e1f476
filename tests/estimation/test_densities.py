"""Restricted noise densities: closed forms against SciPy and numerical integration, including far tails."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from phsafe.estimation.densities import DENSITIES, LAPLACE, NORMAL

REFERENCE = {NORMAL: stats.norm, LAPLACE: stats.laplace}
EVERY_DENSITY = pytest.mark.parametrize("density", [NORMAL, LAPLACE], ids=["normal", "laplace"])


@EVERY_DENSITY
@pytest.mark.parametrize("low", [-8.0, -2.0, -0.3, 0.0, 0.4, 3.0, 6.0, 20.0])
def test_mean_and_quantiles_by_integration(density, low):
    pdf = REFERENCE[density].pdf
    points = [x for x in (low, 0.0) if x >= low]
    edges = [*points, low + 3, low + 60] if low >= 0 else [low, 0.0, 60.0]
    mass = sum(integrate.quad(pdf, a, b)[0] for a, b in pairwise(edges))
    mean = sum(integrate.quad(lambda x: x * pdf(x), a, b)[0] for a, b in pairwise(edges))
    assert density.mean_above(np.array(low)) == pytest.approx(mean / mass, rel=1e-6)
    lower, upper = density.equal_tails(np.array(low))
    assert integrate.quad(pdf, low, lower)[0] / mass == pytest.approx(0.05, rel=1e-5)
    assert REFERENCE[density].sf(upper) / mass == pytest.approx(0.05, rel=1e-5)


@EVERY_DENSITY
@pytest.mark.parametrize("low", [-9.0, -1.5, -1.0, 0.0, 2.0, 12.0, 60.0, 700.0])
def test_shortest_interval_contains_ninety_percent_and_the_mean(density, low):
    low = np.array(low)
    start, end = density.shortest(low)
    assert np.isfinite(start) and low <= start < density.mean_above(low) < end < np.inf
    inside = density.quantile_between(np.array(0.5), start, end)[1] - density.quantile_between(np.array(0.5), low)[1]
    assert np.exp(inside) == pytest.approx(0.9, rel=1e-6)
    tails = density.equal_tails(low)
    assert end - start <= tails[1] - tails[0] + 1e-12


@EVERY_DENSITY
def test_far_tails_keep_their_precision(density):
    low = np.array([20.0, 35.0, 40.0, 300.0])
    draw, _ = density.quantile_between(np.array(0.5), low)
    # Far out, the excess over the bound is exponential, with mean 1/low (approximately, for the normal) or 1 (Laplace).
    rate = low if density is NORMAL else 1.0
    assert np.allclose((draw - low) * rate, np.log(2), rtol=0.03)
    assert density.mean_above(low) == pytest.approx(low + 1 / rate, rel=0.01)
    assert np.all(np.diff(density.quantile_between(np.array(0.5), low)[1]) < 0)


def test_scale_matches_the_variance():
    scale = np.array([0.2, 1.0, 41.3, 1e5])
    q = np.exp(-1 / scale)
    assert LAPLACE.scale(2 * q / (1 - q) ** 2) == pytest.approx(scale, rel=1e-6)
    assert DENSITIES["Discrete Gaussian"].scale(np.array(9.0)) == 3.0
