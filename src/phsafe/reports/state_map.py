"""The report section that compares one figure across states on a tile map, or across iterations, with intervals."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from phsafe.display.html import Html, el, join
from phsafe.display.numbers import Cell, is_wide, texts
from phsafe.model.spec import Line, Table
from phsafe.reports.page_elements import section
from phsafe.reports.report_subject import Subject
from phsafe.reports.table_browser import flag, iteration_name, whisker
from phsafe.reports.tile_positions import TILES

#: Number of shades on the map; each is used for about the same number of states.
SHADES = 5
STATE = "STATE"
#: With fewer states than this, a list is clearer than a map.
MIN_MAP_STATES = 8
#: Name, state code (empty for an iteration) and cell of each row.
Rows = Sequence[tuple[str, str, Cell]]


def comparison(subject: Subject) -> Html | None:
    """The section, or None if there is nothing to compare."""
    measures = _measures(subject)
    table, line = measures[0]
    iteration = subject.start[2]
    states = _by_state(subject, table, line, iteration)
    if len(states) > 1:
        return _map(subject, measures, states)
    groups = [
        (iteration_name(code, label), "", subject.cells(table)[*subject.start[:2], code][line.number])
        for code, label in subject.iterations.items()
        if (*subject.start[:2], code) in subject.cells(table)
    ]
    if len(groups) < 2:
        return None
    where = subject.regions[subject.start[:2]]
    return section(
        "map",
        "One figure by race and ethnicity",
        el("p", f"{_title(table, line)}, {where}, with 90 % intervals."),
        _list(table, groups, "Race or ethnicity"),
    )


def _measures(subject: Subject) -> list[tuple[Table, Line]]:
    """The figures to choose from: every line of the averages or, without averages, the total of each table."""
    averages = [(table, line) for table in subject.tables if table.average for line in table.shell]
    return averages or [(table, table.shell[0]) for table in subject.tables]


def _title(table: Table, line: Line) -> str:
    return f"{table.name} {table.title}: {line.label.rstrip(':')}"


def _by_state(subject: Subject, table: Table, line: Line, iteration: str) -> Rows:
    """The name, code and cell of every state."""
    return [
        (name, code, subject.cells(table)[region_type, code, iteration][line.number])
        for (region_type, code), name in subject.regions.items()
        if region_type == STATE and code in TILES and (region_type, code, iteration) in subject.cells(table)
    ]


def _map(subject: Subject, measures: Sequence[tuple[Table, Line]], states: Rows) -> Html:
    table, line = measures[0]
    options = [el("option", _title(t, x), value=f"{t.name} {x.number}") for t, x in measures]
    iterations = [
        el("option", iteration_name(code, label), value=code, selected=code == subject.start[2])
        for code, label in subject.iterations.items()
    ]
    low, high = _ends(states)
    listed = _list(table, states, "State")
    mapped = len(states) >= MIN_MAP_STATES
    return section(
        "map",
        "One figure, state by state",
        el(
            "p",
            "The stronger the blue, the larger the figure. The bar in each tile is the 90 % interval"
            if mapped
            else "Bars are 90 % intervals",
            ", on the same scale for all states; where bars overlap substantially, the ranking of states may be due to "
            "chance. ",
            join(el("span", class_="hatch"), " Hatched: the interval is wider than the estimate.") if mapped else None,
        ),
        el(
            "form",
            el("label", el("span", "Figure"), el("select", *options, name="measure")),
            el("label", el("span", "Race or ethnicity"), el("select", *iterations, name="iteration")),
            class_="choose",
            id="choose-map",
            hidden=True,
        ),
        el(
            "p",
            f"{_title(table, line)} · {subject.iterations[subject.start[2]]}",
            id="map-where",
            aria_live="polite",
        ),
        _tiles(table, states, low, high) if mapped else None,
        el(
            "p",
            f"Scale of the bars: {short(low, table)} to {short(high, table)}.",
            class_="note",
            id="map-scale",
        ),
        el("details", el("summary", "Show as a list"), listed) if mapped else listed,
    )


def _tiles(table: Table, states: Rows, low: float, high: float) -> Html:
    """A tile for each state, roughly where it is on a map."""
    estimates = sorted(cell[0] for _, _, cell in states)
    tiles = []
    for name, code, cell in states:
        shade = bisect_left(estimates, cell[0]) * SHADES // len(estimates)
        link = el(
            "a",
            el("b", TILES[code][0]),
            el("span", short(cell[0], table), class_="value"),
            whisker(cell, low, high),
            el("span", f" {name}", class_="sr"),
            href="#tables",
            data_region=f"{STATE} {code}",
            title=f"{name}: {texts(cell, table)[0]}",
        )
        tiles.append(el("li", link, class_=f"t{code} q{shade}{' wide' if is_wide(cell) else ''}"))
    return el("ul", *tiles, class_="tiles")


def short(value: float, table: Table) -> str:
    """A number short enough for a tile.

    >>> from phsafe.model.tables import PH1, PH3
    >>> short(2.4584, PH1), [short(n, PH3) for n in (950, 12_345, 4_567_890, 39_000_000)]
    ('2.46', ['950', '12k', '4.6M', '39M'])
    """
    if table.average is not None:
        return _half_up(value, 2)
    for unit, letter in ((1_000_000, "M"), (1000, "k")):
        if value >= unit:
            return f"{_half_up(value / unit, 1 if value / unit < 10 else 0)}{letter}"
    return _half_up(value, 0)


def _half_up(value: float, places: int) -> str:
    """Round half up, as the page's script does; Python's format would round half to even."""
    return f"{math.floor(value * 10**places + 0.5) / 10**places:,.{places}f}"


def _ends(rows: Rows) -> tuple[float, float]:
    """The ends of a scale that contains every interval."""
    return min(cell[1] for _, _, cell in rows), max(cell[2] for _, _, cell in rows)


def _list(table: Table, rows: Rows, head: str) -> Html:
    """A list of names, estimates and intervals, all on one scale."""
    low, high = _ends(rows)
    body = []
    for name, code, cell in rows:
        estimate, interval = texts(cell, table)
        body.append(
            el(
                "tr",
                el("th", name, scope="row"),
                el("td", flag(is_wide(cell)), el("span", estimate), class_="num"),
                el("td", interval, class_="num"),
                el("td", whisker(cell, low, high), class_="chart"),
                data_region=f"{STATE} {code}" if code else None,
                class_="wide" if is_wide(cell) else None,
            )
        )
    columns = join(
        el("th", head, scope="col"),
        el("th", "Estimate", scope="col", class_="num"),
        el("th", "90 % interval", scope="col", class_="num"),
        el("th", el("span", "Chart", class_="sr"), scope="col", class_="chart"),
    )
    return el("table", el("thead", el("tr", columns)), el("tbody", *body), class_="list")
