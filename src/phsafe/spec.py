"""What a table is: the types of the declarations in `phsafe.tables`, checked when they are made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from phsafe.conditions import Where
from phsafe.levels import RACE_COLUMNS, Level
from phsafe.schema import PERSONS, UNITS, Column

IterateBy = Literal["person", "householder"]


@dataclass(frozen=True)
class Tabulation:
    """A measured tabulation: who is counted (universe), in which basis cells, iterated by whose race.

    A tabulation with a person filter counts persons, truncated and joined with their unit (algorithm 1 of
    the paper); one without counts units (algorithm 2). `cells` maps a shell line to its condition on one
    joined row; the conditions of a tabulation never overlap. `iterate_by` None means the total only.
    """

    name: str
    cells: Mapping[int, Where]
    persons: Where | None = None
    units: Where = field(default_factory=Where)
    iterate_by: IterateBy | None = "householder"

    def __post_init__(self) -> None:
        if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", self.name):
            raise ValueError(f"expected letters, digits and _ in a tabulation's name, got {self.name!r}")
        if not self.cells:
            raise ValueError(f"{self.name}: expected at least one cell, got none")
        if self.iterate_by not in (None, *RACE_COLUMNS):
            raise ValueError(f"{self.name}: expected {', '.join(RACE_COLUMNS)} or None, got {self.iterate_by!r}")
        _refuse_foreign_columns(self)
        _refuse_overlapping_cells(self)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def counts_persons(self) -> bool:
        """Whether rows are persons (with a truncation threshold) rather than units."""
        return self.persons is not None

    def allows(self, level: Level) -> bool:
        """Whether the tabulation can be published at a level."""
        return self.iterate_by is not None or level.iteration_level.is_total

    @property
    def column_prefix(self) -> str:
        """The name in column headers: ``PH1_NUM``."""
        return self.name.upper()


@dataclass(frozen=True)
class Derived:
    """A tabulation computed from a released one, without privacy loss: cell → the source cells it adds."""

    name: str
    source: str
    cells: Mapping[int, tuple[int, ...]]

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Line:
    """A line of a table shell. `of` lists the lines that it is the sum of; a basis line has none."""

    number: int
    label: str
    indent: int = 0
    of: tuple[int, ...] = ()


@dataclass(frozen=True)
class Average:
    """A table of averages: numerator and denominator tabulations, and what a sane average is.

    `per` maps each line to the denominator line it is divided by. A unit of the universe holds at least
    `at_least` people of the numerator.
    """

    numerator: str
    denominator: str
    per: Mapping[int, int]
    at_least: int


@dataclass(frozen=True)
class Table:
    """A published table: title, universe, shell, and the tabulations behind it."""

    name: str
    title: str
    universe: str
    shell: tuple[Line, ...]
    tabulations: tuple[Tabulation, ...]
    derived: tuple[Derived, ...] = ()
    average: Average | None = None

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def outputs(self) -> tuple[Tabulation | Derived, ...]:
        """The tabulations that are written to files, numerators first."""
        return (*self.derived, *self.tabulations)


class Catalog:
    """The tables and levels of a product, with look-ups. Users may pass their own.

    >>> from phsafe.tables import CENSUS_2020
    >>> [t.name for t in CENSUS_2020.tabulations]
    ['PH1_num', 'PH1_denom', 'PH2', 'PH3', 'PH4', 'PH5_denom', 'PH6', 'PH7', 'PH8_denom']
    >>> [d.name for d in CENSUS_2020.derived]
    ['PH5_num', 'PH8_num']
    """

    def __init__(self, tables: tuple[Table, ...], levels: tuple[Level, ...]) -> None:
        self.tables = tables
        self.levels = levels
        names = [output.name for output in self.outputs]
        keys = [level.key for level in levels]
        for kind, words in (("tabulation", names), ("level", keys)):
            if len(set(words)) != len(words):
                raise ValueError(f"expected every {kind} once, got {', '.join(words)}")
        geographies = {level.geography.region_type: level.geography for level in levels}
        for level in levels:
            if geographies[level.geography.region_type] != level.geography:
                raise ValueError(f"expected one geography of type {level.geography.region_type}, got several")
        for derived in self.derived:
            if derived.source not in names:
                raise ValueError(f"{derived.name}: expected a tabulation as source, got {derived.source!r}")

    @cached_property
    def tabulations(self) -> tuple[Tabulation, ...]:
        """All measured tabulations, in the order of their tables."""
        return tuple(tabulation for table in self.tables for tabulation in table.tabulations)

    @cached_property
    def derived(self) -> tuple[Derived, ...]:
        """All derived tabulations, in the order of their tables."""
        return tuple(derived for table in self.tables for derived in table.derived)

    @cached_property
    def outputs(self) -> tuple[Tabulation | Derived, ...]:
        """All tabulations that are written to files, in the order of their tables."""
        return tuple(output for table in self.tables for output in table.outputs)

    def tabulation(self, name: str) -> Tabulation:
        """The measured tabulation of that name."""
        return next(t for t in self.tabulations if t.name == name)

    def measured(self, output: Tabulation | Derived) -> Tabulation:
        """The measured tabulation behind an output: itself, or the source of a derived one."""
        return output if isinstance(output, Tabulation) else self.tabulation(output.source)

    def levels_of(self, tabulation: Tabulation) -> tuple[Level, ...]:
        """The levels at which a tabulation can be published."""
        return tuple(level for level in self.levels if tabulation.allows(level))

    def extended(self, tables: tuple[Table, ...] = (), levels: tuple[Level, ...] = ()) -> Catalog:
        """This catalog with more tables or levels."""
        return Catalog((*self.tables, *tables), (*self.levels, *levels))


def _refuse_foreign_columns(tabulation: Tabulation) -> None:
    """A filter sees its own record; a cell sees one joined row. RTYPE is in both, so only filters use it."""
    person = {c.name: c for c in PERSONS.columns if c.name != "MAFID"}
    unit = {c.name: c for c in UNITS.columns if c.name != "MAFID"}
    joined = {
        name: column
        for name, column in (unit | person if tabulation.counts_persons else unit).items()
        if name != "RTYPE"
    }
    checks = [("unit filter", tabulation.units, unit)]
    checks += [("person filter", tabulation.persons, person)] if tabulation.persons is not None else []
    checks += [(f"cell {number}", cell, joined) for number, cell in tabulation.cells.items()]
    for name, condition, allowed in checks:
        # Nothing that only looks like one: it could call code.
        if type(condition) is not Where:
            raise TypeError(
                f"{tabulation.name}, {name}: expected a condition of where(), got {type(condition).__name__}"
            )
        foreign = sorted(set(condition.columns) - set(allowed))
        if foreign:
            raise ValueError(
                f"{tabulation.name}, {name}: expected columns of {sorted(allowed)}, got {', '.join(foreign)}"
            )
        _refuse_foreign_codes(f"{tabulation.name}, {name}", condition, allowed)
    if tabulation.iterate_by == "person" and not tabulation.counts_persons:
        raise ValueError(f"{tabulation.name}: a count of units can't iterate by person; use householder")


def _refuse_foreign_codes(place: str, condition: Where, columns: Mapping[str, Column]) -> None:
    for name, codes in condition.terms:
        kind = int if columns[name].is_integer else str
        if not all(isinstance(code, kind) for code in codes):
            raise ValueError(f"{place}: expected codes of {name} as {kind.__name__}, got others")


def _refuse_overlapping_cells(tabulation: Tabulation) -> None:
    """Claim C3: a row falls in at most one cell. Conjunctions overlap unless some column keeps them apart."""
    cells = list(tabulation.cells.items())
    for i, (number, cell) in enumerate(cells):
        for other_number, other in cells[i + 1 :]:
            if cell.overlaps(other):
                raise ValueError(
                    f"{tabulation.name}: cells {number} and {other_number} overlap; a row may fall in one only"
                )
