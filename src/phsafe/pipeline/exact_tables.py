"""Finished tables from exact counts: every line of every table shell, without noise or intervals. Not private."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.estimation.estimates import COLUMNS
from phsafe.estimation.table_lines import basis, counted, ratios
from phsafe.model.levels import Level
from phsafe.model.spec import Table, Tabulation
from phsafe.pipeline.exact_counts import NOT_PRIVATE
from phsafe.releases.file_layout import SEPARATOR
from phsafe.system.atomic_writes import new_folder

Array = NDArray[np.float64]
#: (tabulation, level) → the count of every group and cell; estimates of counts aren't whole.
CellValues = Mapping[tuple[str, str], NDArray[np.int64] | NDArray[np.float64]]
#: The columns of a finished table from exact counts: those of an estimate, up to ESTIMATE.
EXACT_COLUMNS = COLUMNS[:6]


def exact_lines(config: Config, counts: CellValues) -> dict[str, pl.DataFrame]:
    """Return the value of every line of every table that can be computed from the counts.

    Columns are REGION_TYPE, REGION_ID, ITERATION_CODE, CELL, LEVEL and VALUE, which is NaN for an average over no
    households.
    """
    frames = {table.name: list(_lines(config, table, counts)) for table in config.catalog.tables}
    return {name: pl.concat(parts) for name, parts in frames.items() if parts}


def finished_tables(config: Config, counts: grid.Counts) -> dict[str, pl.DataFrame]:
    """Return the tables in the layout and order of `phsafe estimate`, without intervals.

    The average of a group without households is null.
    """
    specs = {table.name: table for table in config.catalog.tables}
    return {name: _finished(config, specs[name], lines) for name, lines in exact_lines(config, counts).items()}


def _finished(config: Config, table: Table, lines: pl.DataFrame) -> pl.DataFrame:
    labels = {line.number: line.label for line in table.shell}
    value = pl.col("VALUE").fill_nan(None)
    ordered = grid.in_file_order(config, lines.rename({"CELL": "DATA_CELL"})).rename({"DATA_CELL": "CELL"})
    return ordered.with_columns(
        LABEL=pl.col("CELL").replace_strict(labels, return_dtype=pl.String),
        ESTIMATE=value.cast(pl.Int64) if table.average is None else value,
    ).select(EXACT_COLUMNS)


def write_finished(tables: Mapping[str, pl.DataFrame], out: Path) -> None:
    """Write a folder with a file for each table, readable by its owner only and marked as not private."""
    with new_folder(out, private=True) as folder:
        (folder / "NOT_PRIVATE").write_text(NOT_PRIVATE)
        for name, frame in tables.items():
            frame.write_csv(folder / f"{name}.csv", separator=SEPARATOR)


def _lines(config: Config, table: Table, counts: CellValues) -> Iterator[pl.DataFrame]:
    catalog = config.catalog
    if (tabulation := counted(table)) is not None:
        for level in config.levels_of(tabulation):
            for line in table.shell:
                cells = basis(catalog, table, tabulation, line.number)
                yield _frame(config, level, line.number, _sums(counts, tabulation, level, cells))
    for ratio in ratios(catalog, table):
        numerator_levels = {level.key for level in config.levels_of(ratio.numerator)}
        for level in config.levels_of(ratio.denominator):
            if level.key not in numerator_levels:
                continue
            units = _sums(counts, ratio.denominator, level, ratio.per)
            for number, indices in ratio.lines:
                cells = tuple(cell for i in indices for cell in ratio.parts[i])
                people = _sums(counts, ratio.numerator, level, cells)
                average = np.divide(people, units, out=np.full(len(units), np.nan), where=units > 0)
                yield _frame(config, level, number, average)


def _sums(counts: CellValues, tabulation: Tabulation, level: Level, cells: Iterable[int]) -> Array:
    """The sum of the given cells in every group of a level."""
    names = list(tabulation.cells)
    by_group = counts[tabulation.name, level.key].reshape(-1, len(names))
    sums: Array = by_group[:, [names.index(cell) for cell in cells]].sum(axis=1).astype(np.float64)
    return sums


def _frame(config: Config, level: Level, number: int, values: Array) -> pl.DataFrame:
    groups = list(level.groups(config.states))
    return pl.DataFrame(
        {
            "REGION_TYPE": [level.geography.region_type] * len(groups),
            "REGION_ID": [region for region, _ in groups],
            "ITERATION_CODE": [iteration.code for _, iteration in groups],
            "CELL": pl.Series([number] * len(groups), dtype=pl.Int64),
            "LEVEL": [level.key] * len(groups),
            "VALUE": values,
        }
    )
