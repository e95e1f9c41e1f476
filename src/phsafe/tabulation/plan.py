"""What one tabulation run must count, derived from the specs: codings and universes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from phsafe.conditions import Where
from phsafe.config import Config
from phsafe.levels import Iteration, Level
from phsafe.schema import GEO, PERSONS, UNITS
from phsafe.spec import Tabulation
from phsafe.tabulation.coding import Coding


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
    def universe_columns(self) -> tuple[str, ...]:
        """What universes look at."""
        return tuple(sorted({column for universe in self.universes for column, _ in universe.persons.terms}))

    @cached_property
    def anybody(self) -> Where:
        """What everybody in any universe passes."""
        return _common(self.universes)

    @cached_property
    def thresholds(self) -> dict[int, Where]:
        """Each threshold, with what everybody passes who is in a universe with it."""
        return {
            tau: _common([universe for universe in self.universes if universe.tau == tau])
            for tau in sorted({universe.tau for universe in self.universes})
        }

    @cached_property
    def persons(self) -> Coding:
        """Persons' codes as far as any tabulation looks at them."""
        return self.persons_for(*self.tabulations)

    @cached_property
    def units(self) -> Coding:
        """Units' codes as far as any tabulation looks at them."""
        return self.units_for(*self.tabulations)

    def persons_for(self, *tabulations: Tabulation) -> Coding:
        """Persons' codes as far as some tabulations look at them; those of units don't."""
        return Coding.of(c for t in tabulations for c in self._person_conditions(t))

    def units_for(self, *tabulations: Tabulation) -> Coding:
        """Units' codes as far as some tabulations look at them."""
        return Coding.of(c for t in tabulations for c in self._unit_conditions(t))

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
        if tabulation.persons is None:
            return
        yield tabulation.persons
        for condition in (*tabulation.cells.values(), *self._iteration_conditions(tabulation)):
            yield _terms_of(condition, PERSONS.names)

    def _unit_conditions(self, tabulation: Tabulation) -> Iterable[Where]:
        yield tabulation.units
        for condition in (*tabulation.cells.values(), *self._iteration_conditions(tabulation)):
            yield _terms_of(condition, UNITS.names)

    @cached_property
    def geo_columns(self) -> tuple[str, ...]:
        """The geo columns that tell regions apart, the state first."""
        used = {"TABBLKST", *(c for level in self.levels for c in level.geography.columns)}
        return tuple(name for name in GEO.names if name in used)


def _common(universes: Sequence[Universe]) -> Where:
    """Columns that every one of some universes restricts, with the codes that any of them allows."""
    terms = [dict(universe.persons.terms) for universe in universes]
    columns = set.intersection(*(set(one) for one in terms)) if terms else set()
    return Where(tuple((name, frozenset().union(*(one[name] for one in terms))) for name in sorted(columns)))


def _terms_of(condition: Where, columns: Iterable[str]) -> Where:
    chosen = set(columns)
    return Where(tuple(term for term in condition.terms if term[0] in chosen))
