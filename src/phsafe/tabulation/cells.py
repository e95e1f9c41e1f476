"""From packed codes to the vectors of the public grid.

What comes from the engine is a few thousand rows of (person code, unit code, region, n). Here each row is put in its
cell and population group; rows that fit none are counted nowhere. Each row is placed by itself, in one place
at most (claims C1.2 and C3 of docs/privacy.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phsafe.conditions import Where
from phsafe.levels import Geography, Level
from phsafe.spec import Tabulation
from phsafe.tabulation.coding import Coding
from phsafe.tabulation.households import region_radices
from phsafe.tabulation.plan import Plan

Vector = NDArray[np.int64]
NOWHERE = -1


@dataclass(frozen=True)
class Rows:
    """Counted rows: how many (`n`, negative to take away) of each person code, unit code and region.

    Rows of units have an empty person coding.
    """

    units: Coding
    unit: Vector
    region: Vector
    n: Vector
    persons: Coding
    person: Vector

    def in_universe(self, tabulation: Tabulation) -> NDArray[np.bool_]:
        """Which rows pass both filters of a tabulation."""
        passes = self.units.mask(self.unit, tabulation.units)
        if tabulation.persons is not None:
            passes &= self.persons.mask(self.person, tabulation.persons)
        return passes

    def joined(self, condition: Where) -> NDArray[np.bool_]:
        """Which rows pass a condition on the joined row (no column of it is in both tables)."""
        return self.persons.mask(self.person, self.persons.part(condition)) & self.units.mask(
            self.unit, self.units.part(condition)
        )

    def cell_index(self, tabulation: Tabulation) -> Vector:
        """The position of each row's cell, or NOWHERE."""
        return self._first(tabulation.cells.values())

    def iteration_index(self, plan: Plan, tabulation: Tabulation, level: Level) -> Vector:
        """The position of each row's iteration in a level, or NOWHERE."""
        return self._first(plan.iteration_condition(tabulation, i) for i in level.iteration_level.iterations)

    def _first(self, conditions: Iterable[Where]) -> Vector:
        index = np.full(len(self.n), NOWHERE, dtype=np.int64)
        for i, condition in enumerate(conditions):
            index[self.joined(condition)] = i
        return index


def region_index(plan: Plan, geography: Geography, region: Vector) -> Vector:
    """The position of each packed region in a geography's public list, or NOWHERE."""
    codes = [code for code, _ in geography.within(plan.config.states)]
    if not geography.columns:
        return np.zeros(len(region), dtype=np.int64)
    distinct, inverse = np.unique(region, return_inverse=True)
    position = {code: i for i, code in enumerate(codes)}
    found = [position.get(_region_code(plan, geography, int(number)), NOWHERE) for number in distinct]
    return np.array(found, dtype=np.int64)[inverse] if found else inverse.astype(np.int64)


def _region_code(plan: Plan, geography: Geography, packed: int) -> str:
    parts = {}
    for column, radix in region_radices(plan):
        packed, number = divmod(packed, radix)
        parts[column] = f"{number:0{len(str(radix)) - 1}d}"
    return "".join(parts[column] for column in geography.columns)


def count(plan: Plan, tabulation: Tabulation, level: Level, rows: Iterable[Rows]) -> Vector:
    """The counts of one measurement, in the order of `phsafe.grid.level_rows`."""
    iterations, cells = len(level.iteration_level.iterations), len(tabulation.cells)
    regions = len(level.geography.within(plan.config.states))
    counts = np.zeros(regions * iterations * cells, dtype=np.int64)
    for part in rows:
        cell = part.cell_index(tabulation)
        iteration = part.iteration_index(plan, tabulation, level)
        region = region_index(plan, level.geography, part.region)
        placed = (
            part.in_universe(tabulation) & (cell != NOWHERE) & (iteration != NOWHERE) & (region != NOWHERE)
        )
        position = (region * iterations + iteration) * cells + cell
        np.add.at(counts, position[placed], part.n[placed])
    return counts


def unclassified(tabulation: Tabulation, rows: Iterable[Rows]) -> int:
    """How many rows of a universe fit none of its cells."""
    return sum(
        int(part.n[part.in_universe(tabulation) & (part.cell_index(tabulation) == NOWHERE)].sum())
        for part in rows
    )
