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
from phsafe.counting.rules import COUNTED, PRESENT, MemberTables
from phsafe.counting.truncate import OrderDigests, UniverseCut
from phsafe.errors import ConfigError
from phsafe.levels import Iteration, Level
from phsafe.schema import GEO, KEY, LAYOUTS, PERSONS, UNITS, Column
from phsafe.spec import Tabulation

#: Columns in the order in which they are packed: those that are looked up together are side by side. RTYPE comes last,
#: so that the largest of several unit records has the largest RTYPE.
PACKED = {
    "persons": ("RTYPE", "QAGE", "RELSHIP", "CENRACE", "CENHISP"),
    "units": ("FINAL_POP", "NPF", "TEN", "HHRACE", "HHSPAN", "HHT", "HHT2", "CPLT", "RTYPE"),
}
#: A record, and a code, must fit a signed integer of 64 bits.
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

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """All levels that some tabulation is published at."""
        chosen = {level.key for t in self.tabulations for level in self.config.levels_of(t)}
        return tuple(level for level in self.config.catalog.levels if level.key in chosen)

    def universe(self, tabulation: Tabulation) -> Universe:
        """The universe of a person tabulation."""
        assert tabulation.persons is not None
        return Universe(tabulation.persons, self.config.tau[tabulation.name])

    @cached_property
    def universes(self) -> tuple[Universe, ...]:
        """All universes, each once."""
        return tuple(dict.fromkeys(self.universe(t) for t in self.tabulations if t.counts_persons))

    def iterations(self, tabulation: Tabulation) -> tuple[Iteration, ...]:
        """The iterations that a tabulation is published by."""
        levels = self.config.levels_of(tabulation)
        return tuple(dict.fromkeys(i for level in levels for i in level.iteration_level.iterations))

    def iteration_condition(self, tabulation: Tabulation, iteration: Iteration) -> Where:
        """What puts a row in an iteration."""
        by = tabulation.iterate_by
        return iteration.condition(by) if by is not None else Where()

    def _placing(self, tabulation: Tabulation) -> list[Where]:
        """What puts a row in a cell or an iteration."""
        iterations = [self.iteration_condition(tabulation, i) for i in self.iterations(tabulation)]
        return [*tabulation.cells.values(), *iterations]

    def persons_of(self, tabulation: Tabulation) -> Coding:
        """The classes of persons that a tabulation's cells and iterations tell apart."""
        if not tabulation.counts_persons:
            return Coding(())
        return Coding.of(condition.on(PERSONS.names) for condition in self._placing(tabulation))

    def units_of(self, tabulation: Tabulation) -> Coding:
        """The classes of units that a tabulation's cells and iterations tell apart."""
        return Coding.of(condition.on(UNITS.names) for condition in self._placing(tabulation))

    @cached_property
    def persons(self) -> Coding:
        """The classes of persons that any tabulation or rule tells apart."""
        placing = [
            c.on(PERSONS.names) for t in self.tabulations if t.counts_persons for c in self._placing(t)
        ]
        filters = [universe.persons for universe in self.universes]
        return Coding.of([*placing, *filters, *COUNTED.values(), *PRESENT.values()])

    @cached_property
    def units(self) -> Coding:
        """The classes of units that any tabulation tells apart."""
        placing = [c.on(UNITS.names) for t in self.tabulations for c in self._placing(t)]
        return Coding.of([*placing, *(t.units for t in self.tabulations)])

    @cached_property
    def geo_columns(self) -> tuple[str, ...]:
        """The geo columns that tell regions apart, the state first."""
        used = {"TABBLKST", *(c for level in self.levels for c in level.geography.columns)}
        return tuple(name for name in GEO.names if name in used)

    @cached_property
    def region_radices(self) -> dict[str, int]:
        """The digits of a region's number, lowest first, with how many values each has.

        The state's digit is its position in the state filter, from 1, or 0 outside it. The digit of another column is
        its code, so 0 stands for an unknown value.
        """
        state, *others = self.geo_columns
        return {state: 1 + len(self.config.states)} | {name: 1 + domain_size(GEO[name]) for name in others}

    @property
    def regions(self) -> int:
        """How many numbers of regions there are."""
        return prod(self.region_radices.values())

    def size(self, tabulation: Tabulation) -> int:
        """How many codes a tabulation has."""
        return self.regions * self.units_of(tabulation).size * self.persons_of(tabulation).size

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
        formats = self.formats
        if formats["geo"].bits > MAX_BITS or any(self.size(t) >= 2**MAX_BITS for t in self.tabulations):
            raise ConfigError(
                "expected levels with fewer geo columns, or tables with fewer codes, so that places and persons can be "
                f"told apart by numbers of 63 bits, got {', '.join(self.geo_columns)}"
            )
        cuts = [UniverseCut(self.persons.mask(u.persons), u.tau) for u in self.universes]
        return Kernel(
            formats=formats,
            encoders={
                layout.name: TableEncoder.of(
                    layout, formats[layout.name], examples, keep_raw=layout is PERSONS
                )
                for layout in LAYOUTS
            },
            person_class=self.persons.lookup(formats["persons"]),
            person_classes=self.persons.size,
            unit_class=self.units.lookup(formats["units"]),
            region=Lookup.of(formats["geo"], self._region_digit, np.int64),
            regions=self.regions,
            in_filter=self._in_filter(),
            members=MemberTables.of(self.persons),
            cuts=tuple(cuts),
            digests=OrderDigests.of(formats["persons"]),
            tabulations=tuple(self._code(t) for t in self.tabulations),
            examples=examples,
        )

    def _state_digits(self) -> Array:
        states = self.config.states
        return np.array([0, *(states.index(s) + 1 if s in states else 0 for s in GEO["TABBLKST"].codes)])

    def _in_filter(self) -> Array:
        return np.append(self._state_digits() > 0, np.zeros(64, dtype=bool))

    def _region_digit(self, column: Column) -> Array | None:
        radices = self.region_radices
        if column.name not in radices:
            return None
        names = [*radices]
        stride = prod(radices[name] for name in names[: names.index(column.name)])
        digits = self._state_digits() if column.name == names[0] else np.arange(radices[column.name])
        return digits * stride

    def _code(self, tabulation: Tabulation) -> TabulationCode:
        """How the kernel makes the tabulation's code of a row: every digit, or the number that no code reaches."""
        units, persons = self.units_of(tabulation), self.persons_of(tabulation)
        nowhere = self.size(tabulation)
        by_unit = self.units.coarsened(units) * persons.size
        by_unit[~self.units.mask(tabulation.units)] = nowhere
        by_person, universe = None, None
        if tabulation.persons is not None:
            universe = self.universes.index(self.universe(tabulation))
            by_person = self.persons.coarsened(persons)
            by_person[~self.persons.mask(tabulation.persons)] = nowhere
        return TabulationCode(
            tabulation.name, nowhere, units.size * persons.size, by_unit, universe, by_person
        )


def check_columns(plan: Plan, columns: Iterable[str]) -> list[str]:
    """What is wrong with the columns of geo: those that a level needs and that are missing."""
    there = set(columns)
    missing = [name for name in plan.geo_columns if name not in there]
    return [f"geo: column {name} is missing, and a level needs it" for name in missing]


__all__ = ["KEY", "Plan", "Universe", "check_columns"]
