"""What a config asks the kernel to count: universes, and for each tabulation how a row becomes a code.

A tabulation's code of a row has three digits: the region of its household, the class of its unit and the class of its
person. It tells every cell and population group of the tabulation apart, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from phsafe.conditions import Where
from phsafe.config import Config
from phsafe.counting.coding import Coding
from phsafe.counting.encode import TableEncoder
from phsafe.counting.kernel import Kernel, TabulationCode
from phsafe.counting.records import Array, Lookup, RecordFormat, domain_size
from phsafe.counting.rules import CONDITIONS, member_words
from phsafe.counting.truncate import UniverseCut, ValueDigests
from phsafe.errors import ConfigError, DataError
from phsafe.levels import Iteration
from phsafe.schema import GEO, LAYOUTS, PERSONS, UNITS, Column
from phsafe.spec import Tabulation

#: Columns in the order in which they are packed: those that are looked up together are side by side. RTYPE comes last,
#: so that the largest of several unit records has the largest RTYPE.
PACKED = {
    "persons": ("RTYPE", "QAGE", "RELSHIP", "CENRACE", "CENHISP"),
    "units": ("FINAL_POP", "NPF", "TEN", "HHRACE", "HHSPAN", "HHT", "HHT2", "CPLT", "RTYPE"),
}
#: The width that a record, and three times the number of a tabulation's codes, must fit.
MAX_BITS = 63


@dataclass(frozen=True)
class Universe:
    """Persons who pass a filter, truncated to τ in each household. Tabulations that agree in both share one."""

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

    def universe(self, tabulation: Tabulation) -> Universe:
        """The universe of a person tabulation."""
        assert tabulation.persons is not None
        return Universe(tabulation.persons, self.config.tau[tabulation.name])

    @cached_property
    def universes(self) -> tuple[Universe, ...]:
        """All universes, each once."""
        return tuple(dict.fromkeys(self.universe(t) for t in self.tabulations if t.counts_persons))

    def iteration_condition(self, tabulation: Tabulation, iteration: Iteration) -> Where:
        """What puts a row in an iteration."""
        return iteration.condition(tabulation.iterate_by) if tabulation.iterate_by is not None else Where()

    def _placing(self, tabulation: Tabulation, columns: Iterable[str]) -> list[Where]:
        """What puts a row in a cell or an iteration, as far as it looks at some columns."""
        levels = self.config.levels_of(tabulation)
        iterations = dict.fromkeys(i for level in levels for i in level.iteration_level.iterations)
        conditions = [
            *tabulation.cells.values(),
            *(self.iteration_condition(tabulation, i) for i in iterations),
        ]
        return [condition.on(set(columns)) for condition in conditions]

    def persons_of(self, tabulation: Tabulation) -> Coding:
        """The classes of persons that a tabulation's cells and iterations tell apart."""
        return Coding.of(self._placing(tabulation, PERSONS.names) if tabulation.counts_persons else ())

    def units_of(self, tabulation: Tabulation) -> Coding:
        """The classes of units that a tabulation's cells and iterations tell apart."""
        return Coding.of(self._placing(tabulation, UNITS.names))

    @cached_property
    def persons(self) -> Coding:
        """The classes of persons that any tabulation or rule tells apart."""
        placing = [c for t in self.tabulations if t.counts_persons for c in self._placing(t, PERSONS.names)]
        return Coding.of([*placing, *(universe.persons for universe in self.universes), *CONDITIONS])

    @cached_property
    def units(self) -> Coding:
        """The classes of units that any tabulation tells apart."""
        placing = [c for t in self.tabulations for c in self._placing(t, UNITS.names)]
        return Coding.of([*placing, *(t.units for t in self.tabulations)])

    @cached_property
    def geo_columns(self) -> tuple[str, ...]:
        """The geo columns that tell regions apart, the state first."""
        levels = [level for t in self.tabulations for level in self.config.levels_of(t)]
        used = {"TABBLKST", *(column for level in levels for column in level.geography.columns)}
        return tuple(name for name in GEO.names if name in used)

    def check_columns(self, columns: Iterable[str]) -> None:
        """Refuse a geo table without a column that a level needs."""
        missing = sorted(set(self.geo_columns) - set(columns), key=GEO.names.index)
        if missing:
            raise DataError([f"geo: column {name} is missing, and a level needs it" for name in missing])

    @cached_property
    def region_radices(self) -> dict[str, int]:
        """The digits of a region's number, lowest first, with how many values each has.

        The state's digit is its position in the state filter, from 1, or 0 outside it. The digit of another column is
        its code, so 0 stands for an unknown value.
        """
        state, *others = self.geo_columns
        return {state: 1 + len(self.config.states)} | {name: 1 + domain_size(GEO[name]) for name in others}

    def size(self, tabulation: Tabulation) -> int:
        """How many codes a tabulation has."""
        return prod(self.region_radices.values()) * self.units_of(tabulation).size * self.persons_of(tabulation).size

    @cached_property
    def formats(self) -> dict[str, RecordFormat]:
        """How the records of each table are packed."""
        packed = PACKED | {"geo": (*self.geo_columns, "RTYPE")}
        return {layout.name: RecordFormat.of(layout, packed[layout.name]) for layout in LAYOUTS}

    def kernel(self, examples: int = 0) -> Kernel:
        """Compile the plan to the tables that the kernel counts with.

        Args:
            examples: How many keys of offenders to keep for each rule.

        Raises:
            ConfigError: The levels need more geo columns than fit.

        """
        formats, layouts = self.formats, {layout.name: layout for layout in LAYOUTS}
        most = max([0, *map(self.size, self.tabulations)])
        if formats["geo"].bits > MAX_BITS or 3 * most >= 2**MAX_BITS:
            raise ConfigError(
                "expected levels with fewer geo columns, or tables with fewer codes, so that places and persons can be "
                f"told apart by numbers of 63 bits, got {', '.join(self.geo_columns)}"
            )
        return Kernel(
            formats=formats,
            encoders={
                name: TableEncoder(one, formats[name], keep_raw=one is PERSONS) for name, one in layouts.items()
            },
            person_class=self.persons.lookup(formats["persons"]),
            person_classes=self.persons.size,
            unit_class=self.units.lookup(formats["units"]),
            region=Lookup(formats["geo"], self._region_digits),
            regions=prod(self.region_radices.values()),
            in_filter=self._state_digits() > 0,
            member_words=member_words(self.persons),
            cuts=tuple(UniverseCut(self.persons.mask(u.persons), u.tau) for u in self.universes),
            digests=ValueDigests(formats["persons"]),
            tabulations=tuple(self._code(t) for t in self.tabulations),
            examples=examples,
        )  # fmt: skip

    def _state_digits(self) -> Array:
        states = self.config.states
        return np.array([0, *(states.index(s) + 1 if s in states else 0 for s in GEO["TABBLKST"].codes)])

    def _region_digits(self, column: Column) -> Array | None:
        """What each code of a geo column adds to the number of a region."""
        names = [*self.region_radices]
        if column.name not in names:
            return None
        place = names.index(column.name)
        digits = np.arange(self.region_radices[column.name]) if place else self._state_digits()
        return digits * prod([*self.region_radices.values()][:place])

    def _code(self, tabulation: Tabulation) -> TabulationCode:
        units, persons, nowhere = (
            self.units_of(tabulation),
            self.persons_of(tabulation),
            self.size(tabulation),
        )
        by_unit = self.units.coarsened(units) * persons.size
        by_unit[~self.units.mask(tabulation.units)] = nowhere
        universe, by_person = None, None
        if tabulation.persons is not None:
            universe, by_person = (
                self.universes.index(self.universe(tabulation)),
                self.persons.coarsened(persons),
            )
            by_person[~self.persons.mask(tabulation.persons)] = nowhere
        return TabulationCode(tabulation.name, nowhere, units.size * persons.size, by_unit, universe, by_person)
