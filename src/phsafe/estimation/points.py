"""From the least-squares estimate to counts that can be published: whole, not negative, and in agreement.

Levels are settled from the top: the nation first, each level then adds up to what stands above it. Fixing the
sums first matters: raising every negative small cell to zero on its own would push up every sum of them.
Within a level the counts are the possible ones nearest to the least-squares estimate, in units of the noise;
then they are rounded so that all sums stay exact (controlled rounding).
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
from phsafe.estimation.fit import Fit
from phsafe.estimation.identities import Identity, identities, independent, matrix
from phsafe.estimation.kernels import Array
from phsafe.estimation.lines import counted
from phsafe.estimation.measured import Measured
from phsafe.levels import Level

#: How far beyond the neighbouring whole numbers rounding may go where sums leave it no choice.
SLACKS = (0, 1, 10, 1000)
#: The solver's own accuracy: this close to a whole number is that number.
TOUCH = 1e-4
#: A bound this many standard deviations away takes no part, unless the solution without it breaks it.
REACHES = (20.0, 1000.0)
#: How far from exact, in people, a sum may be before it is rounded.
ROW_ERROR = 0.05
#: Seconds for one rounding problem; they take a tenth of one.
TIME_LIMIT = 60.0


@dataclass(frozen=True)
class Points:
    """Counts that agree. `moved`: basis cells that a constraint moved by more than one person."""

    counts: NDArray[np.int64] = field(repr=False)
    #: Which places hold a published count.
    shown: NDArray[np.bool_] = field(repr=False)
    moved: int
    #: Whether totals of smaller universes could be kept within larger ones as well.
    nested: bool


@dataclass(frozen=True)
class _Stage:
    """The unknowns of one step and what binds them: equal @ x = sums, larger @ x ≥ bounds, x ≥ 0."""

    columns: NDArray[np.int64]
    equal: sparse.csr_array
    sums: Array
    larger: sparse.csr_array
    bounds: Array


def points(measured: Measured, fit: Fit) -> Points:
    """Whole counts for the cells of all count tables. Places of other cells hold zero."""
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
            raise PHSafeError("no table of counts fits these measurements: are they from one release?")
        values[columns] = whole
        moved += int(np.sum(np.abs(nearest - target) > 1))
    return Points(np.rint(values).astype(np.int64), step >= 0, moved, all_nested)


def _step(level: Level) -> tuple[int, bool]:
    """Larger regions first; in a region the total first."""
    return level.geography.width, len(level.iteration_level.iterations) > 1


def _stage(
    columns: NDArray[np.int64],
    step: NDArray[np.int64],
    values: Array,
    sums: Sequence[Identity],
    larger: Sequence[Identity],
) -> _Stage:
    """The rows whose last unknown is settled in this step, with what was settled before moved to the right."""
    number = step[columns[0]]

    def now(rows: Sequence[Identity]) -> list[Identity]:
        return [row for row in rows if max(step[np.concatenate(row)]) == number]

    inside = step == number
    equal, above = independent(now(sums), inside), matrix(now(larger), len(values))
    fixed = np.where(inside, 0.0, values)
    return _Stage(columns, equal[:, columns].tocsc(), -(equal @ fixed), above[:, columns].tocsc(), -(above @ fixed))


def _nearest(stage: _Stage, target: Array, scale: Array) -> Array | None:
    """The possible counts with the least Σ ((x − target)/scale)²; None where nothing is possible.

    Unknowns are the moves (x − target)/scale, about one in size. Bounds out of reach are left out at first: beside
    them, counts of millions would drown the moves in the solver's arithmetic.
    """
    spread = sparse.diags_array(scale)
    equal, gaps = stage.equal @ spread, stage.sums - stage.equal @ target
    bounds = sparse.vstack([stage.larger @ spread, sparse.eye_array(len(target))], format="csr")
    room = np.concatenate([stage.larger @ target - stage.bounds, target / scale])
    size = np.sqrt(np.asarray(bounds.multiply(bounds).sum(axis=1)).ravel())
    for reach in (*REACHES, np.inf):
        kept = np.flatnonzero(room <= reach * size)
        moves = _solve(equal, gaps, -bounds[kept], room[kept])
        if moves is None:
            return None
        if np.all(bounds @ moves >= -room - TOUCH * size):
            return cast(Array, np.maximum(target + scale * moves, 0.0))
    return None


def _solve(equal: sparse.csr_array, gaps: Array, upper: sparse.csr_array, room: Array) -> Array | None:
    """The least Σ z² with equal @ z = gaps and upper @ z ≤ room; None where there is none."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    n = equal.shape[1]
    solution = clarabel.DefaultSolver(
        sparse.eye_array(n, format="csc"),
        np.zeros(n),
        sparse.vstack([equal, upper], format="csc"),
        np.concatenate([gaps, room]),
        [clarabel.ZeroConeT(len(gaps)), clarabel.NonnegativeConeT(len(room))],
        settings,
    ).solve()
    status = clarabel.SolverStatus
    if solution.status in (status.Solved, status.AlmostSolved, status.InsufficientProgress):
        moves = np.array(solution.x)
        # A solver that stopped early has still solved the problem where its rows hold.
        if np.abs(equal @ moves - gaps).max(initial=0) < ROW_ERROR:
            return moves
    return None


def _round(stage: _Stage, near: Array) -> Array | None:
    """The whole numbers with the least Σ |x − near| that satisfy the same rows; None where there are none.

    x = floor + up − below + beyond: `up` is 0 or 1 and costs what it changes, steps past the neighbouring whole
    numbers cost one each. Most rows are those of a flow through a network, where the linear program is whole already.
    """
    near = np.where(np.abs(near - np.rint(near)) < TOUCH, np.rint(near), near)
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
