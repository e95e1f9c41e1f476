"""Budgets for finished tables: the smallest loss that keeps margins within limits, or the best split of a total.

Finished variances are convex in the budgets, and losses are the larger of two linear sums, so both problems are convex.
With the weights that joint estimation has at the current budgets, a finished variance is at most Σ a/ρ with any
budgets, and equal to it at the current ones. Each step minimises with these bounds, a small cone program, so it never
makes the result worse and never leaves the limits. Budgets are then rounded up to six places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Literal

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.estimation.densities import Array
from phsafe.explorer.finished_margins import FinishedModel, finished_model
from phsafe.explorer.page_requests import Key, Request
from phsafe.explorer.solver_groups import CellCombination
from phsafe.model.exact_numbers import round_up
from phsafe.privacy.accountant import plan
from phsafe.privacy_math.margins import PLACES, gaussian_moe

#: Steps of the search, and the relative improvement that ends it.
STEPS = 100
CLOSE = 2e-5
#: How often budgets are raised before a limit is taken to be out of reach.
RAISES = 40
ZCDP_ONLY = "budgets for finished tables: expected zcdp, whose margins are known exactly, got puredp; leave out --for"


@dataclass(frozen=True)
class FinishedTerm:
    """A finished number: what it adds up, its margin in the baseline, its weight, and the largest margin allowed."""

    cells: CellCombination
    before: float | None
    weight: float
    limit: float | None


@dataclass(frozen=True)
class _Problem:
    """What is asked for, as arrays over levels (in the order of the model's keys) and terms."""

    model: FinishedModel
    terms: Sequence[CellCombination]
    #: The weight of each term's variance in the sum to minimise.
    weights: Array
    #: The largest variance of each term; infinite if it has no limit.
    limits: Array
    least: Array
    locked: NDArray[np.bool_]
    #: For each sum of losses (row) and level, the loss per unit of budget; rows of one tabulation share a number.
    losses: Array
    tabulation_of: NDArray[np.intp]

    def loss(self, budgets: Array) -> float:
        """Return the loss of a run: the larger sum of each tabulation."""
        sums = self.losses @ budgets
        return float(sum(sums[self.tabulation_of == one].max() for one in np.unique(self.tabulation_of)))

    def excess(self, budgets: Array) -> float:
        """Return the largest ratio of a variance to its limit."""
        return float(np.max(self.model.variances(budgets, self.terms) / self.limits, initial=0.0))


def finished_budgets(config: Config, request: Request, terms: Sequence[FinishedTerm], free: frozenset[Key]) -> Config:
    """Return a config whose finished margins are within their limits, with the smallest loss or the best split.

    Args:
        config: The config to start from; it has the mode that the request asks for.
        request: The total (if there is one) and its neighbours, floors and locks.
        terms: The numbers that matter. Weights apply to squared ratios of margins to those of the baseline.
        free: The levels whose budgets may change.

    Raises:
        PHSafeError: The limits can't be met with what is locked, or not with the total.
    """
    problem = _problem(config, request, terms, free)
    start = _within_limits(problem, problem.model.budgets(config))
    if request.total is None:
        return _rounded(config, problem, _improved(problem, start, None))
    # Every budget is rounded up at the end, by less than a millionth.
    total = float(request.total) - 1e-6 * float(np.sum(problem.losses.max(axis=0)[~problem.locked]))
    if problem.loss(start) > total:
        start = _improved(problem, start, None, enough=total)
        smallest = problem.loss(start)
        if smallest > total:
            least = round_up(Fraction(smallest) + Fraction(request.total) - Fraction(total), 6)
            raise PHSafeError(
                f"total: expected at least {least}, which locks, floors and limits need, got {request.total:f}; raise "
                "the total, or relax some of them"
            )
    found = _improved(problem, start, total)
    return _raised(config, problem, request, found)


def _problem(config: Config, request: Request, terms: Sequence[FinishedTerm], free: frozenset[Key]) -> _Problem:
    model = finished_model(config)
    losses, tabulation_of = _losses(config, request.neighbours, model.keys)
    return _Problem(
        model,
        [term.cells for term in terms],
        np.array([0.0 if term.before is None else term.weight / term.before**2 for term in terms]),
        np.array([np.inf if term.limit is None else (term.limit / gaussian_moe(1.0)) ** 2 for term in terms]),
        np.array([float(max(PLACES, request.floors.get(key, PLACES))) for key in model.keys]),
        np.array([key not in free for key in model.keys]),
        losses,
        tabulation_of,
    )


def _losses(
    config: Config, neighbours: Literal["unbounded", "bounded"], keys: Sequence[Key]
) -> tuple[Array, NDArray[np.intp]]:
    """Return the loss per unit of each budget if a household stays, and if it enters or leaves, by tabulation."""
    names = list(dict.fromkeys(name for name, _ in keys))
    losses = np.zeros((2 * len(names), len(keys)))
    for column, event in enumerate(plan(config).events):
        parts = event.losses()
        for case, loss in enumerate((parts.staying, parts.entering)):
            losses[2 * names.index(event.tabulation) + case, column] = getattr(loss, neighbours) / event.stated
    return losses, np.repeat(np.arange(len(names)), 2)


def _within_limits(problem: _Problem, budgets: Array) -> Array:
    """Raise free budgets until every limit is met."""
    budgets = np.where(problem.locked, budgets, np.maximum(budgets, problem.least))
    for _ in range(RAISES):
        excess = problem.excess(budgets)
        if excess <= 1:
            return budgets
        budgets = np.where(problem.locked, budgets, budgets * min(max(excess, 1.1), 1000.0))
    raise PHSafeError("some margins can't be met with the locked budgets, however large the others; unlock some levels")


def _improved(problem: _Problem, budgets: Array, total: float | None, enough: float = -np.inf) -> Array:
    """Improve budgets that meet all limits: the smallest loss without a total, else the best split of it.

    Stops early at a loss of at most `enough`.
    """
    value = np.inf
    for step in range(STEPS):
        coefficients = problem.model.coefficients(budgets, problem.terms) / budgets
        now = problem.loss(budgets) if total is None else float(problem.weights @ coefficients.sum(axis=1))
        fits = total is None or problem.loss(budgets) <= total * (1 + 1e-6)
        if now <= enough or (fits and value - now <= CLOSE * now):
            break
        value = now if fits else np.inf
        following = _step(problem, budgets, coefficients, total)
        if following is None:
            if fits and step:  # The solver stops where rounding errors are larger than the progress that is left.
                break
            raise PHSafeError("no budgets for finished tables were found; relax some limits or locks")
        budgets = following
    return budgets


def _step(problem: _Problem, budgets: Array, coefficients: Array, total: float | None) -> Array | None:
    """Minimise with the current weights; None if the solver finds no minimum.

    Variables: x = ρ/ρ now, t ≥ 1/x, and the loss of each tabulation.
    """
    n, m = len(budgets), problem.tabulation_of[-1] + 1
    limited = np.isfinite(problem.limits)
    zero = sparse.csr_array
    losses = problem.losses * budgets
    own = sparse.csr_array((-np.ones(2 * m), (np.arange(2 * m), problem.tabulation_of)), shape=(2 * m, m))
    eye = sparse.eye_array(n, format="csr")
    at_most = [
        (sparse.hstack([sparse.csr_array(losses), zero((2 * m, n)), own]), np.zeros(2 * m)),
        (sparse.hstack([-eye[~problem.locked], zero(((~problem.locked).sum(), n + m))]),
         -(problem.least / budgets)[~problem.locked]),
        (sparse.hstack([zero((limited.sum(), n)),
                        sparse.csr_array(coefficients[limited] / problem.limits[limited, None]),
                        zero((limited.sum(), m))]), np.ones(limited.sum())),
    ]  # fmt: skip
    goal = np.zeros(2 * n + m)
    if total is None:
        goal[2 * n :] = 1 / max(problem.loss(budgets), 1e-12)
    else:
        goal[n : 2 * n] = problem.weights @ coefficients
        goal /= max(goal.max(), 1e-300)
        at_most.append((sparse.csr_array(np.concatenate([np.zeros(2 * n), np.ones(m)])[None] / total), np.ones(1)))
    # (x + t, x − t, 2) in the second-order cone: x·t ≥ 1. The cone program asks for b − A·v in the cone.
    rows = np.arange(n)
    columns = np.concatenate([rows, rows + n, rows, rows + n])
    places = np.concatenate([3 * rows, 3 * rows, 3 * rows + 1, 3 * rows + 1])
    values = np.concatenate([-np.ones(3 * n), np.ones(n)])
    cone = sparse.csr_array((values, (places, columns)), shape=(3 * n, 2 * n + m))
    fixed = sparse.hstack([eye[problem.locked], zero((problem.locked.sum(), n + m))])
    a = sparse.vstack([fixed, *(part for part, _ in at_most), cone]).tocsc()
    b = np.concatenate([np.ones(problem.locked.sum()), *(side for _, side in at_most), np.tile([0.0, 0.0, 2.0], n)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(int(problem.locked.sum())), clarabel.NonnegativeConeT(sum(len(s) for _, s in at_most))]
    cones += [clarabel.SecondOrderConeT(3) for _ in range(n)]
    solution = clarabel.DefaultSolver(sparse.csc_array((2 * n + m, 2 * n + m)), goal, a, b, cones, settings).solve()
    x = np.array(solution.x[:n])
    near_least = budgets * x < problem.least * (1 + 1e-6)
    found = np.where(problem.locked, budgets, np.where(near_least, problem.least, budgets * x))
    status = clarabel.SolverStatus
    if solution.status == status.InsufficientProgress:  # Nearly solved, unless limits are violated.
        return found if problem.excess(found) <= 1 + 1e-6 else None
    return found if solution.status in (status.Solved, status.AlmostSolved) else None


def _rounded(config: Config, problem: _Problem, budgets: Array) -> Config:
    """Return the config with the free budgets rounded up to six places."""
    changed = {name: dict(levels) for name, levels in config.budgets.items()}
    for (name, level), budget, locked in zip(problem.model.keys, budgets, problem.locked, strict=True):
        if not locked:
            changed[name][level] = Decimal(int(np.ceil(budget * 1e6 - 1e-9))).scaleb(-6)
    return replace(config, budgets=changed)


def _raised(config: Config, problem: _Problem, request: Request, budgets: Array) -> Config:
    """Round budgets up, and raise them together as far as the total allows, so that nothing of it is left over."""
    assert request.total is not None

    def at(factor: float) -> Config:
        return _rounded(config, problem, np.where(problem.locked, budgets, budgets * factor))

    def fits(found: Config) -> bool:
        total = plan(found).total
        loss = total.bounded if request.neighbours == "bounded" else total.unbounded
        return loss <= Fraction(request.total or 0)

    low, high = 1.0, 1.001
    while not fits(at(low)):
        low *= 1 - 1e-6
    while fits(at(high)):
        high *= 1.01
    while high - low > 1e-8:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(at(middle)) else (low, middle)
    return at(low)
