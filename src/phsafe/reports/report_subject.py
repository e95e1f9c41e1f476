"""The subject of a report: a release with its finished tables, its budget and any problems found in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from phsafe.configs.config import Config
from phsafe.configs.names import coverage, iteration_names, region_names
from phsafe.display.html import printable
from phsafe.display.numbers import Cell
from phsafe.estimation import Estimates
from phsafe.model.spec import Table
from phsafe.privacy.budgets import Budget, budget
from phsafe.releases.release_folder import Release

#: (region type, region code, iteration code): one population group.
Group = tuple[str, str, str]


@dataclass(frozen=True)
class Subject:
    """A release with its finished tables; `problems` are those that `phsafe check` found."""

    release: Release
    estimates: Estimates
    #: Where the finished tables were read from; None if they were computed for the report.
    folder: Path | None = None
    problems: tuple[str, ...] = ()
    title: str = ""

    @property
    def config(self) -> Config:
        """The config of the release."""
        return self.release.config

    @cached_property
    def budget(self) -> Budget:
        """The budget of that config: every loss and margin of error is recomputed, not read from the release."""
        return budget(self.config)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The finished tables, in the catalog's order."""
        return tuple(t for t in self.config.catalog.tables if t.name in self.estimates.tables)

    @cached_property
    def regions(self) -> Mapping[tuple[str, str], str]:
        """(region type, code) → name, for every region with a finished table, larger geographies first."""
        found = {group[:2] for table in self.tables for group in self.cells(table)}
        return {key: name for key, name in region_names(self.config).items() if key in found}

    @cached_property
    def iterations(self) -> Mapping[str, str]:
        """Code → label, for every iteration with a finished table."""
        found = {group[2] for table in self.tables for group in self.cells(table)}
        return {code: label for code, label in iteration_names(self.config).items() if code in found}

    @cached_property
    def start(self) -> Group:
        """The group that the page shows first."""
        groups = [(*region, code) for region in self.regions for code in self.iterations]
        return next(group for group in groups if any(group in self.cells(table) for table in self.tables))

    def cells(self, table: Table) -> Mapping[Group, Mapping[int, Cell]]:
        """A table's cells by group and line."""
        return self._cells[table.name]

    @cached_property
    def _cells(self) -> Mapping[str, Mapping[Group, Mapping[int, Cell]]]:
        return {table.name: by_group(self.estimates.tables[table.name]) for table in self.tables}

    @property
    def heading(self) -> str:
        """The title of the page."""
        return self.title or self.config.publication.title or "Tables about people in their households"

    @property
    def release_id(self) -> str:
        """The id of the release, safe to show."""
        return printable(self.release.release_id, 80)

    @property
    def citation(self) -> str:
        """How to cite the release."""
        return self.config.publication.cite(self.heading, self.release_id)

    @property
    def places(self) -> str:
        """The area that the release covers, as text."""
        return coverage(self.config)


def by_group(frame: pl.DataFrame) -> dict[Group, dict[int, Cell]]:
    """A finished table as group → line → cell."""
    found: dict[Group, dict[int, Cell]] = {}
    columns = ("REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CELL", "ESTIMATE", "LOWER_90", "UPPER_90")
    for region_type, region, iteration, line, *cell in frame.select(columns).iter_rows():
        found.setdefault((region_type, region, iteration), {})[line] = tuple(cell)
    return found
