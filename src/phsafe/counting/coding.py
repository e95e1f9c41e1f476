"""Codings: values reduced to the few classes that a set of conditions distinguishes, packed into one number.

For example, PH1 groups the 63 race codes into seven iterations, and ages into "under 18" and "18 and over". Each record
is replaced by the number of its class, which is enough to evaluate every condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from phsafe.counting.records import Lookup, RecordFormat
from phsafe.model.conditions import Code, Where
from phsafe.model.schema import Column


@dataclass(frozen=True)
class Classes:
    """The values of one column, grouped into classes 1, 2, …; class 0 holds every value that no condition names."""

    members: tuple[frozenset[Code], ...]
    #: The place value of this column's class in the coding's mixed-radix number.
    stride: int

    @property
    def size(self) -> int:
        """The number of classes, class 0 included."""
        return len(self.members) + 1

    def allowed(self, codes: frozenset[Code]) -> NDArray[np.bool_]:
        """For each class, whether a condition on `codes` allows it. A condition allows all of a class or none of it."""
        return np.array([False, *(members <= codes for members in self.members)])


@dataclass(frozen=True)
class Coding:
    """The classes of several columns, by column, as one mixed-radix number.

    >>> from phsafe.model.conditions import where
    >>> coding = Coding.of([where(QAGE=range(18)), where(QAGE=range(18, 116)), where(RELSHIP="30")])
    >>> [(name, c.size) for name, c in coding.columns.items()]
    [('QAGE', 3), ('RELSHIP', 2)]
    >>> coding.mask(where(QAGE=range(18))).tolist()
    [False, True, False, False, True, False]
    """

    columns: Mapping[str, Classes]

    @classmethod
    def of(cls, conditions: Iterable[Where]) -> Coding:
        """The coarsest coding that can evaluate all the conditions."""
        terms: dict[str, set[frozenset[Code]]] = {}
        for condition in conditions:
            for column, codes in condition.terms:
                terms.setdefault(column, set()).add(codes)
        columns: dict[str, Classes] = {}
        for column, sets in sorted(terms.items()):
            columns[column] = Classes(_atoms(sets), prod(one.size for one in columns.values()))
        return cls(columns)

    @property
    def size(self) -> int:
        """The number of distinct codes."""
        return prod(classes.size for classes in self.columns.values())

    def mask(self, condition: Where) -> NDArray[np.bool_]:
        """For each code, whether it meets a condition's terms. Terms on columns outside this coding are ignored."""
        passes = np.ones(self.size, dtype=bool)
        for column, allowed in condition.on(self.columns).terms:
            passes &= self.columns[column].allowed(allowed)[self._digit(column)]
        return passes

    def coarsened(self, coarser: Coding) -> NDArray[np.int64]:
        """For each code, the corresponding code in a coding built from a subset of the conditions.

        >>> from phsafe.model.conditions import where
        >>> one, both = where(QAGE=range(18)), [where(QAGE=range(18)), where(QAGE=range(20), RELSHIP="30")]
        >>> Coding.of(both).coarsened(Coding.of([one])).tolist()
        [0, 1, 0, 0, 1, 0]
        """
        total = np.zeros(self.size, dtype=np.int64)
        for column, classes in coarser.columns.items():
            for i, members in enumerate(classes.members, 1):
                total += self.columns[column].allowed(members)[self._digit(column)] * (i * classes.stride)
        return total

    def lookup(self, record_format: RecordFormat) -> Lookup:
        """The lookup tables that turn packed records into codes."""

        def numbers(column: Column) -> NDArray[np.int64] | None:
            classes = self.columns.get(column.name)
            if classes is None:
                return None
            found = {code: i for i, codes in enumerate(classes.members, 1) for code in codes}
            return np.array([0, *(found.get(code, 0) * classes.stride for code in column.codes)])

        return Lookup(record_format, numbers)

    def _digit(self, column: str) -> NDArray[np.int64]:
        return np.arange(self.size) // self.columns[column].stride % self.columns[column].size


def _atoms(sets: set[frozenset[Code]]) -> tuple[frozenset[Code], ...]:
    """The largest groups of codes that no set splits, in order of their first code."""
    atoms: dict[frozenset[frozenset[Code]], set[Code]] = {}
    for code in sorted(frozenset().union(*sets)):
        atoms.setdefault(frozenset(s for s in sets if code in s), set()).add(code)
    return tuple(frozenset(codes) for codes in atoms.values())
