"""Weighted least squares subject to the identities: the best linear unbiased estimate of every cell.

Minimise Σ (m − y)²/V over all m with B m = 0, where y are the noisy counts, V their variances and B the identities.
With M = B V Bᵀ, the solution is m = y − V Bᵀ M⁻¹ B y and its covariance is V − V Bᵀ M⁻¹ B V. Both are exact, and cheap
because V is diagonal and every identity involves few cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse, stats
from scipy.sparse import csgraph
from scipy.sparse import linalg as splinalg

from phsafe.configs.config import Config
from phsafe.estimation.densities import Array
from phsafe.estimation.identities import Identity, identities, independent
from phsafe.estimation.measurement_vector import LevelBlock, Measured

Solver = Callable[[Array], Array]
#: Returns standard normal draws, (size, number of draws).
NormalDraws = Callable[[int], Array]


class CellEstimates(Protocol):
    """Jointly normal estimates of every measured cell."""

    @property
    def estimates(self) -> Array:
        """The estimate of every cell."""

    def alike(self, blocks: Iterable[LevelBlock]) -> list[list[LevelBlock]]:
        """Measurements whose estimates can be compared: those of everybody, and those up to the thresholds."""

    def same_people(self, config: Config, blocks: Iterable[LevelBlock]) -> list[Identity]:
        """Sums in different universes that count the same people."""

    def variance(self, sums: sparse.csr_array) -> Array:
        """Return the variance of linear combinations of the estimates, one per row."""

    def covariance(self, sums: sparse.csr_array) -> Array:
        """Return the covariance matrix of a few linear combinations of the estimates, one per row."""

    def draws(self, standard: NormalDraws) -> Array:
        """Return draws of the true counts given the estimates, positions × draws."""


#: Right-hand sides per solve, and the largest system that is solved densely; both bound memory.
CHUNK = 1024
DENSE = 3000


@dataclass(frozen=True)
class Component:
    """A set of identities that shares no cell with the others: its rows of B, and a solver for its block of M."""

    rows: NDArray[np.intp]
    identities: sparse.csr_array
    solve: Solver
    #: Maps every column b of a matrix to bᵀ M⁻¹ b.
    squares: Solver


@dataclass(frozen=True)
class Projection:
    """Least squares for given variances and identities, before any noisy count is known."""

    variances: Array = field(repr=False)
    parts: Sequence[Component] = field(repr=False)
    #: The index of each cell's component in `parts`; −1 if no identity involves the cell.
    part_of: NDArray[np.int64] = field(repr=False)

    @property
    def freedom(self) -> int:
        """The number of independent identities."""
        return sum(len(part.rows) for part in self.parts)

    def apply(self, noisy: Array) -> Array:
        """Return the least-squares estimates for noisy counts, given as a vector or as the columns of a matrix.

        Applied to noise alone, it gives the errors of the estimates.
        """
        fitted = np.array(noisy, np.float64)
        column = self.variances if fitted.ndim == 1 else self.variances[:, None]
        for part in self.parts:
            fitted -= column * (part.identities.T @ part.solve(part.identities @ noisy))
        return fitted

    def variance(self, sums: sparse.csr_array) -> Array:
        """Return the exact variance of linear combinations of the estimates.

        Args:
            sums: One combination per row, with coefficients for the measured cells.
        """
        weighted = sums.multiply(self.variances).tocsr()
        total = np.asarray(weighted.multiply(sums).sum(axis=1)).ravel()
        labels = np.unique(self.part_of[sums.indices])
        by_cell = weighted.tocsc()
        for part in (self.parts[label] for label in labels if label >= 0):
            cells = np.unique(part.identities.indices)
            own = by_cell[:, cells]
            touched = np.unique(own.indices)
            rows, identities = own.tocsr()[touched], part.identities[:, cells]
            for first in range(0, len(touched), CHUNK):
                side = (identities @ rows[first : first + CHUNK].T).toarray()
                total[touched[first : first + CHUNK]] -= part.squares(side)
        return np.asarray(np.maximum(total, 0.0))

    def covariance_with(self, sums: sparse.csr_array) -> Array:
        """Return the exact covariance of all estimates (rows) with a few linear combinations of them (columns)."""
        weighted = sums.multiply(self.variances).T.tocsr()
        total = weighted.toarray()
        for part in self.parts:
            side = part.identities @ weighted
            touched, cells = np.unique(side.indices), np.unique(part.identities.indices)
            removed = part.identities[:, cells].T @ part.solve(side[:, touched].toarray())
            total[np.ix_(cells, touched)] -= self.variances[cells, None] * removed
        return np.asarray(total)

    def covariance(self, sums: sparse.csr_array) -> Array:
        """Return the exact covariance matrix of a few linear combinations of the estimates."""
        total = sums @ self.covariance_with(sums)
        return np.asarray((total + total.T) / 2)


@dataclass(frozen=True)
class Fit:
    """The least-squares estimate of every measured cell."""

    projection: Projection
    estimates: Array = field(repr=False)
    #: Σ (y − m)²/V, chi-square distributed with as many degrees of freedom as identities if the noise is Gaussian.
    squares: float

    def alike(self, blocks: Iterable[LevelBlock]) -> list[list[LevelBlock]]:
        """Measurements whose estimates can be compared: all, since thresholds apply to all."""
        return [list(blocks)]

    def same_people(self, config: Config, blocks: Iterable[LevelBlock]) -> list[Identity]:
        """Sums in different universes that count the same people: none, since thresholds differ."""
        return []

    def variance(self, sums: sparse.csr_array) -> Array:
        """Return the exact variance of linear combinations of the estimates, one per row."""
        return self.projection.variance(sums)

    def covariance(self, sums: sparse.csr_array) -> Array:
        """Return the exact covariance matrix of a few linear combinations of the estimates, one per row."""
        return self.projection.covariance(sums)

    def errors(self, standard: NormalDraws) -> Array:
        """Return draws of the errors of the estimates, positions × draws."""
        return self.projection.apply(standard(len(self.estimates)) * np.sqrt(self.projection.variances)[:, None])

    def draws(self, standard: NormalDraws) -> Array:
        """Return draws of the true counts given the fit, positions × draws."""
        return np.asarray(self.estimates[:, None] + self.errors(standard))


def fit(measured: Measured) -> Fit:
    """Fit the measurements of a release by least squares, subject to all identities between them."""
    return fit_with(project(measured), measured.counts)


def fit_with(projection: Projection, noisy: Array) -> Fit:
    """Fit noisy counts with a projection computed earlier."""
    fitted = projection.apply(noisy)
    return Fit(projection, fitted, float(np.sum(np.square(noisy - fitted) / projection.variances)))


def project(measured: Measured) -> Projection:
    """Prepare the least-squares fit of measurements: identities, and solvers for their independent components."""
    v = measured.variances
    return projection_of(independent(identities(measured), np.ones(len(v), bool)), v)


def projection_of(b: sparse.csr_array, variances: Array) -> Projection:
    """Least squares subject to B m = 0, where the rows of B are linearly independent."""
    m = (b.multiply(variances).tocsr() @ b.T).tocsr()
    count, labels = csgraph.connected_components(m, directed=False)
    parts, part_of = [], np.full(len(variances), -1)
    whole = m.toarray() if m.shape[0] <= DENSE else m  # It is much faster to take blocks from a dense matrix.
    for label in range(count):
        rows = np.flatnonzero(labels == label)
        part = Component(rows, b[rows], *_solvers(whole[rows][:, rows]))
        part_of[part.identities.indices] = label
        parts.append(part)
    return Projection(variances, parts, part_of)


def _solvers(m: Array | sparse.csr_array) -> tuple[Solver, Solver]:
    """Solve M x = b, and compute bᵀ M⁻¹ b, for a symmetric positive definite matrix.

    Dense is much faster if the matrix fits in memory; the quadratic form then needs only one triangular solve.
    """
    if not isinstance(m, np.ndarray) and m.shape[0] > DENSE:
        solve = splinalg.splu(m.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}).solve
        return cast(Solver, solve), lambda side: np.einsum("ij,ij->j", side, solve(side))
    dense = m if isinstance(m, np.ndarray) else m.toarray()
    factor = linalg.cholesky(dense, lower=True, overwrite_a=True, check_finite=False)

    def squares(side: Array) -> Array:
        half = linalg.solve_triangular(factor, side, lower=True, check_finite=False)
        return np.asarray(np.einsum("ij,ij->j", half, half))

    return lambda side: cast(Array, linalg.cho_solve((factor, True), side, check_finite=False)), squares


def removed_shares(projection: Projection) -> Array:
    """The share of each measurement's variance that least squares removes; they add up to the degrees of freedom."""
    kept = projection.variance(sparse.eye_array(len(projection.variances), format="csr"))
    return np.asarray(1 - kept / projection.variances)


def noise_test(fit: Fit, measured: Measured, removed: Array) -> tuple[float, float, float]:
    """Test whether the residuals match the noise that the release states.

    The sum of squares of noise with excess kurtosis κ has variance 2·df + κ Σ h², where h is the share of a
    measurement's variance that least squares removes. The p-value is from a scaled chi-square distribution with that
    mean and variance.

    Returns:
        The expected sum of squares, its standard deviation, and the p-value of the observed one.
    """
    df = fit.projection.freedom
    if df == 0:
        return 0.0, 0.0, 1.0
    variance = 2 * df + measured.density.excess_kurtosis * float(np.sum(np.square(removed)))
    scale = variance / (2 * df)
    return float(df), float(np.sqrt(variance)), float(stats.chi2.sf(fit.squares / scale, df / scale))
