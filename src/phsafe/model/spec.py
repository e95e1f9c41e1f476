"""The types from which `phsafe.model.tables` declares the tables, validated on construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from phsafe.model import table_checks as checks
from phsafe.model.conditions import Where
from phsafe.model.frozen_mapping import FrozenMapping
from phsafe.model.levels import Level
from phsafe.model.tabulation_checks import column_problems, iteration_problems, overlapping_cells, universe_problems

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
        checks.refuse([*checks.name_problems("tabulation", self.name), *checks.cell_problems(self.name, self.cells)])
        # Sensitivities are derived from cells and cached, so cells must stay as they were checked.
        object.__setattr__(self, "cells", FrozenMapping(self.cells))
        checks.refuse(
            [
                *universe_problems(self),
                *column_problems(self),
                *iteration_problems(self),
                *overlapping_cells(self),
            ]
        )

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

    def __post_init__(self) -> None:
        checks.refuse(checks.derived_problems(self))

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Line:
    """A line of a table shell. `of` lists the lines it adds up; it is empty for a basis cell.

    A total adds up lines that are indented below it, and all basis cells there, each once.
    """

    number: int
    label: str
    indent: int = 0
    of: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        checks.refuse(checks.line_problems(self))


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

    def __post_init__(self) -> None:
        checks.refuse(checks.average_problems(self))


@dataclass(frozen=True)
class Table:
    """A published table: title, universe, shell, and the tabulations behind it.

    A table of counts shows one tabulation. A table of averages has two: the numerator and the denominator of
    `average`, either of which may be derived. `truncation` lists the tabulations that measure what the thresholds of
    the table drop. Their budgets are optional, and the shell doesn't depend on them.
    """

    name: str
    title: str
    universe: str
    shell: tuple[Line, ...]
    tabulations: tuple[Tabulation, ...]
    derived: tuple[Derived, ...] = ()
    average: Average | None = None
    truncation: tuple[Tabulation, ...] = ()

    def __post_init__(self) -> None:
        checks.refuse(checks.table_problems(self))

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
        PHSafeError: Names clash, a derived tabulation or an average refers to something that doesn't exist, or the
            catalog is too large; lists every problem.

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
        checks.refuse(checks.catalog_problems(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalog) and (self.tables, self.levels) == (other.tables, other.levels)

    def __hash__(self) -> int:
        return hash((self.tables, tuple(level.key for level in self.levels)))

    def __repr__(self) -> str:
        return f"Catalog({', '.join(table.name for table in self.tables)}; {len(self.levels)} levels)"

    @classmethod
    def load(cls, source: CatalogSource) -> Catalog:
        """Read and check a catalog.

        Args:
            source: A JSON or TOML file in the form that a release's manifest has, a mapping of the same structure, or
                a `Catalog`, which is returned unchanged.

        Returns:
            The catalog.

        Raises:
            PHSafeError: The file can't be read or the catalog is inconsistent; lists every problem.

        Example:
            >>> from phsafe import CENSUS_2020, Catalog
            >>> Catalog.load(CENSUS_2020.to_document()) == CENSUS_2020
            True
        """
        from phsafe.model.catalog_reader import load_catalog  # noqa: PLC0415  (imports this module)

        return source if isinstance(source, Catalog) else load_catalog(source)

    def to_document(self) -> dict[str, Any]:
        """The whole catalog as a JSON document: tables, levels, and the columns and codes that they use.

        Returns:
            A new document; `Catalog.load` reads it, also from a file.

        Example:
            >>> from phsafe import CENSUS_2020
            >>> CENSUS_2020.to_document()["tables"][0]["tabulations"][0]["cells"]
            {'2': {'QAGE': '0-17'}, '3': {'QAGE': '18-115'}}
        """
        from phsafe.model.catalog_writer import catalog_document  # noqa: PLC0415  (imports this module)

        return catalog_document(self)

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
            PHSafeError: An added table or level conflicts with one that exists.
        """
        return Catalog((*self.tables, *tables), (*self.levels, *levels))


#: What calls accept as a catalog: a file, a document or a `Catalog`.
CatalogSource = str | Path | Mapping[str, Any] | Catalog
