"""The data block of a report: every finished cell, from which the page's script shows other groups and charts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from phsafe.display.html import Html, el
from phsafe.display.numbers import FLAG_TEXT
from phsafe.estimation.estimates import VALUES
from phsafe.estimation.people_counted import interval_command
from phsafe.model.spec import Table
from phsafe.reports.page_controls import full_label
from phsafe.reports.report_subject import Subject
from phsafe.reports.tile_positions import TILES

#: Larger integers are stored as text, because JavaScript would round them.
SAFE_INTEGER = 2**53


def payload(subject: Subject) -> Html:
    """Every cell of the finished tables and what the script needs to name them, as a JSON data block."""
    levels = subject.config.catalog.levels
    document = {
        "tables": {table.name: _table(subject, table) for table in subject.tables},
        "regions": {" ".join(key): name for key, name in subject.regions.items()},
        "iterations": dict(subject.iterations),
        # Iterations that are measured together, and so may be fitted to a common total.
        "together": list(dict.fromkeys("".join(i.code for i in x.iteration_level.iterations) for x in levels)),
        "tiles": {
            " ".join(key): TILES[key[1]] for key in subject.regions if key[0] == "STATE" and key[1] in TILES
        },
        "start": " ".join(subject.start),
        "title": subject.heading,
        "citation": subject.citation,
        "release": subject.release_id,
        "flag": FLAG_TEXT,
        # Empty for tables of the independent method, which has no joint fit.
        "interval": interval_command(subject.estimates),
    }  # fmt: skip
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    # Only these characters could end the script element or open another; escaped, the JSON means the same.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return el("script", Html(text), type="application/json", id="data")


def _table(subject: Subject, table: Table) -> dict[str, Any]:
    frame = subject.estimates.tables[table.name]
    groups: dict[str, dict[int, list[float | str]]] = {}
    columns = ("REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CELL", *VALUES)
    for region_type, region, iteration, line, *values in frame.select(columns).iter_rows():
        groups.setdefault(f"{region_type} {region} {iteration}", {})[line] = list(_safe(values))
    return {
        "title": table.title,
        "average": table.average is not None,
        "lines": [[line.number, line.label, full_label(table, line)] for line in table.shell],
        "groups": {group: [cells.get(line.number) for line in table.shell] for group, cells in groups.items()},
    }


def _safe(values: Iterable[float]) -> Iterable[float | str]:
    """Values that JavaScript reads exactly: integers that it would round become text."""
    return (str(value) if isinstance(value, int) and abs(value) > SAFE_INTEGER else value for value in values)
