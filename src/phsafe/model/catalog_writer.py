"""A catalog as a JSON document: the form that manifests hold and that `Catalog.load` reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from phsafe.model.code_lists import codes_text, domain_text
from phsafe.model.conditions import Where
from phsafe.model.levels import RACE_COLUMNS, Geography, Iteration, IterationLevel
from phsafe.model.schema import LAYOUTS, PERSONS, UNITS, Column, Digits, Layout
from phsafe.model.spec import Catalog, Derived, Line, Table, Tabulation

CATALOG_FORMAT = "phsafe-catalog/1"


def catalog_document(catalog: Catalog) -> dict[str, Any]:
    """Return the document of a catalog."""
    geographies = dict.fromkeys(level.geography for level in catalog.levels)
    iteration_levels = dict.fromkeys(level.iteration_level for level in catalog.levels)
    return {
        "format": CATALOG_FORMAT,
        "tables": [_table(table) for table in catalog.tables],
        "geographies": [_geography(geography) for geography in geographies],
        "iteration_levels": [_iteration_level(level) for level in iteration_levels],
        "levels": [level.key for level in catalog.levels],
        "columns": _columns(catalog),
    }


def document_hash(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document as JSON with sorted keys, without spaces, in UTF-8."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _table(table: Table) -> dict[str, Any]:
    average = table.average
    return {
        "name": table.name,
        "title": table.title,
        "universe": table.universe,
        "lines": [_line(line) for line in table.shell],
        "tabulations": [_tabulation(tabulation) for tabulation in table.tabulations],
        **({"derived": [_derived(derived) for derived in table.derived]} if table.derived else {}),
        **({"truncation": [_tabulation(tabulation) for tabulation in table.truncation]} if table.truncation else {}),
        **(
            {
                "average": {
                    "numerator": average.numerator,
                    "denominator": average.denominator,
                    "per": {str(line): per for line, per in average.per.items()},
                    "at_least": average.at_least,
                }
            }
            if average is not None
            else {}
        ),
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "line": line.number,
        "label": line.label,
        **({"indent": line.indent} if line.indent else {}),
        **({"adds": list(line.of)} if line.of else {}),
    }


def _tabulation(tabulation: Tabulation) -> dict[str, Any]:
    """Fields with their default value are left out."""
    return {
        "name": tabulation.name,
        **({"persons": _condition(tabulation.persons, PERSONS)} if tabulation.persons is not None else {}),
        **({"units": _condition(tabulation.units, UNITS)} if tabulation.units != Where() else {}),
        "cells": {str(number): _condition(cell, PERSONS, UNITS) for number, cell in tabulation.cells.items()},
        "iterate_by": tabulation.iterate_by or "none",
        **({"beyond": tabulation.beyond.name} if tabulation.beyond is not None else {}),
    }


def _derived(derived: Derived) -> dict[str, Any]:
    return {
        "name": derived.name,
        "source": derived.source,
        "cells": {str(number): list(cells) for number, cells in derived.cells.items()},
    }


def _condition(condition: Where, *records: Layout) -> dict[str, str]:
    """Column → codes, where a row joins the given records."""
    return {name: codes_text(column_of(name, *records), codes) for name, codes in condition.terms}


def column_of(name: str, *records: Layout) -> Column:
    """The column of the first record that has it."""
    return next(record[name] for record in records if name in record)


def _geography(geography: Geography) -> dict[str, Any]:
    return {
        "key": geography.key,
        "label": geography.label,
        "region_type": geography.region_type,
        "columns": list(geography.columns),
        "covers": geography.covers,
        "puerto_rico": geography.puerto_rico,
        "regions": dict(geography.regions),
    }


def _iteration_level(level: IterationLevel) -> dict[str, Any]:
    return {
        "key": level.key,
        "label": level.label,
        "covers": level.covers,
        "iterations": [_iteration(iteration) for iteration in level.iterations],
    }


def _iteration(iteration: Iteration) -> dict[str, Any]:
    race, ethnicity = (PERSONS[name] for name in RACE_COLUMNS["person"])
    return {
        "code": iteration.code,
        "label": iteration.label,
        **({"races": codes_text(race, iteration.races)} if iteration.races is not None else {}),
        **({"ethnicities": codes_text(ethnicity, iteration.ethnicities)} if iteration.ethnicities is not None else {}),
    }


def _columns(catalog: Catalog) -> dict[str, Any]:
    """The columns that tables and levels read, by record: their labels and codes."""
    used: dict[str, set[str]] = {layout.name: set() for layout in LAYOUTS}
    for tabulation in catalog.tabulations:
        used["units"] |= set(tabulation.units.columns)
        used["persons"] |= set(tabulation.persons.columns) if tabulation.persons is not None else set()
        if tabulation.iterate_by is not None:
            used["persons" if tabulation.iterate_by == "person" else "units"] |= set(
                RACE_COLUMNS[tabulation.iterate_by]
            )
        for cell in tabulation.cells.values():
            for name in cell.columns:
                used["persons" if name in PERSONS else "units"].add(name)
    used["geo"] = {column for level in catalog.levels for column in level.geography.columns}
    return {
        layout.name: {c.name: {"label": c.label, "codes": column_codes(c)} for c in layout.columns if c.name in names}
        for layout, names in zip(LAYOUTS, used.values(), strict=True)
        if names
    }


def column_codes(column: Column) -> str:
    """The codes of a column as text; for geographic codes the number of digits."""
    return f"{column.domain.width} digits" if isinstance(column.domain, Digits) else domain_text(column)
