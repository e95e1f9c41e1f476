"""From counted codes to the vectors of the public grid.

Where a code goes depends on that code alone: to one cell, one iteration and one region at most (claims C1.2 and C3 of
docs/privacy.md). Codes that fit no cell or no group are counted nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phsafe.conditions import Where
from phsafe.counting.counted import Counted
from phsafe.counting.kernel import DROPPED, PERSONS
from phsafe.counting.plan import Plan
from phsafe.counting.records import Array
from phsafe.grid import Counts
from phsafe.levels import Geography, Level, digits
from phsafe.spec import Tabulation

NOWHERE = -1


@dataclass(frozen=True)
class Tabulated:
    """The exact counts of a run, and what its rules found. Confidential."""

    plan: Plan
    counted: Counted

    def counts(self, *, truncate: bool = True) -> Counts:
        """One vector for each measurement of the config, with or without the persons beyond the thresholds."""
        vectors: dict[tuple[str, str], NDArray[np.int64]] = {}
        for tabulation in self.plan.tabulations:
            places = self._places(tabulation, truncate)
            for level in self.plan.config.levels_of(tabulation):
                vectors[tabulation.name, level.key] = places.vector(level)
        if any(vector.min(initial=0) < 0 for vector in vectors.values()):
            raise AssertionError("a count came out below zero: more was dropped than was there")
        return vectors

    def unclassified(self) -> dict[str, int]:
        """For each tabulation, how many rows of its universe fit none of its cells."""
        places = {t.name: self._places(t, truncate=False) for t in self.plan.tabulations}
        return {name: int(one.numbers[one.cells() == NOWHERE].sum()) for name, one in places.items()}

    def beyond_threshold(self) -> dict[str, tuple[int, int]]:
        """For each person tabulation, how many persons its universe has and how many are beyond its threshold."""
        classes, numbers = self.counted.tallies[PERSONS].items()
        found = {}
        for tabulation in self.plan.tabulations:
            if tabulation.persons is not None:
                inside = self.plan.persons.mask(tabulation.persons)[classes]
                universe = self.plan.universes.index(self.plan.universe(tabulation))
                found[tabulation.name] = (int(numbers[inside].sum()), int(self.counted.beyond[universe]))
        return found

    def _places(self, tabulation: Tabulation, truncate: bool) -> _Places:
        codes, numbers = self.counted.tallies[tabulation.name].items()
        if truncate and tabulation.counts_persons:
            less, fewer = self.counted.tallies[tabulation.name + DROPPED].items()
            codes, numbers = np.concatenate([codes, less]), np.concatenate([numbers, -fewer])
        return _Places(self.plan, tabulation, codes, numbers)


@dataclass(frozen=True)
class _Places:
    """Codes of a tabulation, how often each is counted, and where each goes."""

    plan: Plan
    tabulation: Tabulation
    codes: Array
    numbers: Array

    def vector(self, level: Level) -> NDArray[np.int64]:
        """The counts at a level, in the order of `phsafe.grid.level_rows`."""
        iterations = level.iteration_level.iterations
        regions = [code for code, _ in level.geography.within(self.plan.config.states)]
        conditions = [self.plan.iteration_condition(self.tabulation, i) for i in iterations]
        digits = (self._regions(level.geography, regions), self._first(conditions), self.cells())
        inside = np.logical_and.reduce([digit != NOWHERE for digit in digits])
        shape = (len(regions), len(iterations), len(self.tabulation.cells))
        counts = np.zeros(shape, np.int64)
        np.add.at(counts, tuple(digit[inside] for digit in digits), self.numbers[inside])
        return counts.reshape(-1)

    def cells(self) -> Array:
        """The position of each code's cell, or NOWHERE."""
        return self._first(self.tabulation.cells.values())

    def _first(self, conditions: Iterable[Where]) -> Array:
        """The position of the condition that each code passes, or NOWHERE."""
        units, persons = self.plan.units_of(self.tabulation), self.plan.persons_of(self.tabulation)
        place, person = np.divmod(self.codes, persons.size)
        index = np.full(len(self.codes), NOWHERE, np.int64)
        for i, condition in enumerate(conditions):
            index[persons.mask(condition)[person] & units.mask(condition)[place % units.size]] = i
        return index

    def _regions(self, geography: Geography, codes: list[str]) -> Array:
        """The position of each code's region in a geography's public list, or NOWHERE."""
        persons, units = self.plan.persons_of(self.tabulation), self.plan.units_of(self.tabulation)
        distinct, index = np.unique(self.codes // (persons.size * units.size), return_inverse=True)
        position = {code: i for i, code in enumerate(codes)}
        texts = [self._region_code(geography, int(number)) if geography.columns else codes[0] for number in distinct]
        return np.array([position.get(text, NOWHERE) for text in texts], np.int64)[index]

    def _region_code(self, geography: Geography, number: int) -> str:
        """A region's number as the text that a geography lists; a shorter text if a digit is unknown."""
        texts = {}
        for column, radix in self.plan.region_radices.items():
            number, digit = divmod(number, radix)
            is_state = column == self.plan.geo_columns[0]
            known = self.plan.config.states[digit - 1] if is_state else f"{digit - 1:0{digits(column)}d}"
            texts[column] = known if digit else ""
        return "".join(texts[column] for column in geography.columns)
