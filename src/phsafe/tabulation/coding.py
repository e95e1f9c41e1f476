"""Codes folded to the few classes that a set of conditions can tell apart, and packed in one integer.

Sixty-three races matter to PH1 only as seven iterations; ages only as "under 18". Folding them before
anything is grouped is what makes one pass over the data enough: a row becomes one small integer, and every
cell and population group can be decided from that integer afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import ibis
import numpy as np
from ibis.expr.types import ArrayValue, BooleanValue, Column, IntegerValue, Table, Value
from numpy.typing import NDArray

from phsafe.conditions import Code, Where

#: More runs of numbers than this are a list again.
MOST_RUNS = 4
SEPARATOR = ","


def _array_position(codes: list[str], code: str) -> int:  # type: ignore[empty-body]
    """Both engines' own: from 1; 0 or null if the code is not there."""


def _array_extract(classes: list[int], position: int) -> int:  # type: ignore[empty-body]
    """DuckDB's own, from 1; null where there is nothing. `phsafe.engine.spark_dialect` knows it too."""


def _text_extract(codes: list[str], position: int) -> str:  # type: ignore[empty-body]
    """The same for texts."""


position_of = ibis.udf.scalar.builtin(_array_position, name="array_position")
element_at = ibis.udf.scalar.builtin(_array_extract, name="array_extract")
code_at = ibis.udf.scalar.builtin(_text_extract, name="array_extract")


def looked_up(column: Value, numbers: Mapping[Code, int]) -> IntegerValue:
    """The number of a text, null if it has none.

    DuckDB looks a text up once for each entry of a Parquet dictionary, not for each row.
    """
    position = position_of(list_of([str(code) for code in numbers]), column)
    return _element(list(numbers.values()), position)


def numbered(column: IntegerValue, numbers: Sequence[int]) -> IntegerValue:
    """The number that a column's value, 0 or more, counts off in a list; null beyond it."""
    return _element(numbers, column.cast("int64") + 1)


def _element(numbers: Sequence[int], position: IntegerValue) -> IntegerValue:
    return element_at(list_of([str(number) for number in numbers]).cast("array<int64>"), position)


def list_of(texts: Sequence[str]) -> ArrayValue:
    """A constant list, as one text that engines split when they plan a query: Ibis writes lists element by element."""
    if not texts or any(SEPARATOR in text for text in texts):
        return ibis.literal(list(texts), "array<string>")
    return ibis.literal(SEPARATOR.join(texts)).split(SEPARATOR)


def among(column: Column, codes: Collection[Code]) -> BooleanValue:
    """Whether a value is one of some codes; unknown where it is null.

    Engines are slow at long lists and quick at ranges, so numbers in a row become one.
    """
    runs = _runs(codes)
    if not runs or len(runs) > MOST_RUNS:
        return column.isin(sorted(codes))
    return ibis.or_(*(column.between(low, high) for low, high in runs))


def _runs(codes: Collection[Code]) -> list[tuple[int, int]]:
    """The first and last of each run of numbers; texts have none."""
    if isinstance(codes, range) and codes and codes.step == 1:
        return [(codes.start, codes.stop - 1)]
    runs: list[tuple[int, int]] = []
    for number in sorted(code for code in codes if isinstance(code, int)):
        begin = runs.pop()[0] if runs and runs[-1][1] == number - 1 else number
        runs.append((begin, number))
    return runs


@dataclass(frozen=True)
class Classes:
    """One column's codes in classes 1, 2, …; class 0 holds whatever no condition names, null included."""

    column: str
    members: tuple[frozenset[Code], ...]

    @property
    def size(self) -> int:
        """How many classes there are, class 0 included."""
        return len(self.members) + 1

    def expression(self, table: Table) -> IntegerValue:
        """The class of each row."""
        column = table[self.column]
        classes = sorted((code, i) for i, codes in enumerate(self.members, 1) for code in codes)
        if not column.type().is_string():
            return _step(column, classes)
        # Both engines pass over a null here; and unlike `coalesce` it is done once for each entry of a dictionary too.
        return ibis.greatest(looked_up(column, dict(classes)), ibis.literal(0, "int64"))

    def allowed(self, codes: frozenset[Code]) -> NDArray[np.bool_]:
        """For each class, whether a condition that allows `codes` allows it (it takes a class whole)."""
        return np.array([False, *(members <= codes for members in self.members)])


def _step(column: IntegerValue, classes: Sequence[tuple[Code, int]]) -> IntegerValue:
    """The class of a whole number, as a function that changes where a class begins or ends, from the top down."""
    steps: list[tuple[int, int]] = []
    last = None
    for code, number in classes:
        assert isinstance(code, int)
        if last is not None and code > last + 1:
            steps.append((last + 1, 0))
        if not steps or steps[-1][1] != number:
            steps.append((code, number))
        last = code
    steps += [(last + 1, 0)] if last is not None else []
    branches = [(column >= start, ibis.literal(number, "int64")) for start, number in reversed(steps)]
    return ibis.cases(*branches, else_=ibis.literal(0, "int64"))


@dataclass(frozen=True)
class Coding:
    """Some columns' classes as one mixed-radix integer.

    >>> from phsafe.conditions import where
    >>> coding = Coding.of([where(QAGE=range(18)), where(QAGE=range(18, 116)), where(RELSHIP="30")])
    >>> [(c.column, c.size) for c in coding.classes]
    [('QAGE', 3), ('RELSHIP', 2)]
    >>> codes = np.arange(coding.size)
    >>> coding.mask(codes, where(QAGE=range(18))).tolist()
    [False, True, False, False, True, False]
    """

    classes: tuple[Classes, ...]

    @classmethod
    def of(cls, conditions: Iterable[Where]) -> Coding:
        """The coarsest coding that decides all the conditions."""
        terms: dict[str, set[frozenset[Code]]] = {}
        for condition in conditions:
            for column, codes in condition.terms:
                terms.setdefault(column, set()).add(codes)
        return cls(tuple(Classes(column, _partition(sets)) for column, sets in sorted(terms.items())))

    @property
    def size(self) -> int:
        """How many different integers there are."""
        return prod(classes.size for classes in self.classes)

    @cached_property
    def _strides(self) -> dict[str, int]:
        sizes = [classes.size for classes in self.classes]
        return {classes.column: prod(sizes[:i]) for i, classes in enumerate(self.classes)}

    def expression(self, table: Table) -> IntegerValue:
        """The packed code of each row of a table that has the columns."""
        total = ibis.literal(0, "int64")
        for classes in self.classes:
            total = total + classes.expression(table) * ibis.literal(self._strides[classes.column], "int64")
        return total

    def mask(self, codes: NDArray[np.int64], condition: Where) -> NDArray[np.bool_]:
        """Whether each packed code passes a condition on columns of this coding."""
        passes = np.ones(len(codes), dtype=bool)
        for column, allowed in condition.terms:
            passes &= self._of(column).allowed(allowed)[self._digit(codes, column)]
        return passes

    def coarsened(self, codes: NDArray[np.int64], coarser: Coding) -> NDArray[np.int64]:
        """Packed codes as a coding has them that is made of a part of the conditions.

        >>> from phsafe.conditions import where
        >>> one, both = where(QAGE=range(18)), [where(QAGE=range(18)), where(QAGE=range(20), RELSHIP="30")]
        >>> Coding.of(both).coarsened(np.arange(6), Coding.of([one])).tolist()
        [0, 1, 0, 0, 1, 0]
        """
        total = np.zeros(len(codes), dtype=np.int64)
        for classes in coarser.classes:
            mine = self._of(classes.column)
            numbers = np.zeros(mine.size, dtype=np.int64)
            for i, members in enumerate(classes.members, 1):
                numbers[mine.allowed(members)] = i
            total += numbers[self._digit(codes, classes.column)] * coarser._strides[classes.column]
        return total

    def _of(self, column: str) -> Classes:
        return next(classes for classes in self.classes if classes.column == column)

    def _digit(self, codes: NDArray[np.int64], column: str) -> NDArray[np.int64]:
        return codes // self._strides[column] % self._of(column).size

    def part(self, condition: Where) -> Where:
        """The terms of a condition that this coding's columns decide."""
        columns = {classes.column for classes in self.classes}
        return Where(tuple(term for term in condition.terms if term[0] in columns))


def _partition(sets: set[frozenset[Code]]) -> tuple[frozenset[Code], ...]:
    """The atoms of some sets of codes: codes that exactly the same sets name, in order of first code."""
    atoms: dict[frozenset[frozenset[Code]], set[Code]] = {}
    for code in sorted(frozenset().union(*sets)):
        atoms.setdefault(frozenset(s for s in sets if code in s), set()).add(code)
    return tuple(frozenset(codes) for codes in atoms.values())
