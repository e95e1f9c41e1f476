"""Codes folded to the few classes that a set of conditions can tell apart, and packed in one integer.

Sixty-three races matter to PH1 only as seven iterations; ages only as "under 18". Folding them before
anything is grouped is what makes one pass over the data enough: a row becomes one small integer, and every
cell and population group can be decided from that integer afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import ibis
import numpy as np
from ibis.expr.types import IntegerColumn, IntegerValue, Table
from numpy.typing import NDArray

from phsafe.conditions import Code, Where


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
        """The class of each row.

        Codes are compared one by one: on a dictionary-encoded column that is far cheaper than a search in a list.
        """
        column = table[self.column]
        zero = ibis.literal(0, "int64")
        numbered = [(codes, ibis.literal(i, "int64")) for i, codes in enumerate(self.members, 1)]
        if all(_is_range(codes) for codes, _ in numbered):
            return ibis.cases(
                *((column.between(min(codes), max(codes)), i) for codes, i in numbered), else_=zero
            )
        return column.cases(*((code, i) for codes, i in numbered for code in sorted(codes)), else_=zero)

    def allowed(self, codes: frozenset[Code]) -> NDArray[np.bool_]:
        """For each class, whether a condition that allows `codes` allows it (it takes a class whole)."""
        return np.array([False, *(members <= codes for members in self.members)])


def _is_range(codes: frozenset[Code]) -> bool:
    numbers = [code for code in codes if isinstance(code, int)]
    return len(numbers) == len(codes) and max(numbers) - min(numbers) + 1 == len(numbers)


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

    def narrowed(self, columns: Iterable[str]) -> Coding:
        """The same classes for some of the columns only."""
        chosen = set(columns)
        return Coding(tuple(classes for classes in self.classes if classes.column in chosen))

    def narrow(self, code: IntegerValue, to: Coding) -> IntegerValue:
        """The code in a narrowed coding, from the code in this one."""
        total = ibis.literal(0, "int64")
        for classes in to.classes:
            digit = (code // ibis.literal(self._strides[classes.column], "int64")).cast(
                "int64"
            ) % classes.size
            total = total + digit * ibis.literal(to._strides[classes.column], "int64")
        return total

    def mask(self, codes: NDArray[np.int64], condition: Where) -> NDArray[np.bool_]:
        """Whether each packed code passes a condition on columns of this coding."""
        passes = np.ones(len(codes), dtype=bool)
        for column, allowed in condition.terms:
            classes = next(c for c in self.classes if c.column == column)
            digit = codes // self._strides[column] % classes.size
            passes &= classes.allowed(allowed)[digit]
        return passes

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


def decide(table: Table, coding: Coding, outcomes: Mapping[int, int], default: int, *, keep: str) -> Table:
    """The outcome of each row, from a table of packed code → outcome (else the default); as a tree of decisions.

    Each row walks down one branch for each column, so it costs a few comparisons however many codes there are.
    """
    digits = table.select(keep, **{f"class_{c.column}": c.expression(table) for c in coding.classes})
    order = sorted(range(len(coding.classes)), key=lambda axis: coding.classes[axis].size)
    flat = np.array([outcomes.get(code, default) for code in range(coding.size)])
    cube = flat.reshape([c.size for c in coding.classes], order="F").transpose(order)
    columns = [digits[f"class_{coding.classes[axis].column}"] for axis in order]
    return digits.select(keep, outcome=_branch(cube, columns))


def _branch(cube: NDArray[np.int64], columns: list[IntegerColumn]) -> IntegerValue:
    """The decision on the first column, with the rest of the cube below each branch."""
    if (cube == cube.flat[0]).all():
        return ibis.literal(int(cube.flat[0]), "int64")
    below: dict[bytes, list[int]] = {}
    for digit, part in enumerate(cube):
        below.setdefault(part.tobytes(), []).append(digit)
    *branches, last = sorted(below.values(), key=len)
    return columns[0].cases(
        *((digit, _branch(cube[group[0]], columns[1:])) for group in branches for digit in group),
        else_=_branch(cube[last[0]], columns[1:]),
    )
