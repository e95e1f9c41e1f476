"""All finished tables in one workbook, laid out like the published product.

There is one sheet per table and one row per region and iteration; each line of the shell has three columns, for the
estimate and its interval. Strings are always written as plain text, never as formulas or links.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import xlsxwriter

from phsafe.configs.names import iteration_names, region_names
from phsafe.model.spec import Table

if TYPE_CHECKING:
    from phsafe.estimation.estimates import Estimates

#: The first row of the body, below the title, the universe, a note and two header rows.
BODY = 5
KEYS = ("Region", "Iteration")
VALUES = {"ESTIMATE": "Estimate", "LOWER_90": "Lower 90 %", "UPPER_90": "Upper 90 %"}
NOTE = (
    "Estimates ({method} method) with 90 % credible intervals. The intervals account for the noise that protects "
    "privacy{truncation}, not for {without}errors in the census itself.{about}"
)
#: Keep the library from turning strings into formulas, links or numbers.
PLAIN = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
#: A fixed creation date, so that the same estimates give the same file.
CREATED = datetime(2020, 4, 1)


def write_workbook(estimates: Estimates, path: Path) -> None:
    """Write the workbook. Its bytes depend only on the estimates, not on when it is written."""
    regions = region_names(estimates.config)
    iterations = {code: f"{code}  {label}" for code, label in iteration_names(estimates.config).items()}
    with xlsxwriter.Workbook(str(path), PLAIN) as book:
        book.set_properties({"created": CREATED})
        head = book.add_format({"bold": True, "text_wrap": True, "valign": "top"})
        number = {
            False: book.add_format({"num_format": "#,##0"}),
            True: book.add_format({"num_format": "0.00####"}),
        }
        for table in estimates.config.catalog.tables:
            if table.name in estimates.tables:
                sheet = book.add_worksheet(table.name)
                _write_head(sheet, table, head, _note(estimates))
                frame = estimates.tables[table.name].with_columns(
                    Region=pl.struct("REGION_TYPE", "REGION_ID").map_elements(
                        lambda key: regions[key["REGION_TYPE"], key["REGION_ID"]], return_dtype=pl.String
                    ),
                    Iteration=pl.col("ITERATION_CODE").replace_strict(iterations),
                )
                _write_body(sheet, table, frame, number[table.average is not None])


def _note(estimates: Estimates) -> str:
    """What the intervals account for."""
    about = estimates.diagnostics.get("truncation", {}).get("about", "")
    return NOTE.format(
        method=estimates.method,
        truncation=" and for the truncation of large households" if about else "",
        without="" if about else "the truncation of large households or for ",
        about=f" {about}" if about else "",
    )


def _write_head(sheet: Any, table: Table, bold: Any, note: str) -> None:  # noqa: ANN401
    """Write title, universe, note and two header rows: the lines of the shell, and the three columns of each."""
    sheet.write_string(0, 0, f"{table.name}. {table.title}", bold)
    sheet.write_string(1, 0, f"Universe: {table.universe}")
    sheet.write_string(2, 0, note)
    for column, name in enumerate(KEYS):
        sheet.write_string(BODY - 1, column, name, bold)
    for i, line in enumerate(table.shell):
        first = len(KEYS) + i * len(VALUES)
        sheet.write_string(BODY - 2, first, f"{line.number}. {line.label}", bold)
        for j, name in enumerate(VALUES.values()):
            sheet.write_string(BODY - 1, first + j, name, bold)
    sheet.set_column(0, 1, 30)
    sheet.set_column(2, 1 + len(table.shell) * len(VALUES), 13)
    sheet.set_row(BODY - 2, 45)
    sheet.freeze_panes(BODY, len(KEYS))


def _write_body(sheet: Any, table: Table, frame: pl.DataFrame, number: Any) -> None:  # noqa: ANN401
    """Write one row per region and iteration."""
    columns = {line.number: len(KEYS) + i * len(VALUES) for i, line in enumerate(table.shell)}
    groups = frame.group_by("REGION_TYPE", "REGION_ID", "ITERATION_CODE", maintain_order=True)
    for row, (_, lines) in enumerate(groups, start=BODY):
        for column, name in enumerate(KEYS):
            sheet.write_string(row, column, lines[name][0])
        for cell, *values in lines.select("CELL", *VALUES).iter_rows():
            for j, value in enumerate(values):
                sheet.write_number(row, columns[cell] + j, value, number)
