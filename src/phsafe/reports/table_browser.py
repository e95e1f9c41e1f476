"""The report section with the finished tables of one population group, and the data for switching to others."""

from __future__ import annotations

import json
from collections.abc import Mapping

from phsafe.display.html import Child, Html, el, join
from phsafe.display.numbers import NOTHING, Cell, is_wide, number, texts
from phsafe.model.spec import Line, Table
from phsafe.reports.page_elements import section
from phsafe.reports.report_subject import Group, Subject

#: Larger integers are stored as text in the page's data, because JavaScript would round them.
SAFE_INTEGER = 2**53
#: Width of the interval chart, in SVG units.
WIDTH = 100
FLAG = "△"
FLAG_TEXT = "interval wider than the estimate"


def browse(subject: Subject) -> Html:
    """The section in which readers choose a region and an iteration to see all tables of that group."""
    region_type, region, iteration = subject.start
    regions = [
        el("option", name, value=" ".join(key), selected=key == (region_type, region))
        for key, name in subject.regions.items()
    ]
    iterations = [
        el("option", iteration_name(code, label), value=code, selected=code == iteration)
        for code, label in subject.iterations.items()
    ]
    where = f"{subject.regions[region_type, region]}: {subject.iterations[iteration]}"
    return section(
        "tables",
        "The finished tables",
        el(
            "p",
            f"Estimates with 90 % intervals ({subject.estimates.method} method), from the noisy counts alone. ",
            el("span", FLAG, class_="mark"),
            f" marks an {FLAG_TEXT}: read it as “small” rather than as a number.",
        ),
        el(
            "form",
            el("label", el("span", "Region"), el("select", *regions, name="region")),
            el("label", el("span", "Race or ethnicity"), el("select", *iterations, name="iteration")),
            class_="choose",
            id="choose",
            hidden=True,
        ),
        el(
            "noscript",
            el("p", f"Showing {where}. Enable JavaScript to see other groups.", class_="note"),
        ),
        el("p", where, id="where", aria_live="polite"),
        el("div", *(_card(subject, table, subject.start) for table in subject.tables), class_="cards"),
    )


def iteration_name(code: str, label: str) -> str:
    """The name of an iteration in lists."""
    return label if code == "*" else f"{code}  {label}"


def _card(subject: Subject, table: Table, group: Group) -> Html:
    cells = subject.cells(table).get(group)
    return el(
        "article",
        el("h3", el("b", table.name), " ", table.title),
        el("p", f"Universe: {table.universe}", class_="universe"),
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
    estimate, interval = texts(cell, table) if cell is not None else (NOTHING, NOTHING)
    wide = cell is not None and is_wide(cell)
    return el(
        "tr",
        el("th", line.label, scope="row", class_=f"i{min(line.indent, 3)}"),
        el("td", flag(wide), el("span", estimate), class_="num"),
        el("td", interval, class_="num"),
        el("td", whisker(cell, 0, top), class_="chart"),
        data_line=line.number,
        class_="wide" if wide else None,
    )


def flag(shown: bool) -> Html:
    """The mark of a cell whose interval is wider than its estimate, with text for screen readers."""
    mark: list[Child] = [el("span", FLAG, aria_hidden="true"), el("span", f"({FLAG_TEXT}) ", class_="sr")]
    return el("span", *mark, class_="mark", title=FLAG_TEXT, hidden=not shown)


def whisker(cell: Cell | None, bottom: float, top: float) -> Html:
    """A chart of an interval and its estimate; hidden from screen readers, because the table gives the numbers.

    If the scale starts at zero, a bar extends to the estimate.
    """
    span = (top - bottom) or 1

    def at(value: float) -> float:
        return round((value - bottom) / span * WIDTH, 2)

    estimate, lower, upper = cell or (bottom, bottom, bottom)
    return el(
        "svg",
        el("rect", x=0, y=3, width=WIDTH if bottom else at(estimate), height=6, class_="track"),
        el(
            "rect",
            x=at(lower),
            y=3,
            width=round(max(at(upper) - at(lower), 0.6), 2),
            height=6,
            class_="range",
        ),
        el("rect", x=round(at(estimate) - 0.8, 2), y=1, width=1.6, height=10, class_="point"),
        viewBox=f"0 0 {WIDTH} 12",
        preserveAspectRatio="none",
        class_="whisker",
        aria_hidden="true",
    )


def payload(subject: Subject) -> Html:
    """Every cell of the finished tables, as a JSON data block."""
    document = {
        "tables": {
            table.name: {
                "average": table.average is not None,
                "lines": [line.number for line in table.shell],
                "groups": {
                    " ".join(group): [
                        None if line.number not in cells else [safe(value) for value in cells[line.number]]
                        for line in table.shell
                    ]
                    for group, cells in subject.cells(table).items()
                },
            }
            for table in subject.tables
        },
        "regions": {" ".join(key): name for key, name in subject.regions.items()},
        "iterations": dict(subject.iterations),
        "start": " ".join(subject.start),
    }
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    # Only these characters could end the script element or open another; escaped, the JSON means the same.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return el("script", join(Html(text)), type="application/json", id="data")


def safe(value: float) -> float | str:
    """A value that JavaScript reads exactly: integers that it would round become text."""
    return number(value, 0) if isinstance(value, int) and abs(value) > SAFE_INTEGER else value
