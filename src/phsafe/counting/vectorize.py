"""Step 5, vectorize: assign counted codes to regions, race iterations and cells, and sum them into count vectors.

Each code belongs to at most one cell, one iteration and one region, and which ones depends on that code alone (claims
C1.2 and C3 of docs/privacy.md). Codes that belong to no cell or no population group are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from phsafe.configs.grid import Counts
from phsafe.counting.kernel import BLIND, DROPPED, PERSONS
from phsafe.counting.plan import Plan
from phsafe.counting.records import Array
from phsafe.counting.tallies import Counted
from phsafe.model.conditions import Where
from phsafe.model.levels import Geography, Level, digits
from phsafe.model.spec import Tabulation

NOWHERE = -1


@dataclass(frozen=True)
class Tabulated:
    """The exact counts and rule violations of a run. Confidential."""

    plan: Plan
    counted: Counted

    def counts(self, *, truncate: bool = True) -> Counts:
        """The count vector of each measurement, by tabulation and level key, with or without truncation.

        What is beyond a threshold is counted either way, and so are the cells that the structured mode counts without
        the unit table, which are never truncated (claim C17).
        """
        vectors: dict[tuple[str, str], NDArray[np.int64]] = {}
        for tabulation in self.plan.tabulations:
            codes = self._codes(tabulation, truncate)
            for level in self.plan.config.levels_of(tabulation):
                vector = codes.vector(level)
                if blind := self.plan.blind_cells(tabulation, level):
                    counts = self.counted.tallies[tabulation.name + BLIND].items()
                    alone = _TabulationCodes(self.plan, tabulation, *counts).vector(level)
                    is_blind = np.isin(list(tabulation.cells), blind)
                    vector = np.where(np.tile(is_blind, len(vector) // len(is_blind)), alone, vector)
                vectors[tabulation.name, level.key] = vector
        if any(vector.min(initial=0) < 0 for vector in vectors.values()):
            raise AssertionError("a count is negative: more persons were dropped than counted")
        return vectors

    def unclassified(self) -> dict[str, int]:
        """For each tabulation, the number of rows in its universe that fall in none of its cells.

        What truncation drops is left out: those rows are in the universe of the truncated tabulation, too.
        """
        codes = {t.name: self._codes(t, truncate=False) for t in self.plan.tabulations if t.beyond is None}
        return {name: int(c.numbers[c.cells == NOWHERE].sum()) for name, c in codes.items()}

    def without_housing(self) -> dict[str, int]:
        """For each tabulation that is counted without units, how many of its persons have no housing unit that counts.

        No other tabulation counts these people, and estimation assumes that there are none.
        """
        found = {}
        for tabulation in self.plan.tabulations:
            name, universe = tabulation.name, self.plan.universe(tabulation)
            if tabulation.kind == "dropped" and universe is not None:
                found[name] = self._total(name) - int(self.counted.beyond[self.plan.universes.index(universe)])
            elif name + BLIND in self.counted.tallies:
                found[name] = self._total(name + BLIND) - self._total(name)
        return found

    def _total(self, tally: str) -> int:
        return int(self.counted.tallies[tally].items()[1].sum())

    def beyond_threshold(self) -> dict[str, tuple[int, int]]:
        """For each person tabulation, the number of persons in its universe and of those beyond its threshold."""
        classes, numbers = self.counted.tallies[PERSONS].items()
        found = {}
        for tabulation in self.plan.tabulations:
            universe = self.plan.universe(tabulation)
            if tabulation.is_truncated and universe is not None:
                inside = self.plan.persons.mask(universe.persons)[classes]
                beyond = self.counted.beyond[self.plan.universes.index(universe)]
                found[tabulation.name] = (int(numbers[inside].sum()), int(beyond))
        return found

    def _codes(self, tabulation: Tabulation, truncate: bool) -> _TabulationCodes:
        codes, numbers = self.counted.tallies[tabulation.name].items()
        if truncate and tabulation.is_truncated:
            dropped, times = self.counted.tallies[tabulation.name + DROPPED].items()
            codes, numbers = np.concatenate([codes, dropped]), np.concatenate([numbers, -times])
        return _TabulationCodes(self.plan, tabulation, codes, numbers)


@dataclass(frozen=True)
class _TabulationCodes:
    """The codes of a tabulation, and how often each is counted."""

    plan: Plan
    tabulation: Tabulation
    codes: Array
    numbers: Array

    def vector(self, level: Level) -> NDArray[np.int64]:
        """The count vector of a level, in the order of `phsafe.configs.grid.level_rows`."""
        iterations = level.iteration_level.iterations
        regions = [code for code, _ in level.geography.within(self.plan.config.states)]
        conditions = [self.plan.iteration_condition(self.tabulation, i) for i in iterations]
        positions = (self._regions(level.geography, regions), self._matching(conditions), self.cells)
        inside = np.logical_and.reduce([position != NOWHERE for position in positions])
        shape = (len(regions), len(iterations), len(self.tabulation.cells))
        counts = np.zeros(shape, np.int64)
        np.add.at(counts, tuple(position[inside] for position in positions), self.numbers[inside])
        return counts.reshape(-1)

    @cached_property
    def cells(self) -> Array:
        """The position of each code's cell among the tabulation's cells, or NOWHERE."""
        return self._matching(self.tabulation.cells.values())

    def _matching(self, conditions: Iterable[Where]) -> Array:
        """The position of the condition that each code meets, or NOWHERE."""
        units, persons = self.plan.units_of[self.tabulation.name], self.plan.persons_of[self.tabulation.name]
        household, person = np.divmod(self.codes, persons.size)
        index = np.full(len(self.codes), NOWHERE, np.int64)
        for i, condition in enumerate(conditions):
            index[persons.mask(condition)[person] & units.mask(condition)[household % units.size]] = i
        return index

    def _regions(self, geography: Geography, codes: list[str]) -> Array:
        """The position of each code's region in a geography's public list, or NOWHERE."""
        persons, units = self.plan.persons_of[self.tabulation.name], self.plan.units_of[self.tabulation.name]
        distinct, index = np.unique(self.codes // (persons.size * units.size), return_inverse=True)
        position = {code: i for i, code in enumerate(codes)}
        texts = [self._region_code(geography, int(number)) if geography.columns else codes[0] for number in distinct]
        return np.array([position.get(text, NOWHERE) for text in texts], np.int64)[index]

    def _region_code(self, geography: Geography, number: int) -> str:
        """Convert a region's number to its code; if a digit is unknown, to a shorter text that no geography lists."""
        texts = {}
        for column, radix in self.plan.region_radices.items():
            number, digit = divmod(number, radix)
            is_state = column == self.plan.geo_columns[0]
            known = self.plan.config.states[digit - 1] if is_state else f"{digit - 1:0{digits(column)}d}"
            texts[column] = known if digit else ""
        return "".join(texts[column] for column in geography.columns)
