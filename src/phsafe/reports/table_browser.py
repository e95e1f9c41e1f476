"""The report section with the finished tables of one population group."""

from __future__ import annotations

from collections.abc import Mapping

from phsafe.display.html import Child, Html, el
from phsafe.display.numbers import FLAG, FLAG_TEXT, NOTHING, Cell, is_wide, rounded_texts, texts
from phsafe.estimation.people_counted import coverage_text, limit_text
from phsafe.model.spec import Line, Table
from phsafe.reports.page_controls import (
    checkbox,
    choice,
    controls,
    group_options,
    region_options,
    table_options,
)
from phsafe.reports.page_elements import section
from phsafe.reports.report_subject import Group, Subject

#: Width of the interval chart, in SVG units.
WIDTH = 100


def browse(subject: Subject) -> Html:
    """The section in which readers choose a region and an iteration to see all tables of that group."""
    region_type, region, iteration = subject.start
    where = f"{subject.regions[region_type, region]}: {subject.iterations[iteration]}"
    return section(
        "tables",
        "Tables",
        el(
            "p",
            f"Each number is an estimate. {coverage_text(subject.estimates)} ",
            el("span", FLAG, class_="mark"),
            f" marks an {FLAG_TEXT}: use the interval. Numbers are rounded to the digits that their interval "
            "supports. ",
            el("a", "How to read the numbers", href="#read"),
        ),
        controls(
            "tables",
            el(
                "div",
                el("label", "Search region, group or line", for_="search"),
                el("input", type="search", id="search", placeholder="children in Wyoming", autocomplete="off"),
                el("ul", id="found", hidden=True, aria_label="Search results"),
                el("p", id="found-count", class_="sr", aria_live="polite"),
                class_="search",
            ),
            choice("Region", "region", region_options(subject), f"{region_type} {region}"),
            choice("Race or ethnicity", "group", group_options(subject), iteration),
            choice("Table", "table", [("", "All tables"), *table_options(subject.tables)], "", long=True),
            checkbox("Show all digits", "digits", "all"),
        ),
        el("noscript", el("p", "Enable JavaScript to choose, compare, add up, chart and download. Without it, this "
                          f"page shows {where} only; tables.xlsx and the CSV files in tables/, which phsafe estimate "
                          "writes, have every region and group.",
                          class_="note")),
        el("p", where, id="where", aria_live="polite"),
        el("p", el("button", "Compare with another region or group", type="button", id="compare-this"), class_="next",
           hidden=True) if len(subject.regions) * len(subject.iterations) > 1 else None,
        *(_card(subject, table, subject.start) for table in subject.tables),
    )  # fmt: skip


def _card(subject: Subject, table: Table, group: Group) -> Html:
    cells = subject.cells(table).get(group)
    return el(
        "article",
        el("h3", el("b", table.name), " ", table.title, id=f"table-{table.name}"),
        el("p", f"Universe: {table.universe}.{limit_text(subject.estimates, table)}", class_="universe"),
        el("p", f"{table.name} is not published for this group.", class_="absent", hidden=cells is not None),
        el(
            "table",
            el("caption", f"{table.name} {table.title}", class_="sr"),
            el(
                "thead",
                el(
                    "tr",
                    el("th", el("span", "Line", class_="sr"), scope="col"),
                    el("th", "Estimate", scope="col", class_="num"),
                    el("th", "90 % interval", scope="col", class_="num"),
                    el("th", el("span", "Chart", class_="sr"), scope="col", class_="chart"),
                ),
            ),
            el("tbody", *_rows(table, cells)),
            hidden=cells is None,
        ),
        class_="card",
        data_table=table.name,
    )


def _rows(table: Table, cells: Mapping[int, Cell] | None) -> list[Html]:
    known = cells or {}
    top = max((upper for _, _, upper in known.values()), default=0) or 1
    return [_row(table, line, known.get(line.number), top) for line in table.shell]


def _row(table: Table, line: Line, cell: Cell | None, top: float) -> Html:
    estimate, interval = rounded_texts(cell, table) if cell is not None else (NOTHING, NOTHING)
    full = texts(cell, table) if cell is not None else (NOTHING, NOTHING)
    wide = cell is not None and is_wide(cell)
    return el(
        "tr",
        el("th", line.label, scope="row", class_=f"i{min(line.indent, 3)}"),
        el("td", _flag(wide), el("span", estimate, title=full[0]), class_="num"),
        el("td", el("span", interval, title=full[1]), class_="num"),
        el("td", _whisker(cell, top), class_="chart"),
        data_line=line.number,
        class_="wide" if wide else None,
    )


def _flag(shown: bool) -> Html:
    """The mark of a cell whose interval is wider than its estimate, with text for screen readers."""
    mark: list[Child] = [el("span", FLAG, aria_hidden="true"), el("span", f"({FLAG_TEXT}) ", class_="sr")]
    return el("a", *mark, href="#read", class_="mark", title=f"{FLAG_TEXT}: use the interval", hidden=not shown)


def _whisker(cell: Cell | None, top: float) -> Html:
    """A bar to the estimate with its interval; hidden from screen readers, because the table gives the numbers."""
    estimate, lower, upper = (round(value / top * WIDTH, 2) for value in cell or (0, 0, 0))
    return el(
        "svg",
        el("rect", x=0, y=3, width=estimate, height=6, class_="track"),
        el("rect", x=lower, y=3, width=round(max(upper - lower, 0.6), 2), height=6, class_="range"),
        el("rect", x=round(estimate - 0.4, 2), y=1, width=0.8, height=10, class_="point"),
        viewBox=f"0 0 {WIDTH} 12",
        preserveAspectRatio="none",
        class_="whisker",
        aria_hidden="true",
    )
