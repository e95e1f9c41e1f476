"""Estimates and intervals of expressions of published cells, with their exact covariance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from phsafe.errors import PHSafeError, Reasons
from phsafe.estimation.densities import NORMAL
from phsafe.estimation.expression_draws import ROUNDING, interval_of_draws, no_sign, range_of
from phsafe.estimation.expressions import CellName, Degree, Term, parse
from phsafe.estimation.joint_model import Joint
from phsafe.estimation.named_cells import Named, find_cell, published_average, quotient_of
from phsafe.estimation.quotients import ONE, Linear, Quotient, as_rows, simplified

if TYPE_CHECKING:
    from phsafe.estimation.estimates import Estimates

#: A weight of a count as large as this, or as small as its inverse, must be a mistake.
LARGEST_WEIGHT = 1e15
#: Standard errors from which values are shown with an exponent.
SMALLEST, LARGEST = 1e-9, 1e15


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
        >>> Combination("…", 0.0, 0.0, 0.0, 0.0).text
        '0: equal by construction'
        """
        if self.is_certain:
            return f"{self.estimate:,.6g}: {'certain' if self.estimate else 'equal'} by construction"
        digits = f"z,.{_places(self.std_error)}f" if SMALLEST < self.std_error < LARGEST else ".4g"
        shown = [f"{value:{digits}}" for value in (self.estimate, self.lower, self.upper)]
        return f"{shown[0]} (90 % interval {shown[1]} to {shown[2]}; standard error {self.std_error:,.4g})"

    @property
    def is_certain(self) -> bool:
        """Whether the value follows from how the tables are made, for any counts."""
        return self.lower == self.upper and self.std_error == 0

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
        """Which of the two is larger, if the difference is more than noise."""
        if self.is_certain and not self.is_more_than_noise:
            return "equal by construction"
        if not self.is_more_than_noise:
            return "within the noise, so either could be larger"
        larger = "larger" if self.estimate > 0 else "smaller"
        return f"{self.first} is {larger} than {self.second}: the difference is more than noise"

    def __repr__(self) -> str:
        return super().__repr__() if self.is_certain else f"{super().__repr__()}: {self.verdict}"


def _places(error: float) -> int:
    """The decimals that show two digits of a standard error."""
    return 0 if error >= 1 else 1 - int(np.floor(np.log10(error)))


def combine(estimates: Estimates, model: Joint, expression: str) -> Combination:
    """Parse an expression, find its cells in finished tables, and estimate it."""
    term = parse(expression)
    reasons = Reasons()
    named = {cell: reasons.check(find_cell, estimates, cell) for cell in dict.fromkeys(term.cells())}
    reasons.settle()
    found = {name: cell for name, cell in named.items() if cell is not None}
    term.evaluate(lambda name: Degree(int(found[name].table.average is None)), lambda _: Degree(None))
    return estimate_expression(model, expression, term, found)


def compared(estimates: Estimates, model: Joint, first: str, second: str) -> Difference:
    """Estimate the difference of two expressions."""
    both = f"{_in_parentheses(first)} - {_in_parentheses(second)}"
    return Difference(**vars(combine(estimates, model, both)), first=first, second=second)


def _in_parentheses(expression: str) -> str:
    return expression if isinstance(parse(expression).value, CellName) else f"({expression})"


def estimate_expression(model: Joint, text: str, term: Term[CellName], named: dict[CellName, Named]) -> Combination:
    """The estimate and the 90 % interval of an expression.

    Args:
        model: The joint model of the release.
        text: The expression as it was given.
        term: The parsed expression.
        named: The cells of the expression.
    """
    shown = {name: quotient_of(model, cell) for name, cell in named.items()}
    pairs = model.agreeing.same_people(model.measured.config, model.measured.blocks.values())
    own = simplified(term, shown.__getitem__)
    reduced = simplified(own, lambda quotient: quotient.with_equal(pairs))
    single = reduced.value if isinstance(reduced.value, Quotient) else None
    weights = [abs(w) for q in reduced.cells() for sums in (q.above, q.below) for _, w in sums.weights]
    if not all(1 / LARGEST_WEIGHT < weight < LARGEST_WEIGHT for weight in weights):
        raise PHSafeError("expression: expected numbers of ordinary size, got some that are too large or too small")
    for whole in (own, reduced):
        if multiples := _multiples(text, whole, shown, named):
            return min(multiples, key=lambda found: found.std_error)
    with np.errstate(all="ignore"):
        estimate = float(term.evaluate(lambda name: np.float64(named[name].published[0]), np.float64))
        if single is not None:
            least, most = range_of(model, single)
            if least == most:
                return Combination(text, least, least, least, 0.0)
        if single is not None and single.below == ONE:
            low, high, error = _sum(model, single.above, least, most)
        else:
            averages = {
                shown[name].with_equal(pairs): published_average(model, cell)
                for name, cell in named.items()
                if cell.table.average is not None
            }
            low, high, error = interval_of_draws(model, text, reduced, averages)
    if not np.isfinite(estimate):
        raise no_sign(text)
    if error == 0:
        certain = estimate if low else 0.0
        return Combination(text, certain, certain, certain, 0.0)
    return Combination(text, estimate, min(low, estimate), max(high, estimate), error)


def _multiples(
    text: str, reduced: Term[Quotient], shown: Mapping[CellName, Quotient], named: Mapping[CellName, Named]
) -> list[Combination]:
    """For each cell that an expression is a multiple of (plus a number): what the table shows, multiplied."""
    found = []
    for name, quotient in shown.items():
        multiple = reduced.value.multiple_of(quotient) if isinstance(reduced.value, Quotient) else None
        if multiple is not None:
            times, more = multiple
            estimate, *ends, error = named[name].published
            low, high = sorted(times * value + more for value in ends)
            found.append(Combination(text, times * estimate + more, low, high, abs(times) * error))
    return found


def _sum(model: Joint, total: Linear, least: float, most: float) -> tuple[float, float, float]:
    """The interval and standard error of a weighted sum of counts; of a certain one, its value twice and 0.

    Its posterior is normal, restricted to possible values if there is a bound above or below.
    """
    each = [Linear((term,)) for term in total.counts]
    cells = model.agreeing
    rows = as_rows([total, *each], len(cells.estimates))[:, :-1].tocsr()
    middle, errors = total.constant + float((rows @ cells.estimates)[0]), np.sqrt(cells.variance(rows))
    scale, rounding = float(errors[0]), ROUNDING * float(errors[1:].max(initial=0.0))
    if scale <= rounding:
        certain = middle if abs(middle) > rounding else 0.0
        return certain, certain, 0.0
    is_below = np.isfinite(most)
    bound = (middle - most if is_below else least - middle) / scale
    low, high = (float(end) for end in NORMAL.shortest(np.array(bound)))
    low, high = (-high, -low) if is_below else (low, high)
    return middle + scale * low, middle + scale * high, scale
