"""From packed codes to the vectors of the public grid.

What comes from the engine is some hundred thousand rows of (kind, n), a *kind* being a person's code and the place of
its household in one number. Here rows that a tabulation can't tell apart are added up, and each is put in its cell and
population group; rows that fit none are counted nowhere. Where a row goes, in one place at most, depends on that row
alone (claims C1.2 and C3 of docs/privacy.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phsafe.conditions import Where
from phsafe.levels import Geography, Level, digits
from phsafe.spec import Tabulation
from phsafe.tabulation.coding import Coding
from phsafe.tabulation.plan import Plan

Vector = NDArray[np.int64]
#: Codes and regions, of 32 or 64 bits.
Numbers = NDArray[np.signedinteger]
NOWHERE = -1
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Rows:
    """Counted rows: how many (`n`, negative to take away) of each person code, unit code and region.

    Rows of units have an empty person coding.
    """

    units: Coding
    unit: Numbers
    region: Numbers
    n: Vector
    persons: Coding
    person: Numbers

    @classmethod
    def of(cls, plan: Plan, persons: Coding, counted: pl.DataFrame) -> Rows:
        """The rows of a frame with kind and n."""
        return cls._unpacked(plan, plan.units, persons, counted["kind"].to_numpy(), counted["n"].to_numpy())

    @classmethod
    def _unpacked(cls, plan: Plan, units: Coding, persons: Coding, kind: Vector, n: Vector) -> Rows:
        place, person = np.divmod(kind, persons.size)
        region, unit = np.divmod(place, units.size)
        return cls(
            units,
            _narrow(unit, units.size),
            _narrow(region, regions(plan)),
            n,
            persons,
            _narrow(person, persons.size),
        )

    def seen_by(self, plan: Plan, tabulation: Tabulation) -> Rows:
        """The same rows, those taken together that a tabulation can't tell apart: a hundredth is left."""
        units, persons = plan.units_for(tabulation), plan.persons_for(tabulation)
        unit = _by_code(self.units, self.unit, lambda codes: self.units.coarsened(codes, units))
        person = _by_code(self.persons, self.person, lambda codes: self.persons.coarsened(codes, persons))
        # No larger than the kinds that they were made from.
        kinds, index = _distinct((self.region.astype(np.int64) * units.size + unit) * persons.size + person)
        n = np.zeros(len(kinds), dtype=np.int64)
        np.add.at(n, index, self.n)
        return self._unpacked(plan, units, persons, kinds, n)

    def of_universe(self, tabulation: Tabulation) -> Rows:
        """The rows that pass both filters of a tabulation."""
        passes = _mask(self.units, self.unit, tabulation.units)
        if tabulation.persons is not None:
            passes &= _mask(self.persons, self.person, tabulation.persons)
        return self._chosen(passes)

    def _chosen(self, mask: NDArray[np.bool_]) -> Rows:
        unit, region, n, person = (a[mask] for a in (self.unit, self.region, self.n, self.person))
        return Rows(self.units, unit, region, n, self.persons, person)

    def total(self, persons: Where) -> int:
        """How many persons pass a person filter."""
        return int(self.n[_mask(self.persons, self.person, persons)].sum())

    def joined(self, condition: Where) -> NDArray[np.bool_]:
        """Which rows pass a condition on the joined row (no column of it is in both tables)."""
        return _mask(self.persons, self.person, self.persons.part(condition)) & _mask(
            self.units, self.unit, self.units.part(condition)
        )

    def in_cells(self, tabulation: Tabulation) -> tuple[Rows, Vector]:
        """The rows of a universe that have a cell, with the position of each one's cell."""
        rows = self.of_universe(tabulation)
        cell = rows._first(tabulation.cells.values())
        return rows._chosen(cell != NOWHERE), cell[cell != NOWHERE]

    def iteration_index(self, plan: Plan, tabulation: Tabulation, level: Level) -> Vector:
        """The position of each row's iteration in a level, or NOWHERE."""
        return self._first(plan.iteration_condition(tabulation, i) for i in level.iteration_level.iterations)

    def _first(self, conditions: Iterable[Where]) -> Vector:
        index = np.full(len(self.n), NOWHERE, dtype=np.int64)
        for i, condition in enumerate(conditions):
            index[self.joined(condition)] = i
        return index


def region_radices(plan: Plan) -> list[tuple[str, int]]:
    """The columns packed in a region, least significant first: the state's number in the state filter, from 1, then
    for other columns one number more than their digits allow.
    """  # noqa: D205
    state, *others = plan.geo_columns
    return [(state, 1 + len(plan.config.states)), *((column, 10 ** digits(column) + 1) for column in others)]


def regions(plan: Plan) -> int:
    """How many packed regions there can be."""
    return prod(radix for _, radix in region_radices(plan))


def region_index(plan: Plan, geography: Geography, region: Numbers) -> Vector:
    """The position of each packed region in a geography's public list, or NOWHERE."""
    codes = [code for code, _ in geography.within(plan.config.states)]
    if not geography.columns:
        return np.zeros(len(region), dtype=np.int64)
    distinct, index = _distinct(region)
    position = {code: i for i, code in enumerate(codes)}
    found = [position.get(_region_code(plan, geography, int(number)), NOWHERE) for number in distinct]
    return np.array(found, dtype=np.int64)[index] if found else index


def _distinct(numbers: Numbers) -> tuple[Numbers, Vector]:
    """The numbers there are, in order, and the place of each row's number among them."""
    if numbers.max(initial=0) >= len(numbers):
        distinct, index = np.unique(numbers, return_inverse=True)
        return distinct, index.astype(np.int64)
    # Small numbers need no sorting.
    there = np.bincount(numbers) > 0
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers]


def _region_code(plan: Plan, geography: Geography, packed: int) -> str:
    (state, radix), *others = region_radices(plan)
    packed, number = divmod(packed, radix)
    parts = {state: plan.config.states[number - 1]}
    for column, radix in others:
        packed, number = divmod(packed, radix)
        parts[column] = f"{number:0{digits(column)}d}"
    return "".join(parts[column] for column in geography.columns)


def count(
    plan: Plan, tabulation: Tabulation, levels: Iterable[Level], rows: Iterable[Rows]
) -> dict[str, Vector]:
    """The counts of a tabulation at some levels, by level key, each in the order of `phsafe.grid.level_rows`."""
    placed = [part.seen_by(plan, tabulation).in_cells(tabulation) for part in rows]
    return {level.key: _count(plan, tabulation, level, placed) for level in levels}


def _count(plan: Plan, tabulation: Tabulation, level: Level, placed: Iterable[tuple[Rows, Vector]]) -> Vector:
    iterations, cells = len(level.iteration_level.iterations), len(tabulation.cells)
    regions = len(level.geography.within(plan.config.states))
    counts = np.zeros(regions * iterations * cells, dtype=np.int64)
    for part, cell in placed:
        iteration = part.iteration_index(plan, tabulation, level)
        region = region_index(plan, level.geography, part.region)
        inside = (iteration != NOWHERE) & (region != NOWHERE)
        position = (region * iterations + iteration) * cells + cell
        np.add.at(counts, position[inside], part.n[inside])
    return counts


def unclassified(plan: Plan, tabulation: Tabulation, rows: Rows) -> int:
    """How many rows of a universe fit none of its cells."""
    rows = rows.seen_by(plan, tabulation)
    return int(rows.of_universe(tabulation).n.sum() - rows.in_cells(tabulation)[0].n.sum())


def _narrow(numbers: Vector, size: int) -> Numbers:
    """Numbers below a size in half the bytes, if that suffices. The size is public: no row decides about another's."""
    return numbers.astype(np.int32) if size <= 2**31 else numbers


def _mask(coding: Coding, codes: Numbers, condition: Where) -> NDArray[np.bool_]:
    """Whether each code passes a condition."""
    return _by_code(coding, codes, lambda codes: coding.mask(codes, condition))


def _by_code(coding: Coding, codes: Numbers, decide: Callable[[Vector], NDArray[T]]) -> NDArray[T]:
    """What is decided for each code: once for each code there is, if those are fewer than the rows."""
    if coding.size < len(codes):
        return decide(np.arange(coding.size, dtype=np.int64))[codes]
    return decide(codes.astype(np.int64))
