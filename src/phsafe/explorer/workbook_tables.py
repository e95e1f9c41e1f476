"""The sheets “Tables” (the MOE of every table line) and “Group” (the MOE of a population group's averages)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phsafe.configs import line_sums
from phsafe.explorer.figures import Figures
from phsafe.explorer.workbook_levels import HEAD_HEIGHT, Levels
from phsafe.model.exact_numbers import text
from phsafe.privacy_math.margins import Z

if TYPE_CHECKING:
    from xlsxwriter import Workbook

    from phsafe.explorer.workbook import Styles

HEADS = ("Table", "Line", "Label", "Part", "Measured in", "Cells summed")


def tables(book: Workbook, styles: Styles, figures: Figures, levels: Levels) -> None:
    """Write “Tables”: one row per line, or two for the parts of an average, and one column per level."""
    sheet = book.add_worksheet("Tables")
    sheet.write_string(0, 0, "90 % margin of error of every table line", styles.title)
    sheet.set_column(2, 2, 58)
    sheet.set_column(3, 4, 13)
    sheet.set_row(2, HEAD_HEIGHT)
    catalog = figures.config.catalog
    for i, head in enumerate((*HEADS, *(level.label for level in catalog.levels))):
        sheet.write_string(2, i, head, styles.head)
    sheet.set_column(len(HEADS), len(HEADS) + len(catalog.levels), 13)
    sheet.freeze_panes(3, 3)
    row = 3
    for table in catalog.tables:
        for m in line_sums.line_sums(figures.config, table):
            parts = [("count" if m.per is None else "numerator", m.count)]
            parts += [] if m.per is None else [("denominator", m.per)]
            for part, sum_ in parts:
                label = "    " * m.line.indent + m.line.label
                for i, value in enumerate((table.name, str(m.line.number), label, part, sum_.tabulation)):
                    sheet.write_string(row, i, value, styles.text)
                sheet.write_number(row, 5, sum_.cells, styles.whole)
                for i, level in enumerate(catalog.levels):
                    key = (sum_.tabulation, level.key)
                    if key not in levels.rows:
                        continue
                    formula = f'=IF({levels.cell(key, "stated")}>0,{levels.moe(sum_, level.key)},"")'
                    moe = figures.moe(sum_, level.key) if key in figures.rows else ""
                    sheet.write_formula(row, len(HEADS) + i, formula, styles.number, moe)
                row += 1
    sheet.protect()


def group(book: Workbook, styles: Styles, figures: Figures, levels: Levels) -> None:
    """Write “Group”: the user enters the size of a group, and the delta method gives the MOE of its averages."""
    averages = [table for table in figures.config.catalog.tables if table.average is not None]
    if not averages:
        return
    sheet = book.add_worksheet("Group")
    sheet.set_column(0, 0, 52)
    sheet.set_column(1, len(figures.config.catalog.levels), 14)
    sheet.write_string(0, 0, "What the noise means for a group's average", styles.title)
    inputs = (("People in the group", 1520.0), ("Households (or families) in the group", 648.0))
    for row, (label, value) in enumerate(inputs, start=2):
        sheet.write_string(row, 0, label, styles.text)
        sheet.write_number(row, 1, value, styles.input)
        sheet.data_validation(
            row,
            1,
            row,
            1,
            {"validate": "decimal", "criteria": ">", "value": 0, "error_title": "Invalid input"},
        )
    sheet.set_row(6, HEAD_HEIGHT)
    sheet.write_string(4, 0, "Average", styles.text)
    sheet.write_formula(4, 1, "=$B$3/$B$4", styles.number, inputs[0][1] / inputs[1][1])
    sheet.write_string(6, 0, "MOE of the average (total line), by the delta method", styles.head)
    for i, level in enumerate(figures.config.catalog.levels, start=1):
        sheet.write_string(6, i, level.label, styles.head)
    for row, table in enumerate(averages, start=7):
        sheet.write_string(row, 0, f"{table.name}  {table.title}", styles.text)
        total = line_sums.line_sums(figures.config, table)[0]
        assert total.per is not None
        for i, level in enumerate(figures.config.catalog.levels, start=1):
            keys = [(part.tabulation, level.key) for part in (total.count, total.per)]
            if any(key not in levels.rows for key in keys):
                continue
            count, per = (levels.variance(part, level.key) for part in (total.count, total.per))
            on = levels.published((total.count, total.per), level.key)
            noise = f"{count}+$B$5^2*{per}"
            known = all(key in figures.rows for key in keys)
            moe = figures.average_moe(total, level.key, inputs[0][1], inputs[1][1]) if known else ""
            sheet.write_formula(row, i, f'=IF({on},{text(Z)}*SQRT({noise})/$B$4,"")', styles.number, moe)
    sheet.protect()
