"""All finished tables in one workbook: a cover, notes, and one sheet per table that can be filtered and printed.

A table's sheet has one row per region and race or ethnicity; each line of the shell has three columns, for the estimate
and its interval. Strings are always written as plain text, never as formulas or links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import xlsxwriter

from phsafe.configs.names import coverage, iteration_names
from phsafe.display.numbers import FLAG, FLAG_TEXT, is_wide
from phsafe.estimation.named_tables import named
from phsafe.estimation.people_counted import coverage_text, how_estimated, interval_command, limit_text
from phsafe.estimation.tables_folder import described, product_title, shown_tables
from phsafe.model.spec import Table

if TYPE_CHECKING:
    from phsafe.estimation.estimates import Estimates

COVER, NOTES = "Cover", "Notes"
#: The first row of the body, below the title, the universe, a hint and two header rows.
BODY = 5
KEYS = {"Region": 22, "Race or ethnicity": 34}
VALUES = {"ESTIMATE": "Estimate", "LOWER_90": "Lower 90 %", "UPPER_90": "Upper 90 %"}
#: The width of a number's column, which takes the population of the nation.
NUMBER_WIDTH = 11
#: How a table is printed: on letter paper, landscape, reduced (percent), with this many lines of the shell and rows on
#: a page.
LETTER, MARGIN, SCALE, LINES_A_PAGE, ROWS_A_PAGE = 1, 0.5, 61, 3, 52
#: How many letters of the front pages fit in a line.
LINE_LENGTH = 80
HINT = f"{FLAG} marks an {FLAG_TEXT}: use the interval. The sheet {NOTES} explains intervals. Filter in row {BODY}."
#: Keep the library from turning strings into formulas, links or numbers.
PLAIN = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
#: A font that every program has, or another of the same width, so that pages are the same everywhere.
FONT = {"font_name": "Arial", "font_size": 10}
#: A fixed creation date, so that the same estimates give the same file.
CREATED = datetime(2020, 4, 1)


def write_workbook(estimates: Estimates, path: Path) -> None:
    """Write the workbook. Its bytes depend only on the estimates, not on when it is written."""
    # A copy, because the library changes the properties, and a second workbook would differ.
    with xlsxwriter.Workbook(str(path), PLAIN | {"default_format_properties": dict(FONT)}) as book:
        book.set_properties({"created": CREATED, "title": product_title(estimates.config)})
        formats = _formats(book)
        _write_cover(book.add_worksheet(COVER), estimates, formats)
        _write_notes(book.add_worksheet(NOTES), estimates, formats)
        for table in shown_tables(estimates):
            sheet = book.add_worksheet(table.name)
            frame = named(estimates.config, estimates.tables[table.name])
            whom = limit_text(estimates, table)
            _write_head(sheet, table, whom, formats)
            rows = _write_body(sheet, table, frame, formats)
            _set_up_page(sheet, table, whom, rows)


def _formats(book: Any) -> dict[str, Any]:  # noqa: ANN401
    """Cell formats by purpose. A marked number has the flag in its format, so that it stays a number."""
    counts, averages = "#,##0", "0.00####"
    return {
        "title": book.add_format({"bold": True, "font_size": 16}),
        "head": book.add_format({"bold": True, "text_wrap": True, "valign": "top"}),
        "line": book.add_format({"bold": True, "text_wrap": True, "valign": "top", "left": 1, "bottom": 1}),
        "right": book.add_format({"bold": True, "align": "right", "bottom": 1}),
        "key": book.add_format({"bold": True, "bottom": 1}),
        "link": book.add_format({"font_color": "#1757ad", "underline": 1, "valign": "top"}),
        "name": book.add_format({"shrink": True}),
        "text": book.add_format({"text_wrap": True, "valign": "top"}),
        "False": book.add_format({"num_format": counts}),
        "True": book.add_format({"num_format": averages}),
        "False wide": book.add_format({"num_format": f'"{FLAG} "{counts}', "font_color": "#8a4b00"}),
        "True wide": book.add_format({"num_format": f'"{FLAG} "{averages}', "font_color": "#8a4b00"}),
    }


def _write_pairs(sheet: Any, first: int, rows: Sequence[tuple[str, str]], formats: dict[str, Any]) -> int:  # noqa: ANN401
    """Write names and texts in two columns, and return the next row."""
    for row, (name, text) in enumerate(rows, start=first):
        sheet.write_string(row, 0, name, formats["head"])
        sheet.write_string(row, 1, text, formats["text"])
        sheet.set_row(row, 15 * max(1, -(-len(text) // LINE_LENGTH)))
    return first + len(rows)


def _front_page(sheet: Any) -> None:  # noqa: ANN401
    sheet.set_column(0, 0, 20)
    sheet.set_column(1, 1, 90)
    sheet.hide_gridlines(2)
    sheet.set_landscape()
    sheet.set_paper(LETTER)
    sheet.fit_to_pages(1, 0)


def _write_cover(sheet: Any, estimates: Estimates, formats: dict[str, Any]) -> None:  # noqa: ANN401
    """Write what this is, who publishes it, how to cite it, and the list of sheets."""
    about = estimates.config.publication
    _front_page(sheet)
    sheet.write_string(0, 0, product_title(estimates.config), formats["title"])
    known = {
        "Agency": about.agency, "Date": about.date, "Version": about.version, "Contact": about.contact,
        "Licence": about.licence,
    }  # fmt: skip
    facts = [
        ("Contents", f"Finished tables for {coverage(estimates.config)}, with 90 % intervals."),
        *((name, text) for name, text in known.items() if text),
        ("Cite as", estimates.cite()),
        ("Release", estimates.release_id or "unknown"),
        ("Method", estimates.method),
        ("Intervals", coverage_text(estimates)),
        ("Made with", f"PHSafe {version('phsafe')}"),
    ]
    row = _write_pairs(sheet, 2, facts, formats) + 1
    sheet.write_string(row, 0, "Sheets", formats["head"])
    tables = [(table.name, described(estimates, table)) for table in shown_tables(estimates)]
    _write_pairs(sheet, row + 1, tables, formats)
    for i, (name, _) in enumerate(tables, start=row + 1):
        sheet.write_url(i, 0, f"internal:'{name}'!A1", formats["link"], string=name)


def _write_notes(sheet: Any, estimates: Estimates, formats: dict[str, Any]) -> None:  # noqa: ANN401
    """Write how to read the numbers, and the codes of race and ethnicity."""
    _front_page(sheet)
    sheet.write_string(0, 0, "How to read the tables", formats["title"])
    row = _write_pairs(sheet, 2, list(_reading(estimates)), formats) + 1
    sheet.write_string(row, 0, "Race or ethnicity", formats["head"])
    _write_pairs(sheet, row + 1, list(iteration_names(estimates.config).items()), formats)


def _reading(estimates: Estimates) -> Iterator[tuple[str, str]]:
    """How to read the numbers: what intervals contain, the flag, differences and sums."""
    command = interval_command(estimates)
    yield "Estimates", f"Made by the {estimates.method} method from noisy counts. {how_estimated(estimates)}".strip()
    yield "Intervals", f"{coverage_text(estimates)} Intervals don't account for errors in the census itself."
    yield FLAG, f"An {FLAG_TEXT}: use the interval instead of the estimate, and don't divide by it."
    compute = f"compute its interval: {command} EXPRESSION in a terminal, or estimates.compare in Python"
    yield (
        "Comparing",
        (
            "If two intervals don't overlap, the difference of the two estimates is more than noise. If they overlap, "
            f"{compute if command else 'it could be noise'}."
        ),
    )
    related = " Errors of different cells are related; the interval of the sum, computed in the same way, is narrower."
    yield (
        "Adding up",
        (f"Don't add up the ends of intervals: that gives an interval that is too wide.{related if command else ''}"),
    )


def _write_head(sheet: Any, table: Table, whom: str, formats: dict[str, Any]) -> None:  # noqa: ANN401
    """Write title, universe, hint and two header rows: the lines of the shell, and the three columns of each."""
    sheet.write_string(0, 0, f"{table.name}. {table.title}", formats["title"])
    sheet.write_string(1, 0, f"Universe: {table.universe}.{whom}")
    sheet.write_string(2, 0, HINT)
    for column, (name, width) in enumerate(KEYS.items()):
        sheet.write_string(BODY - 1, column, name, formats["key"])
        sheet.set_column(column, column, width)
    for i, line in enumerate(table.shell):
        first = len(KEYS) + i * len(VALUES)
        label = f"{line.number}. {'  ' * line.indent}{line.label}"
        sheet.merge_range(BODY - 2, first, BODY - 2, first + len(VALUES) - 1, "", formats["line"])
        sheet.write_string(BODY - 2, first, label, formats["line"])
        for j, name in enumerate(VALUES.values()):
            sheet.write_string(BODY - 1, first + j, name, formats["right"])
    sheet.set_column(len(KEYS), _last_column(table), NUMBER_WIDTH)
    sheet.set_row(BODY - 2, 45)
    sheet.freeze_panes(BODY, len(KEYS))


def _last_column(table: Table) -> int:
    return len(KEYS) + len(table.shell) * len(VALUES) - 1


def _write_body(sheet: Any, table: Table, frame: pl.DataFrame, formats: dict[str, Any]) -> list[tuple[str, str]]:  # noqa: ANN401
    """Write one row per region and race or ethnicity, and return the region of every row."""
    columns = {line.number: len(KEYS) + i * len(VALUES) for i, line in enumerate(table.shell)}
    kind = str(table.average is not None)
    groups = frame.group_by("REGION_TYPE", "REGION_ID", "ITERATION_CODE", maintain_order=True)
    regions = []
    for row, ((region_type, region, code), lines) in enumerate(groups, start=BODY):
        regions.append((str(region_type), str(region)))
        sheet.write_string(row, 0, lines["REGION"][0], formats["name"])
        sheet.write_string(row, 1, f"{code}  {lines['RACE_ETHNICITY'][0]}", formats["name"])
        for cell, *values in lines.select("CELL", *VALUES).iter_rows():
            for j, value in enumerate(values):
                marked = j == 0 and is_wide((values[0], values[1], values[2]))
                sheet.write_number(row, columns[cell] + j, value, formats[f"{kind} wide" if marked else kind])
    return regions


def _set_up_page(sheet: Any, table: Table, whom: str, regions: Sequence[tuple[str, str]]) -> None:  # noqa: ANN401
    """Set up filters and printing: no region and no line is split between pages, and each page has its headings."""
    last, wide = _last_column(table), LINES_A_PAGE * len(VALUES)
    sheet.autofilter(BODY - 1, 0, BODY + len(regions) - 1, last)
    sheet.set_landscape()
    sheet.set_paper(LETTER)
    sheet.set_margins(MARGIN, MARGIN, 0.75, 0.6)
    sheet.set_print_scale(SCALE)
    sheet.repeat_rows(BODY - 2, BODY - 1)
    sheet.repeat_columns(0, len(KEYS) - 1)
    sheet.print_across()
    # The title is in the header of every page, so its rows aren't printed.
    sheet.print_area(BODY - 2, 0, BODY + len(regions) - 1, last)
    title, universe = (text[:100].replace("&", "&&") for text in (f"{table.name}. {table.title}", table.universe))
    sheet.set_header(f"&L&B{title}&B. Universe: {universe}&R{FLAG} {FLAG_TEXT}: use the interval")
    sheet.set_footer(f"&L&A&C{whom.strip()}&RPage &P of &N")
    sheet.set_v_pagebreaks(list(range(len(KEYS) + wide, last, wide)))
    sheet.set_h_pagebreaks([BODY + row for row in page_starts(regions)])


def page_starts(regions: Sequence[tuple[str, str]]) -> list[int]:
    """Where pages after the first start, given the region of every row: at a region that the page has no room for.

    >>> page_starts([(str(i), "") for i in range(6) for _ in range(20)])
    [40, 80]
    """
    starts, room, first = [], ROWS_A_PAGE, 0
    for _, rows in groupby(regions):
        length = len(list(rows))
        if length > room and first:
            starts.append(first)
            room = ROWS_A_PAGE
        room -= length
        first += length
    return starts
