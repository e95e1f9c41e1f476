"""What one tabulation run must count, derived from the specs: codings, universes, and which way each is counted.

Persons of most tables are counted for each household first, in a few sums (*narrow*): their iteration is the
householder's, so only a handful of kinds of person differ. A table that tells apart more kinds than that, because it
iterates by the person's own race, has its persons joined one by one (*wide*).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from phsafe.conditions import Code, Where
from phsafe.config import Config
from phsafe.levels import Iteration, Level
from phsafe.schema import GEO, PERSONS, UNITS
from phsafe.spec import Tabulation
from phsafe.tabulation.coding import Coding

#: More kinds of person than this for each household cost more than joining persons one by one.
MAX_KINDS = 12


@dataclass(frozen=True)
class Universe:
    """Persons who pass a filter, cut to τ for each household. Tabulations that agree in both share one."""

    persons: Where
    tau: int


@dataclass(frozen=True)
class Plan:
    """The counting work of a config."""

    config: Config

    @cached_property
    def tabulations(self) -> tuple[Tabulation, ...]:
        """The measured tabulations that have a budget at some level."""
        return tuple(t for t in self.config.catalog.tabulations if self.config.levels_of(t))

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """All levels that some tabulation is published at."""
        chosen = {level.key for t in self.tabulations for level in self.config.levels_of(t)}
        return tuple(level for level in self.config.catalog.levels if level.key in chosen)

    @cached_property
    def person_tabulations(self) -> tuple[Tabulation, ...]:
        """Those that count persons."""
        return tuple(t for t in self.tabulations if t.counts_persons)

    def universe(self, tabulation: Tabulation) -> Universe:
        """The universe of a person tabulation."""
        assert tabulation.persons is not None
        return Universe(tabulation.persons, self.config.tau[tabulation.name])

    @cached_property
    def universes(self) -> tuple[Universe, ...]:
        """All universes, each once."""
        return tuple(dict.fromkeys(self.universe(t) for t in self.person_tabulations))

    @cached_property
    def anybody(self) -> dict[str, list[Code]]:
        """Columns that every universe restricts, with the codes that some universe allows: nobody else counts."""
        terms = [dict(universe.persons.terms) for universe in self.universes]
        columns = set.intersection(*(set(one) for one in terms)) if terms else set()
        return {name: sorted(frozenset().union(*(one[name] for one in terms))) for name in sorted(columns)}

    @cached_property
    def persons(self) -> Coding:
        """Persons' codes as far as any tabulation looks at them."""
        return Coding.of(c for t in self.person_tabulations for c in self._person_conditions(t))

    @cached_property
    def units(self) -> Coding:
        """Units' codes as far as any tabulation looks at them."""
        return Coding.of(c for t in self.tabulations for c in self._unit_conditions(t))

    def iterations(self, tabulation: Tabulation) -> tuple[Iteration, ...]:
        """The iterations that a tabulation is published by."""
        levels = self.config.levels_of(tabulation)
        return tuple(dict.fromkeys(i for level in levels for i in level.iteration_level.iterations))

    def iteration_condition(self, tabulation: Tabulation, iteration: Iteration) -> Where:
        """What puts a row in an iteration."""
        by = tabulation.iterate_by
        return iteration.condition(by) if by is not None else Where()

    def _iteration_conditions(self, tabulation: Tabulation) -> list[Where]:
        return [self.iteration_condition(tabulation, i) for i in self.iterations(tabulation)]

    def _person_conditions(self, tabulation: Tabulation) -> Iterable[Where]:
        assert tabulation.persons is not None
        yield tabulation.persons
        for condition in (*tabulation.cells.values(), *self._iteration_conditions(tabulation)):
            yield _terms_of(condition, PERSONS.names)

    def _unit_conditions(self, tabulation: Tabulation) -> Iterable[Where]:
        yield tabulation.units
        for condition in (*tabulation.cells.values(), *self._iteration_conditions(tabulation)):
            yield _terms_of(condition, UNITS.names)

    def _kinds(self, narrow: Iterable[Tabulation]) -> tuple[Coding, list[NDArray[np.int64]]]:
        """Person codes in kinds that the universes, and the cells of the narrow tabulations, can't tell apart."""
        conditions = {u.persons for u in self.universes}
        conditions |= {t.persons & c for t in narrow if t.persons for c in self._person_conditions(t)}
        coding = self.persons.narrowed(column for c in conditions for column in c.columns)
        codes = np.arange(coding.size, dtype=np.int64)
        masks = np.array([coding.mask(codes, c) for c in sorted(conditions, key=repr)], dtype=bool)
        counted = np.zeros(len(codes), dtype=bool)
        for universe in self.universes:
            counted |= coding.mask(codes, universe.persons)
        kinds: dict[bytes, list[int]] = {}
        for code in codes[counted]:
            kinds.setdefault(masks[:, code].tobytes(), []).append(int(code))
        return coding, [np.array(members, dtype=np.int64) for members in kinds.values()]

    @cached_property
    def narrow(self) -> tuple[Tabulation, ...]:
        """Person tabulations that are counted for each household first: as many as fit in `MAX_KINDS` kinds."""
        chosen: list[Tabulation] = []
        for tabulation in sorted(self.person_tabulations, key=lambda t: len(self._kinds([t])[1])):
            if len(self._kinds([*chosen, tabulation])[1]) <= MAX_KINDS:
                chosen.append(tabulation)
        return tuple(t for t in self.person_tabulations if t in chosen)

    @cached_property
    def wide(self) -> tuple[Tabulation, ...]:
        """Person tabulations whose persons are joined one by one."""
        return tuple(t for t in self.person_tabulations if t not in self.narrow)

    @cached_property
    def kinds(self) -> tuple[NDArray[np.int64], ...]:
        """The kinds of person counted for each household, as sets of codes of `kind_coding`."""
        return tuple(self._kinds(self.narrow)[1])

    @cached_property
    def kind_coding(self) -> Coding:
        """Persons' codes as far as kinds differ in them."""
        return self._kinds(self.narrow)[0]

    @cached_property
    def geo_columns(self) -> tuple[str, ...]:
        """The geo columns that tell regions apart, the state first."""
        used = {"TABBLKST", *(c for level in self.levels for c in level.geography.columns)}
        return tuple(name for name in GEO.names if name in used)

    def person_columns(self, tabulation: Tabulation) -> set[str]:
        """The person columns that a tabulation looks at."""
        return {column for c in self._person_conditions(tabulation) for column in c.columns}

    def unit_columns(self, tabulation: Tabulation) -> set[str]:
        """The unit columns that a tabulation looks at."""
        return {column for c in self._unit_conditions(tabulation) for column in c.columns}


def _terms_of(condition: Where, columns: Iterable[str]) -> Where:
    chosen = set(columns)
    return Where(tuple(term for term in condition.terms if term[0] in chosen))
