"""Charts of finished tables: all lines for one region, or one line for all regions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from phsafe.configs.names import find_iteration, find_region, iteration_names, region_names
from phsafe.display.charts import Interval, intervals
from phsafe.display.numbers import texts
from phsafe.display.svg import Svg
from phsafe.errors import PHSafeError
from phsafe.model.spec import Line, Table

if TYPE_CHECKING:
    from phsafe.estimation.estimates import Estimates


def lines_of_region(estimates: Estimates, table: Table, region: str | int, iteration: str) -> Svg:
    """Plot all lines of a table for one region."""
    frame, who = estimates.table(table.name, region, iteration), _who(estimates, iteration)
    where = region_names(estimates.config)[find_region(estimates.config, region)]
    rows = [_row(table, row, shown.label, shown.indent) for shown, row in _by_line(table, frame)]
    return intervals(f"{table.name} {table.title}", f"{where}: {who}, with 90 % intervals", _axis(table), rows)


def regions_of_line(estimates: Estimates, table: Table, line: int | None, iteration: str) -> Svg:
    """Plot one line of a table for all regions, largest first."""
    frame, who = estimates.table(table.name, iteration=iteration), _who(estimates, iteration)
    number = table.shell[0].number if line is None else line
    chosen = next((shown for shown in table.shell if shown.number == number), None)
    if chosen is None:
        raise PHSafeError(
            f"line: expected the number of one of the {len(table.shell)} lines of {table.name}, got {line}"
        )
    names = region_names(estimates.config)
    parts = frame.filter(CELL=number).iter_rows(named=True)
    rows = [_row(table, row, names[row["REGION_TYPE"], row["REGION_ID"]]) for row in parts]
    if frame["REGION_TYPE"].n_unique() > 1 and table.average is None:
        # On a scale that fits the nation, the states would be invisible.
        rows = rows[1:]
    rows.sort(key=lambda row: -row.estimate)
    title = f"{table.name} {table.title}: {chosen.label.rstrip(':')}"
    return intervals(title, f"{who}, with 90 % intervals", _axis(table), rows, from_zero=table.average is None)


def _who(estimates: Estimates, iteration: str) -> str:
    return iteration_names(estimates.config)[find_iteration(estimates.config, iteration)]


def _axis(table: Table) -> str:
    return "People" if table.average is None else "Average number of people"


def _by_line(table: Table, frame: pl.DataFrame) -> list[tuple[Line, dict[str, Any]]]:
    rows = {row["CELL"]: row for row in frame.iter_rows(named=True)}
    return [(line, rows[line.number]) for line in table.shell if line.number in rows]


def _row(table: Table, row: Mapping[str, Any], label: str, indent: int = 0) -> Interval:
    cell = (row["ESTIMATE"], row["LOWER_90"], row["UPPER_90"])
    estimate, interval = texts(cell, table)
    return Interval(label, *cell, f"{estimate}  ({interval})", indent)
