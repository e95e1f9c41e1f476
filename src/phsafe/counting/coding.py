"""Values folded into the few classes that a set of conditions can tell apart, packed into one number.

Sixty-three races matter to PH1 only as seven iterations; ages only as "under 18". A record becomes the number of
its class, and every condition can be decided from that number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from phsafe.conditions import Code, Where
from phsafe.counting.records import Lookup, RecordFormat, strides
from phsafe.schema import Column, Digits


@dataclass(frozen=True)
class Classes:
    """The values of one column in classes 1, 2, …; class 0 holds every value that no condition names."""

    column: str
    members: tuple[frozenset[Code], ...]

    @property
    def size(self) -> int:
        """The number of classes, class 0 included."""
        return len(self.members) + 1

    def allowed(self, codes: frozenset[Code]) -> NDArray[np.bool_]:
        """For each class, whether a condition that allows `codes` allows it: it takes a class whole or not at all."""
        return np.array([False, *(members <= codes for members in self.members)])

    def by_code(self, column: Column) -> NDArray[np.int64]:
        """The class of each code of the column, code 0 (unknown) first."""
        if isinstance(column.domain, Digits):
            raise TypeError(f"{column.name}: expected a column with a list of codes")
        classes = {code: i for i, codes in enumerate(self.members, 1) for code in codes}
        return np.array([0, *(classes.get(code, 0) for code in column.domain)])


@dataclass(frozen=True)
class Coding:
    """The classes of several columns as one mixed-radix number.

    >>> from phsafe.conditions import where
    >>> coding = Coding.of([where(QAGE=range(18)), where(QAGE=range(18, 116)), where(RELSHIP="30")])
    >>> [(c.column, c.size) for c in coding.classes]
    [('QAGE', 3), ('RELSHIP', 2)]
    >>> coding.mask(where(QAGE=range(18))).tolist()
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
        return cls(tuple(Classes(column, _atoms(sets)) for column, sets in sorted(terms.items())))

    @property
    def size(self) -> int:
        """The number of different codes."""
        return prod(classes.size for classes in self.classes)

    @cached_property
    def _strides(self) -> dict[str, int]:
        names = [classes.column for classes in self.classes]
        return dict(zip(names, strides([classes.size for classes in self.classes]), strict=True))

    def mask(self, condition: Where) -> NDArray[np.bool_]:
        """For each code, whether it passes a condition on columns of this coding."""
        passes = np.ones(self.size, dtype=bool)
        for column, allowed in condition.terms:
            passes &= self._of(column).allowed(allowed)[self._digit(column)]
        return passes

    def coarsened(self, coarser: Coding) -> NDArray[np.int64]:
        """For each code, the code in a coding made from some of the same conditions.

        >>> from phsafe.conditions import where
        >>> one, both = where(QAGE=range(18)), [where(QAGE=range(18)), where(QAGE=range(20), RELSHIP="30")]
        >>> Coding.of(both).coarsened(Coding.of([one])).tolist()
        [0, 1, 0, 0, 1, 0]
        """
        total = np.zeros(self.size, dtype=np.int64)
        for classes in coarser.classes:
            mine = self._of(classes.column)
            numbers = np.zeros(mine.size, dtype=np.int64)
            for i, members in enumerate(classes.members, 1):
                numbers[mine.allowed(members)] = i
            total += numbers[self._digit(classes.column)] * coarser._strides[classes.column]
        return total

    def lookup(self, record_format: RecordFormat) -> Lookup:
        """Tables that give the code of a packed record."""
        return Lookup.of(record_format, self._numbers, np.int64)

    def _numbers(self, column: Column) -> NDArray[np.int64] | None:
        if column.name not in self._strides:
            return None
        return self._of(column.name).by_code(column) * self._strides[column.name]

    def _of(self, column: str) -> Classes:
        return next(classes for classes in self.classes if classes.column == column)

    def _digit(self, column: str) -> NDArray[np.int64]:
        return np.arange(self.size) // self._strides[column] % self._of(column).size

    def part(self, condition: Where) -> Where:
        """The terms of a condition on columns of this coding."""
        return condition.on({classes.column for classes in self.classes})


def _atoms(sets: set[frozenset[Code]]) -> tuple[frozenset[Code], ...]:
    """The largest groups of codes that every set contains whole or not at all, in order of first code."""
    atoms: dict[frozenset[frozenset[Code]], set[Code]] = {}
    for code in sorted(frozenset().union(*sets)):
        atoms.setdefault(frozenset(s for s in sets if code in s), set()).add(code)
    return tuple(frozenset(codes) for codes in atoms.values())
