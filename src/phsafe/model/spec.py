"""The types from which `phsafe.model.tables` declares the tables, validated on construction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from phsafe.model.conditions import Where
from phsafe.model.levels import RACE_COLUMNS, Level
from phsafe.model.spec_checks import refuse_foreign_columns, refuse_other_universe, refuse_overlapping_cells

IterateBy = Literal["person", "householder"]
Kind = Literal["persons", "units", "dropped", "oversized"]


@dataclass(frozen=True)
class Tabulation:
    """A measured tabulation: its universe, its basis cells, and whose race and ethnicity it is iterated by.

    With a person filter (`persons`) it counts persons, truncated and joined with their unit (algorithm 1 of the
    paper); without one it counts units (algorithm 2). `cells` maps a line of the table shell to a condition on one
    joined row; the cells of a tabulation don't overlap. With `iterate_by` None it is published for the total
    population only.

    `beyond` makes it a measurement of what the threshold of another tabulation drops: with the person filter of that
    tabulation it counts the persons dropped, by attributes of the person and public geography alone, without their
    unit (claim C14); without a person filter it counts oversized units, those with dropped persons (claim C15).
    """

    name: str
    cells: Mapping[int, Where]
    persons: Where | None = None
    units: Where = field(default_factory=Where)
    iterate_by: IterateBy | None = "householder"
    beyond: Tabulation | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", self.name):
            raise ValueError(f"expected a tabulation name of letters, digits and _, got {self.name!r}")
        if not self.cells:
            raise ValueError(f"{self.name}: expected at least one cell, got none")
        if self.iterate_by not in (None, *RACE_COLUMNS):
            raise ValueError(
                f"{self.name}: expected iterate_by to be {', '.join(RACE_COLUMNS)} or None, got {self.iterate_by!r}"
            )
        refuse_other_universe(self)
        refuse_foreign_columns(self)
        refuse_overlapping_cells(self)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def kind(self) -> Kind:
        """What it counts: persons up to a threshold, units, dropped persons, or oversized households."""
        if self.beyond is None:
            return "persons" if self.counts_persons else "units"
        return "dropped" if self.counts_persons else "oversized"

    @property
    def counts_persons(self) -> bool:
        """Whether it counts persons rather than units."""
        return self.persons is not None

    @property
    def is_truncated(self) -> bool:
        """Whether it counts persons up to a truncation threshold of its own."""
        return self.kind == "persons"

    @property
    def threshold(self) -> str:
        """The tabulation whose truncation threshold τ applies. A tabulation of units names itself and has none."""
        return self.name if self.beyond is None else self.beyond.name

    def allows(self, level: Level) -> bool:
        """Whether the tabulation can be published at a level."""
        return self.iterate_by is not None or level.iteration_level.is_total

    @property
    def column_prefix(self) -> str:
        """The name in column headers, such as ``PH1_NUM``."""
        return self.name.upper()


@dataclass(frozen=True)
class Derived:
    """A tabulation computed from a measured one, without privacy loss. `cells` maps each cell to the cells it adds."""

    name: str
    source: str
    cells: Mapping[int, tuple[int, ...]]

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Line:
    """A line of a table shell. `of` lists the lines it adds up; it is empty for a basis cell."""

    number: int
    label: str
    indent: int = 0
    of: tuple[int, ...] = ()


@dataclass(frozen=True)
class Average:
    """The averages of a table: numerator and denominator tabulations, and the fewest people a unit can have.

    `per` maps each line to the denominator line it is divided by. Every unit of the universe has at least
    `at_least` people of the numerator.
    """

    numerator: str
    denominator: str
    per: Mapping[int, int]
    at_least: int


@dataclass(frozen=True)
class Table:
    """A published table: title, universe, shell, and the tabulations behind it.

    `truncation` lists the tabulations that measure what the thresholds of the table drop. Their budgets are optional,
    and the shell doesn't depend on them.
    """

    name: str
    title: str
    universe: str
    shell: tuple[Line, ...]
    tabulations: tuple[Tabulation, ...]
    derived: tuple[Derived, ...] = ()
    average: Average | None = None
    truncation: tuple[Tabulation, ...] = ()

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def outputs(self) -> tuple[Tabulation | Derived, ...]:
        """The tabulations that are written to files: numerators first, what truncation drops last."""
        return (*self.derived, *self.tabulations, *self.truncation)


class Catalog:
    """The tables and levels of a data product. `CENSUS_2020` is the one of the 2020 Census; you can define your own.

    Args:
        tables: The tables, in the order in which their files are written.
        levels: The population group levels at which they can be published.

    Raises:
        ValueError: Two tabulations or levels have the same name, two geographies the same region type, or a derived
            tabulation or one of what truncation drops has an unknown source.

    Example:
        >>> from phsafe import CENSUS_2020
        >>> [t.name for t in CENSUS_2020.tabulations][:9]
        ['PH1_num', 'PH1_denom', 'PH2', 'PH3', 'PH4', 'PH5_denom', 'PH6', 'PH7', 'PH8_denom']
        >>> [t.name for t in CENSUS_2020.truncation][:4]
        ['PH1_dropped', 'PH1_oversized', 'PH2_oversized', 'PH3_dropped']
        >>> [d.name for d in CENSUS_2020.derived]
        ['PH5_num', 'PH8_num']
        >>> [level.label for level in CENSUS_2020.levels][3:5]
        ['State × everyone', 'State × race (A–G)']
    """

    def __init__(self, tables: tuple[Table, ...], levels: tuple[Level, ...]) -> None:
        self.tables = tables
        self.levels = levels
        names = [output.name for output in self.outputs]
        keys = [level.key for level in levels]
        for item, listed in (("tabulation", names), ("level", keys)):
            if len(set(listed)) != len(listed):
                raise ValueError(f"expected every {item} once, got {', '.join(listed)}")
        geographies = {level.geography.region_type: level.geography for level in levels}
        for level in levels:
            if geographies[level.geography.region_type] != level.geography:
                raise ValueError(f"expected one geography of region type {level.geography.region_type}, got several")
        for derived in self.derived:
            if derived.source not in names:
                raise ValueError(f"{derived.name}: expected a tabulation as source, got {derived.source!r}")
        for table in tables:
            wrong = [t.name for t in table.tabulations if t.beyond is not None]
            wrong += [t.name for t in table.truncation if t.beyond not in self.tabulations]
            if wrong:
                raise ValueError(
                    f"{table.name}: expected tabulations beyond a threshold of this catalog in truncation and no "
                    f"others there, got {', '.join(wrong)}"
                )

    @cached_property
    def tabulations(self) -> tuple[Tabulation, ...]:
        """All measured tabulations: those behind the tables in table order, then what their truncation drops."""
        return (*(tabulation for table in self.tables for tabulation in table.tabulations), *self.truncation)

    @cached_property
    def truncation(self) -> tuple[Tabulation, ...]:
        """The tabulations of what truncation drops, in table order."""
        return tuple(tabulation for table in self.tables for tabulation in table.truncation)

    @cached_property
    def derived(self) -> tuple[Derived, ...]:
        """All derived tabulations, in table order."""
        return tuple(derived for table in self.tables for derived in table.derived)

    @cached_property
    def outputs(self) -> tuple[Tabulation | Derived, ...]:
        """All tabulations that are written to files: measured and derived ones in table order, then truncation."""
        outputs = [output for table in self.tables for output in table.outputs]
        return (*(output for output in outputs if output not in self.truncation), *self.truncation)

    def table_of(self, output: Tabulation | Derived) -> Table:
        """The table that an output belongs to."""
        return next(table for table in self.tables if output in table.outputs)

    def title(self, output: Tabulation | Derived) -> str:
        """What an output shows, such as ``Dropped persons (PH1)``; the title of its table for others.

        >>> from phsafe import CENSUS_2020
        >>> CENSUS_2020.title(CENSUS_2020.tabulation("PH7_oversized"))
        'Oversized households (PH7)'
        """
        table = self.table_of(output)
        if isinstance(output, Tabulation) and output.beyond is not None:
            return f"{'Dropped persons' if output.counts_persons else 'Oversized households'} ({table.name})"
        return table.title

    def tabulation(self, name: str) -> Tabulation:
        """The measured tabulation with this name."""
        return next(t for t in self.tabulations if t.name == name)

    def measured(self, output: Tabulation | Derived) -> Tabulation:
        """The measured tabulation behind an output: the output itself, or its source if it is derived."""
        return output if isinstance(output, Tabulation) else self.tabulation(output.source)

    def levels_of(self, tabulation: Tabulation) -> tuple[Level, ...]:
        """The levels at which a tabulation can be published."""
        return tuple(level for level in self.levels if tabulation.allows(level))

    def extended(self, tables: tuple[Table, ...] = (), levels: tuple[Level, ...] = ()) -> Catalog:
        """A new catalog with additional tables or levels.

        Raises:
            ValueError: An added table or level conflicts with one that exists.
        """
        return Catalog((*self.tables, *tables), (*self.levels, *levels))
