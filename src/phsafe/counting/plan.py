"""The counting plan of a config: its universes, and how each tabulation assigns a code to a row.

A row's code in a tabulation has three digits: the region of the household, the class of the unit and the class of the
person. Codes distinguish the tabulation's cells and population groups, and nothing finer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from phsafe.configs.config import Config
from phsafe.counting.coding import Coding
from phsafe.counting.encode import TableEncoder
from phsafe.counting.kernel import Kernel, TabulationCode
from phsafe.counting.records import Array, Lookup, RecordFormat, domain_size
from phsafe.counting.rules import MEMBERS
from phsafe.counting.truncate import UniverseCut, ValueDigests
from phsafe.errors import ConfigError, DataError
from phsafe.model.conditions import Where
from phsafe.model.levels import Iteration, Level
from phsafe.model.schema import GEO, LAYOUTS, PERSONS, UNITS, Column
from phsafe.model.spec import Tabulation

#: Columns in packing order. Columns that are looked up together are adjacent. RTYPE of units comes last, so that the
#: largest of several unit records is one with the largest RTYPE.
PACKED = {
    "persons": ("RTYPE", "QAGE", "RELSHIP", "CENRACE", "CENHISP"),
    "units": ("FINAL_POP", "NPF", "TEN", "HHRACE", "HHSPAN", "HHT", "HHT2", "CPLT", "RTYPE"),
}
#: The number of bits that must hold a packed record, and also three times the number of a tabulation's codes.
MAX_BITS = 63


@dataclass(frozen=True)
class Universe:
    """The persons who pass a filter, truncated to τ per household. Tabulations with the same filter and τ share it."""

    persons: Where
    tau: int


@dataclass(frozen=True)
class Plan:
    """What a config asks the kernel to count."""

    config: Config

    @cached_property
    def tabulations(self) -> tuple[Tabulation, ...]:
        """The measured tabulations that have a budget at some level."""
        return tuple(t for t in self.config.catalog.tabulations if self.config.levels_of(t))

    def universe(self, tabulation: Tabulation) -> Universe | None:
        """The truncated universe that a tabulation counts, or counts what is beyond it; None if it counts all units."""
        persons = (tabulation.beyond or tabulation).persons
        return None if persons is None else Universe(persons, self.config.tau[tabulation.threshold])

    def blind_cells(self, tabulation: Tabulation, level: Level) -> tuple[int, ...]:
        """The cells of a level that are counted from persons and public geography alone (claim C17)."""
        blocks = self.config.blocks(tabulation, level) if tabulation.is_truncated else ()
        return tuple(cell for block in blocks if block.is_blind for cell in block.cells)

    @cached_property
    def universes(self) -> tuple[Universe, ...]:
        """The distinct universes of all tabulations."""
        found = dict.fromkeys(map(self.universe, self.tabulations))
        return tuple(universe for universe in found if universe is not None)

    def iteration_condition(self, tabulation: Tabulation, iteration: Iteration) -> Where:
        """The condition for a row to belong to an iteration."""
        return iteration.condition(tabulation.iterate_by) if tabulation.iterate_by is not None else Where()

    def _conditions(self, tabulation: Tabulation, columns: Iterable[str]) -> list[Where]:
        """The conditions of a tabulation's cells and iterations, restricted to some columns."""
        levels = self.config.levels_of(tabulation)
        iterations = dict.fromkeys(i for level in levels for i in level.iteration_level.iterations)
        conditions = [*tabulation.cells.values(), *(self.iteration_condition(tabulation, i) for i in iterations)]
        return [condition.on(set(columns)) for condition in conditions]

    @cached_property
    def persons_of(self) -> dict[str, Coding]:
        """For each tabulation, the classes of persons that its cells and iterations distinguish."""
        return {
            t.name: Coding.of(self._conditions(t, PERSONS.names) if t.counts_persons else ()) for t in self.tabulations
        }

    @cached_property
    def units_of(self) -> dict[str, Coding]:
        """For each tabulation, the classes of units that its cells and iterations distinguish."""
        return {t.name: Coding.of(self._conditions(t, UNITS.names)) for t in self.tabulations}

    @cached_property
    def persons(self) -> Coding:
        """The classes of persons that any tabulation or rule distinguishes."""
        conditions = [c for t in self.tabulations if t.counts_persons for c in self._conditions(t, PERSONS.names)]
        return Coding.of([*conditions, *(universe.persons for universe in self.universes), *MEMBERS.values()])

    @cached_property
    def units(self) -> Coding:
        """The classes of units that any tabulation distinguishes."""
        conditions = [c for t in self.tabulations for c in self._conditions(t, UNITS.names)]
        return Coding.of([*conditions, *(t.units for t in self.tabulations)])

    @cached_property
    def geo_columns(self) -> tuple[str, ...]:
        """The geo columns that identify regions, the state first."""
        levels = [level for t in self.tabulations for level in self.config.levels_of(t)]
        used = {"TABBLKST", *(column for level in levels for column in level.geography.columns)}
        return tuple(name for name in GEO.names if name in used)

    def check_columns(self, columns: Iterable[str]) -> None:
        """Raise `DataError` if geo lacks a column that a level needs."""
        missing = sorted(set(self.geo_columns) - set(columns), key=GEO.names.index)
        if missing:
            raise DataError([f"geo: column {name} is missing, and a level needs it" for name in missing])

    @cached_property
    def region_radices(self) -> dict[str, int]:
        """The radix of each digit of a region's number, by column, lowest digit first.

        The state's digit is its position in the state filter, from 1, or 0 if it is not in the filter. The digit of any
        other column is its code, so 0 means an unknown value.
        """
        state, *others = self.geo_columns
        return {state: 1 + len(self.config.states)} | {name: 1 + domain_size(GEO[name]) for name in others}

    def size(self, tabulation: Tabulation) -> int:
        """The number of codes of a tabulation."""
        classes = self.units_of[tabulation.name].size * self.persons_of[tabulation.name].size
        return prod(self.region_radices.values()) * classes

    @cached_property
    def counted_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns of each table that counts depend on. Truncation orders persons by all their columns."""
        units = (*self.units.columns, "RTYPE")
        return {"persons": PERSONS.names, "units": units, "geo": (*self.geo_columns, "RTYPE")}

    @cached_property
    def formats(self) -> dict[str, RecordFormat]:
        """The packed record format of each table."""
        packed = PACKED | {"geo": self.counted_columns["geo"]}
        return {layout.name: RecordFormat.of(layout, packed[layout.name]) for layout in LAYOUTS}

    def kernel(self, examples: int = 0, *, validates: bool = True) -> Kernel:
        """Compile the plan into a kernel.

        Args:
            validates: Whether to check the rules; if not, columns that nothing counts are not even read.
            examples: How many household keys to keep for each violated rule.

        Raises:
            ConfigError: Codes or geo records do not fit in 63 bits.

        """
        formats = self.formats
        most = max([0, *map(self.size, self.tabulations)])
        if formats["geo"].bits > MAX_BITS or 3 * most >= 2**MAX_BITS:
            raise ConfigError(
                "expected levels with fewer geo columns, or tables with fewer cells, so that regions and cells can be "
                f"numbered with 63 bits, got the geo columns {', '.join(self.geo_columns)}"
            )
        names = {layout.name: layout.names for layout in LAYOUTS} if validates else self.counted_columns
        return Kernel(
            formats=formats,
            encoders={
                one.name: TableEncoder(one, formats[one.name], names[one.name], keep_raw=one is PERSONS)
                for one in LAYOUTS
            },
            person_class=self.persons.lookup(formats["persons"]),
            person_classes=self.persons.size,
            unit_class=self.units.lookup(formats["units"]),
            region=Lookup(formats["geo"], self._region_digits),
            regions=prod(self.region_radices.values()),
            in_filter=self._state_digits() > 0,
            members={name: self.persons.mask(group).astype(np.int32) for name, group in MEMBERS.items()},
            cuts=tuple(UniverseCut(self.persons.mask(u.persons), u.tau) for u in self.universes),
            digests=ValueDigests(formats["persons"]),
            tabulations=tuple(self._code(t) for t in self.tabulations),
            validates=validates,
            examples=examples,
        )  # fmt: skip

    def _state_digits(self) -> Array:
        states = self.config.states
        return np.array([0, *(states.index(s) + 1 if s in states else 0 for s in GEO["TABBLKST"].codes)])

    def _region_digits(self, column: Column) -> Array | None:
        """What each code of a geo column contributes to a region's number."""
        names = [*self.region_radices]
        if column.name not in names:
            return None
        position = names.index(column.name)
        digits = np.arange(self.region_radices[column.name]) if position else self._state_digits()
        return digits * prod([*self.region_radices.values()][:position])

    def _code(self, tabulation: Tabulation) -> TabulationCode:
        name, not_counted = tabulation.name, self.size(tabulation)
        units, persons = self.units_of[name], self.persons_of[name]
        by_unit = self.units.coarsened(units) * persons.size
        by_unit[~self.units.mask(tabulation.units)] = not_counted
        by_person = self.persons.coarsened(persons)
        if tabulation.persons is not None:
            by_person[~self.persons.mask(tabulation.persons)] = not_counted
        universe = self.universe(tabulation)
        position = None if universe is None else self.universes.index(universe)
        per_region = units.size * persons.size
        levels = self.config.levels_of(tabulation)
        blind = any(self.blind_cells(tabulation, level) for level in levels)
        return TabulationCode(name, tabulation.kind, not_counted, per_region, by_unit, by_person, position, blind)
