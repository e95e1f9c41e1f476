"""From least-squares estimates to publishable counts: whole, non-negative and consistent.

Levels are solved top-down: the nation first, then each level so that it adds up to the one above. Fixing the sums
first matters, because raising every negative small cell to zero separately would bias all their sums upwards. Within
a level, the counts are the feasible ones nearest to the least-squares estimates, with distances measured in standard
deviations of the noise. They are then rounded so that all sums remain exact (controlled rounding).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from phsafe.errors import PHSafeError
from phsafe.estimation.constraints import smaller_universes, subgroups
from phsafe.estimation.densities import Array
from phsafe.estimation.fit import Fit
from phsafe.estimation.identities import Identity, identities, independent, matrix
from phsafe.estimation.measurement_vector import Measured
from phsafe.estimation.table_lines import counted
from phsafe.model.levels import Level

#: How far past the neighbouring whole numbers rounding may go if the sums require it; tried in this order.
SLACKS = (0, 1, 10, 1000)
#: The solver's accuracy: a value this close to a whole number is treated as that number.
TOLERANCE = 1e-4
#: A bound more than this many standard deviations away is left out, unless the solution without it violates it.
REACHES = (20.0, 1000.0)
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
class _Stage:
    """The unknowns of one step and their constraints: equal @ x = sums, larger @ x ≥ bounds, x ≥ 0."""

    columns: NDArray[np.int64]
    equal: sparse.csr_array
    sums: Array
    larger: sparse.csr_array
    bounds: Array


def points(measured: Measured, fit: Fit) -> Points:
    """Return consistent whole counts for the cells of all count tables."""
    shown = {counted(table) for table in measured.config.catalog.tables}
    blocks = measured.of([t for t in shown if t is not None])
    sums = identities(measured, blocks)
    inner, nested = list(subgroups(blocks)), list(smaller_universes(measured.config, blocks))
    values = np.zeros(len(measured.counts))
    step = np.full(len(values), -1)
    steps = sorted({_step(block.level) for block in blocks})
    for block in blocks:
        step[block.positions()] = steps.index(_step(block.level))
    moved, all_nested = 0, True
    for number in range(len(steps)):
        columns = np.flatnonzero(step == number)
        target, scale = fit.estimates[columns], np.sqrt(measured.variances[columns])
        stage = _stage(columns, step, values, sums, [*inner, *nested])
        nearest = _nearest(stage, target, scale)
        whole = None if nearest is None else _round(stage, nearest)
        if nearest is None or whole is None:
            all_nested = False
            stage = _stage(columns, step, values, sums, inner)
            nearest = _nearest(stage, target, scale)
            whole = None if nearest is None else _round(stage, nearest)
        if nearest is None or whole is None:
            raise PHSafeError("no consistent counts fit these measurements: are they all from one release?")
        values[columns] = whole
        moved += int(np.sum(np.abs(nearest - target) > 1))
    return Points(np.rint(values).astype(np.int64), step >= 0, moved, all_nested)


def _step(level: Level) -> tuple[int, bool]:
    """Sort key of a level: larger regions first, and within a region the total first."""
    return level.geography.width, len(level.iteration_level.iterations) > 1


def _stage(
    columns: NDArray[np.int64],
    step: NDArray[np.int64],
    values: Array,
    sums: Sequence[Identity],
    larger: Sequence[Identity],
) -> _Stage:
    """The constraints whose last unknown is solved in this step; values solved earlier move to the right-hand side."""
    number = step[columns[0]]

    def now(rows: Sequence[Identity]) -> list[Identity]:
        return [row for row in rows if max(step[np.concatenate(row)]) == number]

    inside = step == number
    equal, above = independent(now(sums), inside), matrix(now(larger), len(values))
    fixed = np.where(inside, 0.0, values)
    return _Stage(columns, equal[:, columns].tocsc(), -(equal @ fixed), above[:, columns].tocsc(), -(above @ fixed))


def _nearest(stage: _Stage, target: Array, scale: Array) -> Array | None:
    """The feasible counts with the least Σ ((x − target)/scale)²; None if there are none.

    The solver's unknowns are the moves (x − target)/scale, which are of order one. Distant bounds are left out at
    first: with counts in the millions on their right-hand sides, the solver would lose the moves to rounding error.
    """
    spread = sparse.diags_array(scale)
    equal, gaps = stage.equal @ spread, stage.sums - stage.equal @ target
    bounds = sparse.vstack([stage.larger @ spread, sparse.eye_array(len(target))], format="csr")
    headroom = np.concatenate([stage.larger @ target - stage.bounds, target / scale])
    size = np.sqrt(np.asarray(bounds.multiply(bounds).sum(axis=1)).ravel())
    for reach in (*REACHES, np.inf):
        kept = np.flatnonzero(headroom <= reach * size)
        moves = _solve(equal, gaps, -bounds[kept], headroom[kept])
        if moves is None:
            return None
        if np.all(bounds @ moves >= -headroom - TOLERANCE * size):
            return cast(Array, np.maximum(target + scale * moves, 0.0))
    return None


def _solve(equal: sparse.csr_array, gaps: Array, upper: sparse.csr_array, headroom: Array) -> Array | None:
    """Minimise Σ z² subject to equal @ z = gaps and upper @ z ≤ headroom; None if infeasible."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    n = equal.shape[1]
    solution = clarabel.DefaultSolver(
        sparse.eye_array(n, format="csc"),
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


def _round(stage: _Stage, near: Array) -> Array | None:
    """The whole numbers with the least Σ |x − near| that satisfy the same constraints; None if there are none.

    x = floor + up − below + beyond, where `up` is 0 or 1 and costs the change that it makes, and each step past the
    neighbouring whole numbers (`below`, `beyond`) costs one. Most constraints describe a network flow, for which the
    linear relaxation already has an integer solution.
    """
    near = np.where(np.abs(near - np.rint(near)) < TOLERANCE, np.rint(near), near)
    floor = np.floor(near)
    up = np.ceil(near) - floor
    ones = np.ones(len(near))
    rows = sparse.vstack([stage.equal, stage.larger])
    low = np.concatenate([stage.sums, stage.bounds]) - rows @ floor
    high = np.concatenate([stage.sums, np.full(len(stage.bounds), np.inf)]) - rows @ floor
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
