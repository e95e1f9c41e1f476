"""Intervals of ratios and other expressions, from possible joint draws of the counts behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from phsafe.errors import PHSafeError
from phsafe.estimation.averages import MORE_DRAWS, carried_over, median, shortest, uniforms
from phsafe.estimation.densities import Array
from phsafe.estimation.expressions import Term
from phsafe.estimation.joint_model import Joint
from phsafe.estimation.quotients import ONE, Linear, Quotient, as_rows, possible_range

#: A denominator whose sign is uncertain by more than this has no useful interval.
UNCERTAIN_SIGN = 0.001
#: The fewest draws that must be possible.
FEWEST_DRAWS = 200
#: A standard error smaller than this, relative to that of the largest term, is a rounding error: those of sums that the
#: identities determine are up to 6e-7.
ROUNDING = 1e-5
#: A standard error of draws smaller than this, relative to the largest term, is a rounding error.
ROUNDING_OF_DRAWS = 1e-9
#: Keeps a standard deviation above zero.
TINY = 1e-12

Range = tuple[float, float]


@dataclass(frozen=True)
class Checked:
    """Draws of a part of an expression. A division checks that the sign of its denominator is certain.

    Attributes:
        values: The draws.
        size: The size of the terms in their sum, which distinguishes rounding errors from noise.
        text: The whole expression.
    """

    values: Array
    size: Array
    text: str

    def __add__(self, other: Checked) -> Checked:
        return Checked(self.values + other.values, self.size + other.size, self.text)

    def __sub__(self, other: Checked) -> Checked:
        return Checked(self.values - other.values, self.size + other.size, self.text)

    def __mul__(self, other: Checked) -> Checked:
        return Checked(self.values * other.values, self.size * other.size, self.text)

    def __truediv__(self, other: Checked) -> Checked:
        positive = float(np.mean(other.values > 0))
        if UNCERTAIN_SIGN < positive < 1 - UNCERTAIN_SIGN or np.any(other.values == 0):
            raise no_sign(self.text)
        return Checked(self.values / other.values, self.size / np.abs(other.values), self.text)


@dataclass(frozen=True)
class PublishedAverage:
    """The posterior of an average in a table: its range, and its quantiles."""

    bounds: Range
    quantiles: Array


def no_sign(text: str) -> PHSafeError:
    """The refusal of an expression that may divide by zero."""
    return PHSafeError(f"{text:.80}: a denominator can't be distinguished from zero, so the ratio has no interval")


@dataclass(frozen=True)
class _Draws:
    """Joint draws of sums of counts.

    Attributes:
        standard: Independent standard normal draws.
        loads: How much each of these changes each sum.
        values: The draws of each sum.
        sizes: The size of the terms that it adds up.
    """

    standard: Array
    loads: Mapping[Linear, Array]
    values: Mapping[Linear, Array]
    sizes: Mapping[Linear, float]

    @classmethod
    def of(cls, model: Joint, sums: Sequence[Linear]) -> _Draws:
        """Draw sums from the distribution of the fit."""
        cells = model.agreeing
        rows = as_rows(sums, len(cells.estimates))
        center = rows @ np.append(cells.estimates, 1.0)
        factor = _factor(cells.covariance(rows[:, :-1].tocsr()))
        standard = special.ndtri(uniforms(MORE_DRAWS, len(sums))).T
        sizes = abs(rows) @ np.append(1 + np.abs(cells.estimates), 1.0)
        each = (factor, center[:, None] + factor @ standard, sizes)
        return cls(standard, *(dict(zip(sums, of_sums, strict=True)) for of_sums in each))

    def are_within(self, quotient: Quotient, bounds: Range) -> NDArray[np.bool_]:
        """Which draws of a quotient are within bounds, except for rounding errors."""
        above, below, inside = quotient.above, quotient.below, np.ones(MORE_DRAWS, bool)
        for bound, sign in zip(bounds, (1, -1), strict=True):
            if np.isfinite(bound):
                slack = ROUNDING_OF_DRAWS * (self.sizes[above] + abs(bound) * self.sizes[below])
                inside &= sign * (self.values[above] - bound * self.values[below]) >= -slack
        return inside

    def carried_over(self, average: Quotient, quantiles: Array) -> Array:
        """Draws of an average in a table, carried over to its posterior."""
        load = self.loads[average.above] - median(quantiles) * self.loads[average.below]
        return carried_over(load @ self.standard / np.maximum(np.linalg.norm(load), TINY), quantiles)


def interval_of_draws(
    model: Joint, text: str, term: Term[Quotient], averages: Mapping[Quotient, PublishedAverage]
) -> tuple[float, float, float]:
    """The interval and standard error of an expression; of a certain one, its value twice and 0.

    Args:
        model: The joint model of the release.
        text: The expression as it was given.
        term: The expression as operations on quotients.
        averages: The averages in it. Those that it doesn't combine with other counts have the posterior of the table.
    """
    quotients = list(dict.fromkeys(term.cells()))
    shown = {q: found for q in quotients if (found := _multiple(q, averages))}
    combined = [average for average in averages if average not in {found[0] for found in shown.values()}]
    ranges = {quotient: range_of(model, quotient) for quotient in quotients if quotient not in shown}
    sums = list(dict.fromkeys(s for q in (*quotients, *averages) for s in (q.above, q.below)))
    draws = _Draws.of(model, sums)
    possible = np.ones(MORE_DRAWS, bool)
    for average in combined:
        possible &= (draws.values[average.below] >= 1) & draws.are_within(average, averages[average].bounds)
    for quotient, (low, high) in ranges.items():
        if low < high < np.inf or -np.inf < low < high:
            possible &= (draws.values[quotient.below] > 0) & draws.are_within(quotient, (low, high))
    kept = int(possible.sum())
    if kept < FEWEST_DRAWS:
        raise PHSafeError(f"{text:.80}: its cells are too small for the noise, so their combination has no interval")

    def value(quotient: Quotient) -> Checked:
        if quotient in shown:
            average, times, more = shown[quotient]
            values = (times * draws.carried_over(average, averages[average].quantiles) + more)[possible]
            return Checked(values, np.abs(values) + abs(more), text)
        above, below = (
            Checked(draws.values[part][possible], np.full(kept, draws.sizes[part]), text)
            for part in (quotient.above, quotient.below)
        )
        ratio = above / below
        return Checked(np.clip(ratio.values, *ranges[quotient]), ratio.size, text)

    result = term.evaluate(value, lambda x: Checked(np.full(kept, x), np.full(kept, abs(x)), text))
    return _interval(result, ranges[quotients[0]] if term.value in ranges else (-np.inf, np.inf))


def _interval(result: Checked, bounds: Range) -> tuple[float, float, float]:
    """The shortest interval of draws within bounds, and the standard error."""
    values, error = result.values, float(result.values.std())
    rounding = ROUNDING_OF_DRAWS * float(np.median(result.size))
    if error <= rounding:
        certain = float(np.median(values))
        certain = certain if abs(certain) > rounding else 0.0
        return certain, certain, 0.0
    middle = (np.arange(len(values)) + 0.5) / len(values)
    low, high = (float(end[0]) for end in shortest(np.sort(values)[None, :], middle[None, :], *bounds))
    if not np.isfinite([low, high, error]).all():
        raise PHSafeError("expression: expected numbers of ordinary size, got some that are too large or too small")
    # A ratio whose denominator may be near zero has no finite variance: half the interval is what its width supports.
    return low, high, min(error, (high - low) / 2)


def _multiple(
    quotient: Quotient, averages: Mapping[Quotient, PublishedAverage]
) -> tuple[Quotient, float, float] | None:
    """The average that a quotient is a multiple of, with the factor and what is added; None if there is none."""
    for average in averages:
        if (found := quotient.multiple_of(average)) is not None:
            return average, *found
    return None


def range_of(model: Joint, quotient: Quotient) -> Range:
    """The possible range of a quotient; its ends are equal if sums that must be equal determine it.

    It is unlimited if the denominator can be negative or weights differ too much.
    """
    measured, cells = model.measured, model.agreeing
    if not quotient.is_ordinary:
        return -np.inf, np.inf
    if quotient.below == ONE:  # Counts are bounded alone: next to a large constant, the solver wouldn't notice them.
        least, most = possible_range(measured, cells, Quotient(Linear(quotient.above.counts)))
        return least + quotient.above.constant, most + quotient.above.constant
    weights = [weight for _, weight in quotient.below.weights]
    positive = min(weights, default=0.0) > 0 or possible_range(measured, cells, Quotient(quotient.below))[0] >= 0
    return possible_range(measured, cells, quotient) if positive else (-np.inf, np.inf)


def _factor(covariance: Array) -> Array:
    """A square root of a covariance matrix, which may be singular: sums can determine each other."""
    errors = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    scale = np.where(errors > 0, errors, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    return np.asarray(scale[:, None] * vectors * np.sqrt(np.where(values > ROUNDING**2, values, 0.0)))
