"""One figure across states on a tile map, or across iterations where there are no states, with its uncertainty."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from phsafe.display.html import Html, el, join
from phsafe.display.numbers import Cell, is_wide, texts
from phsafe.reporting.browse import flag, iteration_name, whisker
from phsafe.reporting.parts import section
from phsafe.reporting.subject import Subject
from phsafe.reporting.tiles import TILES
from phsafe.spec import Line, Table

#: Shades of the map: each holds about the same number of states.
SHADES = 5
STATE = "STATE"
#: So many states make a map.
ENOUGH = 8
#: Name, code of the state (none: no state) and cell of each row.
Rows = Sequence[tuple[str, str, Cell]]


def atlas(subject: Subject) -> Html | None:
    """The section, or None where there is nothing to compare."""
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
        "One figure at a glance",
        el("p", f"{_title(table, line)}, {where}, by race and ethnicity, with 90 % intervals."),
        _list(table, groups, "Race or ethnicity"),
    )


def _measures(subject: Subject) -> list[tuple[Table, Line]]:
    """What the map can show: all lines of averages; totals of counts where there are no averages."""
    averages = [(table, line) for table in subject.tables if table.average for line in table.shell]
    return averages or [(table, table.shell[0]) for table in subject.tables]


def _title(table: Table, line: Line) -> str:
    return f"{table.name} {table.title}: {line.label.rstrip(':')}"


def _by_state(subject: Subject, table: Table, line: Line, iteration: str) -> Rows:
    """The map's rows."""
    return [
        (name, code, subject.cells(table)[kind, code, iteration][line.number])
        for (kind, code), name in subject.regions.items()
        if kind == STATE and code in TILES and (kind, code, iteration) in subject.cells(table)
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
    # A few tiles are no map; a list says it better.
    mapped = len(states) >= ENOUGH
    return section(
        "map",
        "One figure, state by state",
        el(
            "p",
            "The bluer, the more. The bar in each tile is the 90 % interval" if mapped else "Bars are 90 % intervals",
            ", on one scale for all states; where bars overlap much, the order of states is a matter of chance. ",
            join(el("span", class_="hatch"), " Hatched: interval wider than the estimate.") if mapped else None,
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
        el("details", el("summary", "The same as a list"), listed) if mapped else listed,
    )


def _tiles(table: Table, states: Rows, low: float, high: float) -> Html:
    """A tile for each state, about where it is on a map."""
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
    """A number that fits a tile.

    >>> from phsafe.tables import PH1, PH3
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
    """Rounded as the page's script does it, which knows no halves to even."""
    return f"{math.floor(value * 10**places + 0.5) / 10**places:,.{places}f}"


def _ends(rows: Rows) -> tuple[float, float]:
    """The scale that holds every interval."""
    return min(cell[1] for _, _, cell in rows), max(cell[2] for _, _, cell in rows)


def _list(table: Table, rows: Rows, head: str) -> Html:
    """Names, estimates and intervals, all on one scale."""
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
