"""Expressions as quotients of sums of counts. Expressions that are equal become the same quotient."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
from scipy import optimize, sparse

from phsafe.errors import PHSafeError
from phsafe.estimation.constraints import equalities, smaller_universes, subgroups
from phsafe.estimation.expressions import SIGNS, Term
from phsafe.estimation.fit import CellEstimates
from phsafe.estimation.identities import Identity, matrix
from phsafe.estimation.measurement_vector import Measured, Positions

#: The key of the constant of a sum; the other keys are positions of counts.
CONSTANT = -1
#: The sum of two weights counts as zero if it is smaller than this, relative to them.
ROUNDING = 1e-12
#: A linear program doesn't notice a weight that is smaller than the largest one by this factor.
WIDEST = 1e5
#: Decimals of a bound; beyond them it is the solver's rounding error.
DECIMALS = 9
T = TypeVar("T")


@dataclass(frozen=True)
class Linear:
    """A weighted sum of counts plus a constant: (position, weight), ordered by position, without weights of zero."""

    weights: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, positions: Iterable[int]) -> Linear:
        """The sum of the counts at some positions."""
        return cls(tuple((int(position), 1.0) for position in sorted(positions)))

    @property
    def constant(self) -> float:
        """What is added to the counts."""
        return dict(self.weights).get(CONSTANT, 0.0)

    @property
    def counts(self) -> tuple[tuple[int, float], ...]:
        """The weights of the counts."""
        return tuple((position, weight) for position, weight in self.weights if position != CONSTANT)

    def plus(self, other: Linear, times: float = 1.0) -> Linear:
        """Add a multiple of another sum. Weights that are left over by rounding are zero."""
        both = dict(self.weights)
        for position, weight in other.weights:
            before, more = both.get(position, 0.0), times * weight
            both[position] = 0.0 if abs(before + more) < ROUNDING * abs(more) else before + more
        return Linear(tuple((position, weight) for position, weight in sorted(both.items()) if weight != 0))

    def with_equal(self, plus: Positions, minus: Positions) -> Linear:
        """Replace the sum at `minus`, if this contains a multiple of it, by that at `plus`."""
        own = dict(self.weights)
        weights = {own.get(position, 0.0) for position in minus.tolist()}
        times = weights.pop() if len(weights) == 1 else 0.0
        return self.plus(Linear.of(minus), -times).plus(Linear.of(plus), times) if times else self


ONE = Linear(((CONSTANT, 1.0),))


@dataclass(frozen=True)
class Quotient:
    """One sum of counts divided by another. Operations whose result is no such quotient raise TypeError."""

    above: Linear
    below: Linear = ONE

    @classmethod
    def number(cls, value: float) -> Quotient:
        """A number without any count."""
        return cls(Linear().plus(ONE, value))

    @property
    def is_number(self) -> bool:
        """Whether no count is involved."""
        return self.below == ONE and not self.above.counts

    @property
    def is_ordinary(self) -> bool:
        """Whether weights differ so little that a linear program notices all of them."""
        sizes = [[abs(weight) for _, weight in sums.counts] for sums in (self.above, self.below)]
        return all(max(own) <= WIDEST * min(own) for own in sizes if own)

    def with_equal(self, pairs: Iterable[Identity]) -> Quotient:
        """Replace sums by the first of two sums of the same people, so that what is equal becomes the same."""
        above, below = self.above, self.below
        for plus, minus in pairs:
            above, below = above.with_equal(plus, minus), below.with_equal(plus, minus)
        return Quotient(above, below)

    def multiple_of(self, other: Quotient) -> tuple[float, float] | None:
        """The numbers a and b with which this is a · other + b; None if there are none."""
        if self.below != other.below or not other.above.counts:
            return None
        position, weight = other.above.counts[0]
        times = dict(self.above.weights).get(position, 0.0) / weight
        rest = self.above.plus(other.above, -times)
        position, weight = other.below.weights[0]
        more = dict(rest.weights).get(position, 0.0) / weight
        return (times, more) if times and not rest.plus(other.below, -more).weights else None

    def __add__(self, other: Quotient) -> Quotient:
        if self.is_number:
            return Quotient(other.above.plus(other.below, self.above.constant), other.below)
        if other.is_number:
            return other + self
        return Quotient(self.above.plus(other.above), self.below) if self.below == other.below else NotImplemented

    def __sub__(self, other: Quotient) -> Quotient:
        return self + Quotient.number(-1.0) * other

    def __mul__(self, other: Quotient) -> Quotient:
        if self.is_number:
            return Quotient(Linear().plus(other.above, self.above.constant), other.below)
        if other.is_number:
            return other * self
        if self.below == other.above:
            return Quotient(self.above, other.below)
        return Quotient(other.above, self.below) if self.above == other.below else NotImplemented

    def __truediv__(self, other: Quotient) -> Quotient:
        if other.is_number:
            if other.above.constant == 0:
                raise PHSafeError("expression: expected no division by zero, got one")
            return self * Quotient.number(1 / other.above.constant)
        return self * Quotient(other.below, other.above)


def simplified(term: Term[T], cell: Callable[[T], Quotient]) -> Term[Quotient]:
    """Return an expression as operations on as few quotients as possible, usually a single one.

    Args:
        term: The expression, of cells or of quotients.
        cell: The quotient that a cell shows, or that replaces another.
    """
    if term.value is not None:
        return Term(Quotient.number(term.value) if isinstance(term.value, float) else cell(term.value))
    parts = tuple(simplified(part, cell) for part in term.parts)
    left, right = (part.value for part in parts)
    if isinstance(left, Quotient) and isinstance(right, Quotient):
        with contextlib.suppress(TypeError):  # The result isn't a single quotient.
            return Term(cast(Quotient, SIGNS[term.sign](left, right)))
    return Term(sign=term.sign, parts=parts)


def possible_range(measured: Measured, cells: CellEstimates, quotient: Quotient) -> tuple[float, float]:
    """The range of a quotient over all feasible counts: a share is between 0 and 1.

    Counts are feasible if they aren't negative, add up as the identities say, and are within those of larger groups
    and universes. If x is feasible, so is any multiple, so the range of N·x / D·x is that of N·x over all x with
    D·x = 1: two linear programs.
    """
    touched = {position for sums in (quotient.above, quotient.below) for position, _ in sums.counts}
    around = [b for b in measured.blocks.values() if not touched.isdisjoint(b.positions().ravel().tolist())]
    blocks = measured.of([block.tabulation for block in around])
    columns = np.concatenate([*(block.positions().ravel() for block in blocks), [len(measured.counts)]])
    within = [*subgroups(blocks), *smaller_universes(measured.config, cells, blocks)]
    equal, larger = (
        matrix(rows, len(measured.counts) + 1)[:, columns] for rows in (equalities(measured, cells, blocks), within)
    )
    above, below = (as_rows([sums], len(measured.counts))[:, columns] for sums in (quotient.above, quotient.below))
    sizes = [max((abs(weight) for _, weight in sums.weights), default=1.0) for sums in (quotient.above, quotient.below)]
    bounds = []
    for sign in (1, -1):
        found = optimize.linprog(
            sign * above.toarray()[0] / sizes[0],
            A_ub=-larger,
            b_ub=np.zeros(larger.shape[0]),
            A_eq=sparse.vstack([equal, below / sizes[1]], format="csr"),
            b_eq=np.append(np.zeros(equal.shape[0]), 1.0),
        )
        value = round(float(found.fun), DECIMALS) if found.status == 0 else -np.inf
        bounds.append(sign * value * sizes[0] / sizes[1])
    return bounds[0], bounds[1]


def as_rows(sums: Iterable[Linear], counts: int) -> sparse.csr_array:
    """A sparse matrix with a row for each sum: a column for every count, and a last one for the constant."""
    weights = [sum_.weights for sum_ in sums]
    columns = [position % (counts + 1) for row in weights for position, _ in row]
    values = [weight for row in weights for _, weight in row]
    ends = np.cumsum([0, *map(len, weights)])
    return sparse.csr_array((np.array(values), np.array(columns, np.int64), ends), shape=(len(weights), counts + 1))
