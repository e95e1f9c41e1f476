"""Weighted least squares subject to the identities: the best linear unbiased estimate of every cell.

Minimise Σ (m − y)²/V over all m with B m = 0, where y are the noisy counts, V their variances and B the identities.
With M = B V Bᵀ, the solution is m = y − V Bᵀ M⁻¹ B y and its covariance is V − V Bᵀ M⁻¹ B V. Both are exact, and cheap
because V is diagonal and every identity involves few cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse, stats
from scipy.sparse import csgraph
from scipy.sparse import linalg as splinalg

from phsafe.estimation.densities import Array
from phsafe.estimation.identities import identities, independent
from phsafe.estimation.measurement_vector import Measured

Solver = Callable[[Array], Array]
#: Right-hand sides per solve, and the largest system that is solved densely; both bound memory.
CHUNK = 1024
DENSE = 3000


@dataclass(frozen=True)
class Component:
    """A set of identities that shares no cell with the others: its rows of B, and a solver for its block of M."""

    rows: NDArray[np.intp]
    identities: sparse.csr_array
    solve: Solver


@dataclass(frozen=True)
class Fit:
    """The least-squares estimate of every measured cell."""

    estimates: Array = field(repr=False)
    variances: Array = field(repr=False)
    parts: Sequence[Component] = field(repr=False)
    #: The index of each cell's component in `parts`; −1 if no identity involves the cell.
    part_of: NDArray[np.int64] = field(repr=False)
    #: Σ (y − m)²/V, chi-square distributed with `freedom` degrees of freedom if the noise is Gaussian.
    squares: float
    #: The number of independent identities.
    freedom: int

    def variance(self, sums: sparse.csr_array) -> Array:
        """Return the exact variance of linear combinations of the estimates.

        Args:
            sums: One combination per row, with coefficients for the measured cells.
        """
        weighted = sums.multiply(self.variances).tocsr()
        total = np.asarray(weighted.multiply(sums).sum(axis=1)).ravel()
        labels = np.unique(self.part_of[sums.indices])
        for part in (self.parts[label] for label in labels if label >= 0):
            sides = (part.identities @ weighted.T).tocsc()
            touched = np.flatnonzero(np.diff(sides.indptr))
            for first in range(0, len(touched), CHUNK):
                columns = touched[first : first + CHUNK]
                side = sides[:, columns].toarray()
                total[columns] -= np.einsum("ij,ij->j", side, part.solve(side))
        return np.asarray(np.maximum(total, 0.0))


def fit(measured: Measured) -> Fit:
    """Fit the measurements of a release by least squares, subject to all identities between them."""
    y, v = measured.counts, measured.variances
    b = independent(identities(measured), np.ones(len(y), bool))
    weighted = b.multiply(v).tocsr()
    m = (weighted @ b.T).tocsr()
    count, labels = csgraph.connected_components(m, directed=False)
    gaps, multipliers = b @ y, np.zeros(b.shape[0])
    parts, part_of = [], np.full(len(y), -1)
    for label in range(count):
        rows = np.flatnonzero(labels == label)
        part = Component(rows, b[rows], _solver(m[rows][:, rows]))
        part_of[part.identities.indices] = label
        multipliers[rows] = part.solve(gaps[rows])
        parts.append(part)
    fitted = y - weighted.T @ multipliers
    return Fit(fitted, v, parts, part_of, float(gaps @ multipliers), b.shape[0])


def _solver(m: sparse.csr_array) -> Solver:
    """A solver for a symmetric positive definite matrix. Dense is much faster if the matrix fits in memory."""
    if m.shape[0] > DENSE:
        sparse_factor = splinalg.splu(m.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
        return cast(Solver, sparse_factor.solve)
    factor = linalg.cho_factor(m.toarray())
    return lambda side: cast(Array, linalg.cho_solve(factor, side))


def noise_test(fit: Fit, measured: Measured) -> tuple[float, float, float]:
    """Test whether the residuals match the noise that the release states.

    The sum of squares of noise with excess kurtosis κ has variance 2·df + κ Σ h², where h is the share of a
    measurement's variance that least squares removes. The p-value is from a scaled chi-square distribution with that
    mean and variance.

    Returns:
        The expected sum of squares, its standard deviation, and the p-value of the observed one.
    """
    df = fit.freedom
    if df == 0:
        return 0.0, 0.0, 1.0
    kept = fit.variance(sparse.eye_array(len(fit.estimates), format="csr")) if measured.density.excess_kurtosis else 0
    removed = 1 - kept / fit.variances
    variance = 2 * df + measured.density.excess_kurtosis * float(np.sum(np.square(removed)))
    scale = variance / (2 * df)
    return float(df), float(np.sqrt(variance)), float(stats.chi2.sf(fit.squares / scale, df / scale))
