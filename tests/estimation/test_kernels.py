"""Noise cut at zero: closed forms against SciPy and numerical integration, far tails included."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from phsafe.estimation.kernels import KERNELS, LAPLACE, NORMAL

REFERENCE = {NORMAL: stats.norm, LAPLACE: stats.laplace}
KINDS = pytest.mark.parametrize("kernel", [NORMAL, LAPLACE], ids=["normal", "laplace"])


@KINDS
@pytest.mark.parametrize("low", [-8.0, -2.0, -0.3, 0.0, 0.4, 3.0, 6.0, 20.0])
def test_mean_and_quantiles_by_integration(kernel, low):
    density = REFERENCE[kernel].pdf
    points = [x for x in (low, 0.0) if x >= low]
    pieces = [*points, low + 3, low + 60] if low >= 0 else [low, 0.0, 60.0]
    mass = sum(integrate.quad(density, a, b)[0] for a, b in pairwise(pieces))
    mean = sum(integrate.quad(lambda x: x * density(x), a, b)[0] for a, b in pairwise(pieces))
    assert kernel.mean_above(np.array(low)) == pytest.approx(mean / mass, rel=1e-6)
    lower, upper = kernel.equal_tails(np.array(low))
    assert integrate.quad(density, low, lower)[0] / mass == pytest.approx(0.05, rel=1e-5)
    assert REFERENCE[kernel].sf(upper) / mass == pytest.approx(0.05, rel=1e-5)


@KINDS
@pytest.mark.parametrize("low", [-9.0, -1.5, -1.0, 0.0, 2.0, 12.0, 60.0, 700.0])
def test_shortest_interval_holds_ninety_percent_and_the_mean(kernel, low):
    low = np.array(low)
    start, end = kernel.shortest(low)
    assert np.isfinite(start) and low <= start < kernel.mean_above(low) < end < np.inf
    inside = kernel.cut(np.array(0.5), start, end)[1] - kernel.cut(np.array(0.5), low)[1]
    assert np.exp(inside) == pytest.approx(0.9, rel=1e-6)
    tails = kernel.equal_tails(low)
    assert end - start <= tails[1] - tails[0] + 1e-12


@KINDS
def test_far_tails_keep_their_digits(kernel):
    low = np.array([20.0, 35.0, 40.0, 300.0])
    draw, _ = kernel.cut(np.array(0.5), low)
    # Far out the excess over the bound is exponential, of rate 1/low (normal, nearly) or 1 (Laplace).
    rate = low if kernel is NORMAL else 1.0
    assert np.allclose((draw - low) * rate, np.log(2), rtol=0.03)
    assert kernel.mean_above(low) == pytest.approx(low + 1 / rate, rel=0.01)
    assert np.all(np.diff(kernel.cut(np.array(0.5), low)[1]) < 0)


def test_scale_of_the_geometric():
    scale = np.array([0.2, 1.0, 41.3, 1e5])
    q = np.exp(-1 / scale)
    assert LAPLACE.scale(2 * q / (1 - q) ** 2) == pytest.approx(scale, rel=1e-6)
    assert KERNELS["Discrete Gaussian"].scale(np.array(9.0)) == 3.0
