"""From least-squares estimates to publishable counts: whole, non-negative and consistent, within a time limit.

All levels are solved at once: the counts are the feasible ones whose *published lines* (cells, totals, sums over
regions) are nearest to the fit, Σ ω ((c·x − c·m̂)/s)², where s is the exact standard deviation of a line under the fit
and ω = √n for a line that adds up n regions, less for a line near zero. A precise line thus moves little even if its
cells are noisy, and a small group that is raised to zero is paid for by the lines that can absorb it, not by one large
region. The counts are then rounded so that all sums remain exact (controlled rounding).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from phsafe.errors import PHSafeError
from phsafe.estimation.constraints import equalities, smaller_universes, subgroups
from phsafe.estimation.densities import Array
from phsafe.estimation.fit import CellEstimates
from phsafe.estimation.identities import independent, matrix
from phsafe.estimation.measurement_vector import Measured
from phsafe.estimation.published_lines import PublishedLines

#: How far past the neighbouring whole numbers rounding may go if the sums require it; tried in this order.
SLACKS = (0, 1, 10, 1000)
#: The solver's accuracy: a value this close to a whole number is treated as that number.
TOLERANCE = 1e-4
#: A bound more than this many standard deviations away is left out, unless the solution without it violates it.
REACHES = (20.0, 1000.0)
#: A line less than this many standard deviations above zero weighs less, in proportion, but at least the least weight.
#: What is left in small groups after others were raised to zero is mostly positive noise: it is better to remove it
#: there than to make large regions absorb it.
FULL_WEIGHT, LEAST_WEIGHT = 3.0, 0.25
#: The largest error of a sum, in people, that is accepted before rounding.
ROW_ERROR = 0.05
#: Time limit in seconds for one rounding problem; a typical one takes 0.1 s.
TIME_LIMIT = 60.0


@dataclass(frozen=True)
class Points:
    """Consistent counts.

    Attributes:
        counts: A whole count for every measured cell; zero where no count is published.
        shown: Which positions hold a published count.
        moved: The number of basis cells that the constraints moved by more than one person.
        nested: Whether totals of smaller universes could also be kept within those of larger ones.
    """

    counts: NDArray[np.int64] = field(repr=False)
    shown: NDArray[np.bool_] = field(repr=False)
    moved: int
    nested: bool


@dataclass(frozen=True)
class _Constraints:
    """The unknowns and their constraints: equal @ x = 0, larger @ x ≥ 0, x ≥ 0."""

    columns: NDArray[np.int64]
    equal: sparse.csr_array
    larger: sparse.csr_array


def points(measured: Measured, cells: CellEstimates, lines: PublishedLines, scale: Array) -> Points:
    """Return consistent whole counts for the cells of all count tables.

    Args:
        measured: The measurements of the release.
        cells: The unconstrained estimates.
        lines: The published lines.
        scale: The standard deviation of every published line, because of noise.
    """
    blocks = lines.blocks
    sums, target = equalities(measured, cells, blocks), cells.estimates
    inner, nested = list(subgroups(blocks)), list(smaller_universes(measured.config, cells, blocks))
    shown = np.zeros(len(measured.counts), bool)
    for block in blocks:
        shown[block.positions()] = True
    if not shown.any():
        return Points(np.zeros(len(shown), np.int64), shown, 0, True)
    columns = np.flatnonzero(shown)
    equal = independent(sums, shown)[:, columns].tocsr()
    for larger, all_nested in (([*inner, *nested], True), (inner, False)):
        constraints = _Constraints(columns, equal, matrix(larger, len(shown))[:, columns].tocsr())
        nearest = _nearest(constraints, target[columns], lines, scale)
        whole = None if nearest is None else _round(constraints, nearest)
        if nearest is not None and whole is not None:
            counts = np.zeros(len(shown), np.int64)
            counts[columns] = np.rint(whole)
            return Points(counts, shown, int(np.sum(np.abs(nearest - target[columns]) > 1)), all_nested)
    raise PHSafeError("no consistent counts fit these measurements: are they all from one release?")


def _nearest(constraints: _Constraints, target: Array, lines: PublishedLines, scale: Array) -> Array | None:
    """The feasible counts with the least Σ ω ((c·x − c·target)/s)² over published lines; None if there are none.

    The solver's unknowns are the moves of cells in standard deviations, which are of order one. Distant bounds are left
    out at first: with counts in the millions on their right-hand sides, the solver would lose the moves to rounding
    error.
    """
    c = lines.sums[:, constraints.columns].tocsr()
    single = np.flatnonzero(np.diff(c.indptr) == 1)
    spread = np.ones(len(target))
    spread[c[single].indices] = scale[single]
    spread_by = sparse.diags_array(spread)
    weights = lines.weights * np.clip((c @ target) / scale / FULL_WEIGHT, LEAST_WEIGHT, 1.0)
    rows = sparse.diags_array(np.sqrt(weights) / scale) @ c @ spread_by
    equal, gaps = constraints.equal @ spread_by, -(constraints.equal @ target)
    bounds = sparse.vstack([constraints.larger @ spread_by, sparse.eye_array(len(target))], format="csr")
    headroom = np.concatenate([constraints.larger @ target, target / spread])
    size = np.sqrt(np.asarray(bounds.multiply(bounds).sum(axis=1)).ravel())
    for reach in (*REACHES, np.inf):
        kept = np.flatnonzero(headroom <= reach * size)
        moves = _solve((rows.T @ rows).tocsc(), equal, gaps, -bounds[kept], headroom[kept])
        if moves is None:
            return None
        if np.all(bounds @ moves >= -headroom - TOLERANCE * size):
            return cast(Array, np.maximum(target + spread * moves, 0.0))
    return None


def _solve(
    squares: sparse.csc_array, equal: sparse.csr_array, gaps: Array, upper: sparse.csr_array, headroom: Array
) -> Array | None:
    """Minimise z·squares·z subject to equal @ z = gaps and upper @ z ≤ headroom; None if infeasible."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    n = equal.shape[1]
    solution = clarabel.DefaultSolver(
        sparse.triu(squares, format="csc"),
        np.zeros(n),
        sparse.vstack([equal, upper], format="csc"),
        np.concatenate([gaps, headroom]),
        [clarabel.ZeroConeT(len(gaps)), clarabel.NonnegativeConeT(len(headroom))],
        settings,
    ).solve()
    status = clarabel.SolverStatus
    if solution.status in (status.Solved, status.AlmostSolved, status.InsufficientProgress):
        moves = np.array(solution.x)
        # A solution from a solver that stopped early is accepted if the equalities hold.
        if np.abs(equal @ moves - gaps).max(initial=0) < ROW_ERROR:
            return moves
    return None


def _round(constraints: _Constraints, near: Array) -> Array | None:
    """The whole numbers with the least Σ |x − near| that satisfy the same constraints; None if there are none.

    x = floor + up − below + beyond, where `up` is 0 or 1 and costs the change that it makes, and each step past the
    neighbouring whole numbers (`below`, `beyond`) costs one. Most constraints describe a network flow, for which the
    linear relaxation already has an integer solution.
    """
    near = np.where(np.abs(near - np.rint(near)) < TOLERANCE, np.rint(near), near)
    floor = np.floor(near)
    up = np.ceil(near) - floor
    ones = np.ones(len(near))
    rows = sparse.vstack([constraints.equal, constraints.larger])
    low = -(rows @ floor)
    high = low + np.repeat([0, np.inf], [constraints.equal.shape[0], constraints.larger.shape[0]])
    for slack in SLACKS:
        result = optimize.milp(
            np.concatenate([1 - 2 * (near - floor), ones, ones]),
            integrality=np.ones(3 * len(near)),
            bounds=optimize.Bounds(0, np.concatenate([up, np.minimum(floor, slack), slack * ones])),
            constraints=optimize.LinearConstraint(sparse.hstack([rows, -rows, rows], format="csc"), low, high),
            options={"time_limit": TIME_LIMIT},
        )
        if result.x is not None:
            change, below, beyond = np.rint(result.x).reshape(3, -1)
            return cast(Array, floor + change - below + beyond)
    return None
