"""Estimates and intervals of expressions of published cells, with their exact covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from scipy import sparse, special

from phsafe.configs.names import find_iteration, find_region
from phsafe.errors import PHSafeError, Reasons
from phsafe.estimation.averages import MORE_DRAWS, shortest, uniforms
from phsafe.estimation.densities import NORMAL, Array
from phsafe.estimation.expressions import CellName, Term, parse
from phsafe.estimation.joint_model import Joint
from phsafe.estimation.measurement_vector import Positions
from phsafe.estimation.published_lines import sum_rows
from phsafe.estimation.table_lines import basis, counted, ratios
from phsafe.model.levels import Level
from phsafe.model.spec import Table

if TYPE_CHECKING:
    from phsafe.estimation.estimates import Estimates

#: A denominator whose sign is uncertain by more than this has no useful interval.
UNCERTAIN_SIGN = 0.001
#: The fewest draws that must respect the bounds of averages.
FEWEST_DRAWS = 200


@dataclass(frozen=True, repr=False)
class Combination:
    """An expression of published cells, with its 90 % interval.

    Attributes:
        expression: The expression as it was given.
        estimate: Its value for the published estimates.
        lower: The lower bound of the 90 % interval.
        upper: The upper bound of the 90 % interval.
        std_error: The standard error.
    """

    expression: str
    estimate: float
    lower: float
    upper: float
    std_error: float

    @property
    def text(self) -> str:
        """The estimate and its interval with the digits that the standard error supports.

        >>> Combination("…", 1234.5678, 1200.1, 1269.02, 20.9).text
        '1,235 (90 % interval 1,200 to 1,269; standard error 20.9)'
        """
        places = max(0, 1 - int(np.floor(np.log10(self.std_error)))) if self.std_error > 0 else 0
        places = 0 if self.std_error >= 1 else places
        shown = [f"{value:,.{places}f}" for value in (self.estimate, self.lower, self.upper)]
        return f"{shown[0]} (90 % interval {shown[1]} to {shown[2]}; standard error {self.std_error:,.4g})"

    def __repr__(self) -> str:
        return f"{self.expression} = {self.text}"

    def to_dict(self) -> dict[str, Any]:
        """The values by the column names of the tables."""
        return {
            "EXPRESSION": self.expression, "ESTIMATE": self.estimate, "LOWER_90": self.lower, "UPPER_90": self.upper,
            "STD_ERROR": self.std_error,
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class Difference(Combination):
    """The difference of two published cells, or expressions of cells, with its 90 % interval.

    Attributes:
        first: The first of the two, as it was given.
        second: What was subtracted from it.

    Example:
        >>> Difference("a - b", 5.0, -20.0, 30.0, 15.0, "a", "b")
        a - b = 5 (90 % interval -20 to 30; standard error 15): within the noise, so either could be larger
    """

    first: str = ""
    second: str = ""

    @property
    def is_more_than_noise(self) -> bool:
        """Whether the interval of the difference excludes zero."""
        return not self.lower <= 0 <= self.upper

    @property
    def verdict(self) -> str:
        """Which of the two is larger, if the noise allows to tell."""
        if not self.is_more_than_noise:
            return "within the noise, so either could be larger"
        larger = "larger" if self.estimate > 0 else "smaller"
        return f"{self.first} is {larger} than {self.second}: the difference is more than noise"

    def __repr__(self) -> str:
        return f"{super().__repr__()}: {self.verdict}"


@dataclass(frozen=True)
class Named:
    """A cell of a finished table: where it is, and its published values."""

    table: Table
    level: Level
    group: tuple[str, str]
    line: int
    published: tuple[float, float, float, float]


@dataclass(frozen=True)
class Linear:
    """A weighted sum of cells plus a constant. Operations that leave this form raise TypeError."""

    weights: dict[CellName, float] = field(default_factory=dict)
    constant: float = 0.0

    def __add__(self, other: Linear) -> Linear:
        both = {k: self.weights.get(k, 0.0) + other.weights.get(k, 0.0) for k in {**self.weights, **other.weights}}
        return Linear(both, self.constant + other.constant)

    def __sub__(self, other: Linear) -> Linear:
        return self + Linear({}, -1.0) * other

    def __mul__(self, other: Linear) -> Linear:
        if self.weights and other.weights:
            raise TypeError("a product of cells")
        form, number = (self, other.constant) if self.weights else (other, self.constant)
        return Linear({k: number * w for k, w in form.weights.items()}, number * form.constant)

    def __truediv__(self, other: Linear) -> Linear:
        if other.weights:
            raise TypeError("a ratio of cells")
        if other.constant == 0:
            raise PHSafeError("expression: expected no division by zero, got one")
        return self * Linear({}, 1 / other.constant)


def combine(estimates: Estimates, model: Joint, expression: str) -> Combination:
    """Parse an expression, find its cells in finished tables, and estimate it."""
    term = parse(expression)
    reasons = Reasons()
    named = {cell: reasons.check(_named, estimates, cell) for cell in dict.fromkeys(term.cells())}
    reasons.settle()
    return estimate_expression(
        model, expression, term, {cell: found for cell, found in named.items() if found is not None}
    )


def compared(estimates: Estimates, model: Joint, first: str, second: str) -> Difference:
    """Estimate the difference of two expressions."""
    both = f"{_in_parentheses(first)} - {_in_parentheses(second)}"
    return Difference(**vars(combine(estimates, model, both)), first=first, second=second)


def _in_parentheses(expression: str) -> str:
    return expression if isinstance(parse(expression).value, CellName) else f"({expression})"


def _named(estimates: Estimates, cell: CellName) -> Named:
    """Find a cell of an expression in finished tables."""
    config = estimates.config
    reasons = Reasons()
    spec = reasons.check(estimates.spec, cell.table)
    region = reasons.check(find_region, config, cell.region)
    iteration = reasons.check(find_iteration, config, cell.iteration)
    try:
        reasons.settle()
    except PHSafeError as problem:
        raise PHSafeError([f"{cell}: {reason}" for reason in problem.reasons]) from None
    assert spec is not None and region is not None and iteration is not None
    frame = estimates.tables[spec.name].filter(REGION_TYPE=region[0], REGION_ID=region[1], ITERATION_CODE=iteration)
    if frame.is_empty():
        raise PHSafeError(f"{cell}: {spec.name} is not published for this region and iteration")
    row = frame.filter(pl.col("CELL").cast(pl.String) == cell.line)
    if row.is_empty():
        lines = f"{len(frame)} lines of {spec.name}"
        raise PHSafeError(f"{cell}: expected the number of one of the {lines}, got {cell.line}")
    level = next(
        level
        for level in config.catalog.levels
        if level.geography.region_type == region[0] and iteration in [i.code for i in level.iteration_level.iterations]
    )
    estimate, lower, upper, error = row.select("ESTIMATE", "LOWER_90", "UPPER_90", "STD_ERROR").row(0)
    published = (float(estimate), float(lower), float(upper), float(error))
    return Named(spec, level, (region[1], iteration), int(cell.line), published)


def estimate_expression(model: Joint, text: str, term: Term, named: dict[CellName, Named]) -> Combination:
    """The estimate and the 90 % interval of an expression.

    Args:
        model: The joint model of the release.
        text: The expression as it was given.
        term: The parsed expression.
        named: The cells of the expression.
    """
    try:
        linear = term.evaluate(lambda name: Linear({name: 1.0}), lambda x: Linear({}, x))
    except TypeError:
        linear = None
    if linear is not None and linear == Linear({next(term.cells()): 1.0}):
        estimate, lower, upper, error = named[next(term.cells())].published
        return Combination(text, estimate, lower, upper, error)
    if linear is not None and all(named[name].table.average is None for name in linear.weights):
        return _sum(model, text, linear, named)
    return _nonlinear(model, text, term, named)


def _sum(model: Joint, text: str, linear: Linear, named: dict[CellName, Named]) -> Combination:
    """A weighted sum of counts: normal, and restricted like a single count if all weights have the same sign."""
    rows = _rows(model, [cells for name in linear.weights for cells in positions_of(model, named[name])])
    weights = np.array(list(linear.weights.values()))
    row = sparse.csr_array(weights[None, :]) @ rows
    center, scale = float((row @ model.cells.estimates)[0]), float(np.sqrt(model.cells.variance(row.tocsr())[0]))
    estimate = linear.constant + sum(w * named[name].published[0] for name, w in linear.weights.items())
    if scale == 0:
        return Combination(text, estimate, estimate, estimate, 0.0)
    sign = 1 if np.all(weights >= 0) else -1 if np.all(weights <= 0) else 0
    zero = -sign * center / scale if sign else -np.inf
    low, high = (float(a) for a in NORMAL.shortest(np.array(zero)))
    low, high = (low, high) if sign >= 0 else (-high, -low)
    bounds = (linear.constant + center + scale * low, linear.constant + center + scale * high)
    return Combination(text, estimate, min(bounds[0], estimate), max(bounds[1], estimate), scale)


def _nonlinear(model: Joint, text: str, term: Term, named: dict[CellName, Named]) -> Combination:
    """Any other expression: evaluated for joint draws of the counts behind it, within the bounds of averages."""
    cells = list(named)
    forms = [positions_of(model, named[name]) for name in cells]
    rows = _rows(model, [part for form in forms for part in form])
    values, columns = rows @ model.cells.estimates, {}
    factor = _factor(model.cells.covariance(rows))
    drawn = values[:, None] + factor @ special.ndtri(uniforms(MORE_DRAWS, rows.shape[0])).T
    feasible, first = np.ones(drawn.shape[1], bool), 0
    for name, form in zip(cells, forms, strict=True):
        columns[name], allowed = _value(model, named[name], drawn[first : first + len(form)])
        feasible &= allowed
        first += len(form)
    if feasible.sum() < FEWEST_DRAWS:
        raise PHSafeError(f"{text:.80}: its cells are too small for the noise, so their combination has no interval")
    with np.errstate(all="ignore"):
        result = term.evaluate(
            lambda name: Checked(columns[name][feasible], text),
            lambda x: Checked(np.full(int(feasible.sum()), x), text),
        ).values
        estimate = float(term.evaluate(lambda name: np.float64(named[name].published[0]), np.float64))
    if not np.isfinite(estimate):
        raise _no_sign(text)
    middle = (np.arange(len(result)) + 0.5) / len(result)
    low, high = shortest(np.sort(result)[None, :], middle[None, :], -np.inf, np.inf)
    error = float(result.std())
    return Combination(text, estimate, min(float(low[0]), estimate), max(float(high[0]), estimate), error)


@dataclass(frozen=True)
class Checked:
    """Draws of a part of an expression. A division checks that the sign of its denominator is certain."""

    values: Array
    text: str

    def __add__(self, other: Checked) -> Checked:
        return Checked(self.values + other.values, self.text)

    def __sub__(self, other: Checked) -> Checked:
        return Checked(self.values - other.values, self.text)

    def __mul__(self, other: Checked) -> Checked:
        return Checked(self.values * other.values, self.text)

    def __truediv__(self, other: Checked) -> Checked:
        positive = float(np.mean(other.values > 0))
        if UNCERTAIN_SIGN < positive < 1 - UNCERTAIN_SIGN or np.any(other.values == 0):
            raise _no_sign(self.text)
        return Checked(self.values / other.values, self.text)


def _no_sign(text: str) -> PHSafeError:
    return PHSafeError(f"{text:.80}: a denominator can't be distinguished from zero, so the ratio has no interval")


def positions_of(model: Joint, cell: Named) -> list[Positions]:
    """The positions that a cell sums: of its count, or of its numerator and denominator."""
    config = model.measured.config
    if (tabulation := counted(cell.table)) is not None:
        return [_group(model, tabulation.name, cell, basis(config.catalog, cell.table, tabulation, cell.line))]
    for ratio in ratios(config.catalog, cell.table):
        for number, parts in ratio.lines:
            if number == cell.line:
                people = [c for part in parts for c in ratio.parts[part]]
                return [
                    _group(model, ratio.numerator.name, cell, people),
                    _group(model, ratio.denominator.name, cell, ratio.per),
                ]
    raise AssertionError(cell.line)


def _group(model: Joint, tabulation: str, cell: Named, cells: Sequence[int]) -> Positions:
    block = model.measured.blocks[tabulation, cell.level.key]
    positions: Positions = block.positions(cells)[block.groups.index(cell.group)]
    return positions


def _rows(model: Joint, positions: Sequence[Positions]) -> sparse.csr_array:
    return sum_rows(positions, len(model.cells.estimates))


def _factor(covariance: Array) -> Array:
    """A square root of a covariance matrix, which may be singular: cells can determine each other."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _value(model: Joint, cell: Named, drawn: Array) -> tuple[Array, Array]:
    """Draws of a cell from draws of its count, or of numerator and denominator; and which of them are feasible."""
    if cell.table.average is None:
        return drawn[0], drawn[0] >= 0
    ratio = next(r for r in ratios(model.measured.config.catalog, cell.table) if cell.line in dict(r.lines))
    bounds = model.bounds(ratio, model.measured.blocks[ratio.numerator.name, cell.level.key])
    whole = len(dict(ratio.lines)[cell.line]) == len(ratio.parts)
    least = bounds.at_least if whole else 0
    people, units = drawn
    with np.errstate(divide="ignore", invalid="ignore"):
        average = people / units
    return average, (units >= 1) & (average >= least) & (average <= bounds.tau)
