"""Reads the document of a catalog, from a file or a manifest. Nothing in it is trusted, and nothing in it is run.

All problems are reported together. Sizes are checked first, so that a hostile document can't use up time or memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from phsafe.errors import CatalogError
from phsafe.model import table_checks as checks
from phsafe.model.catalog_writer import CATALOG_FORMAT, column_codes, column_of
from phsafe.model.code_lists import parse_codes
from phsafe.model.conditions import Code, Where
from phsafe.model.document_files import read_document
from phsafe.model.document_values import DocumentValues, show
from phsafe.model.levels import RACE_COLUMNS, Geography, Iteration, IterationLevel, Level
from phsafe.model.schema import LAYOUTS, PERSONS, UNITS, Column, Layout
from phsafe.model.spec import Average, Catalog, Derived, IterateBy, Line, Table, Tabulation

T = TypeVar("T")

MAX_BYTES = 40_000_000
MAX_PROBLEMS = 100
FIELDS = ("format", "tables", "geographies", "iteration_levels", "levels")


def load_catalog(source: str | Path | Mapping[str, Any]) -> Catalog:
    """Read a catalog from a JSON or TOML file or from a document."""
    if isinstance(source, Mapping):
        return _Reader().catalog(source)
    path = Path(source)
    try:
        return _Reader().catalog(read_document(path, "catalog", MAX_BYTES))
    except CatalogError as error:
        raise CatalogError([f"{path}: {reason}" for reason in error.reasons]) from None


class _Reader(DocumentValues):
    """Reads one document and collects its problems."""

    def __init__(self) -> None:
        super().__init__()
        self.codes_left = checks.MAX_CODES

    def catalog(self, document: Mapping[str, Any]) -> Catalog:
        """Read the document, or raise a `CatalogError` that lists every problem."""
        if document.get("format") != CATALOG_FORMAT:
            raise CatalogError(f"expected a catalog with format {CATALOG_FORMAT}, got {show(document.get('format'))}")
        fields = self.fields("catalog", document, FIELDS, ("columns",))
        checks.refuse(_size_problems(fields))
        self.columns(fields.get("columns", {}))
        tables = [self.table(i, item) for i, item in enumerate(self.items("tables", fields.get("tables")), start=1)]
        levels = self.levels(fields)
        if not self.problems:
            try:
                return Catalog(tuple(t for t in tables if t is not None), levels)
            except CatalogError as error:
                self.problems += error.reasons
        more = len(self.problems) - MAX_PROBLEMS
        raise CatalogError([*self.problems[:MAX_PROBLEMS], *([f"and {more} more problems"] if more > 0 else [])])

    def codes(self, context: str, column: Column, value: object) -> frozenset[Code]:
        """A code list."""
        try:
            codes = parse_codes(column, self.text(context, value))
        except ValueError as error:
            self.problems.append(f"{context}: {error}")
            return frozenset()
        self.codes_left -= len(codes)
        if self.codes_left < 0:
            raise CatalogError(f"expected a catalog of at most {checks.MAX_CODES} codes, got more")
        return codes

    def condition(self, context: str, value: object, *records: Layout) -> Where:
        """A condition: column → codes."""
        terms = []
        for name, codes in sorted(self.typed(context, value, dict, "an object of columns and codes", {}).items()):
            if any(name in record and name != "MAFID" for record in records):
                terms.append((name, self.codes(f"{context}, {name}", column_of(name, *records), codes)))
            else:
                known = (column for record in records for column in record.names if column not in ("MAFID", "RTYPE"))
                self.problems.append(f"{context}: expected columns among {', '.join(known)}, got {show(name)}")
        return Where(tuple(terms))

    def made(self, make: Callable[[], T], context: str = "") -> T | None:
        """Make a declaration, which checks itself; None if there was any problem with it or before it."""
        try:
            return make()
        except CatalogError as error:
            self.problems += [f"{context}{reason}" for reason in error.reasons]
            return None

    def table(self, position: int, value: object) -> Table | None:
        """One table."""
        required, optional = ("name", "title", "universe", "lines", "tabulations"), ("derived", "average", "truncation")
        before = len(self.problems)
        name = value.get("name") if isinstance(value, Mapping) else None
        context = name[:40] if isinstance(name, str) else f"table {position}"
        fields = self.fields(context, value, required, optional)
        lines = [self.line(context, item) for item in self.items(f"{context}, lines", fields.get("lines"))]
        given = self.items(f"{context}, tabulations", fields.get("tabulations"))
        tabulations = [self.tabulation(f"{context}, tabulation {i}", item) for i, item in enumerate(given, start=1)]
        thresholds = {t.name: t for t in tabulations if t is not None}
        beyond = self.items(f"{context}, truncation", fields.get("truncation"))
        truncation = [
            self.tabulation(f"{context}, truncation {i}", item, thresholds) for i, item in enumerate(beyond, start=1)
        ]
        derived = [self.derived(context, item) for item in self.items(f"{context}, derived", fields.get("derived"))]
        average = self.average(f"{context}, average", fields["average"]) if "average" in fields else None
        title, universe = (self.text(f"{context}, {n}", fields.get(n)) for n in ("title", "universe"))
        text_name = self.text(f"{context}, name", name)
        if len(self.problems) > before:
            return None
        return self.made(
            lambda: Table(
                text_name,
                title,
                universe,
                tuple(line for line in lines if line is not None),
                tuple(t for t in tabulations if t is not None),
                tuple(d for d in derived if d is not None),
                average,
                tuple(t for t in truncation if t is not None),
            )
        )

    def line(self, table: str, value: object) -> Line | None:
        """One line of a shell."""
        fields = self.fields(f"{table}, lines", value, ("line", "label"), ("indent", "adds"))
        number = self.number(f"{table}, line", fields.get("line"))
        context = f"{table}, line {number}"
        label = self.text(f"{context}, label", fields.get("label"))
        indent = self.number(f"{context}, indent", fields.get("indent"))
        adds = self.numbers(f"{context}, adds", fields.get("adds"))
        return self.made(lambda: Line(number, label, indent, adds), f"{table}, ")

    def tabulation(
        self, context: str, value: object, thresholds: Mapping[str, Tabulation] | None = None
    ) -> Tabulation | None:
        """One measured tabulation; with `thresholds`, one that measures what a threshold of these drops."""
        before = len(self.problems)
        required = ("name", "cells") if thresholds is None else ("name", "cells", "beyond")
        fields = self.fields(context, value, required, ("persons", "units", "iterate_by"))
        name = self.text(f"{context}, name", fields.get("name"))
        label = name[:40] or context
        records = (PERSONS, UNITS) if "persons" in fields else (UNITS,)
        iterate_by = self.text(f"{label}, iterate_by", fields.get("iterate_by", "householder"))
        given: dict[str, Any] = {
            "cells": self.by_line(f"{label}, cell", fields.get("cells"), lambda c, v: self.condition(c, v, *records)),
            "persons": self.condition(f"{label}, persons", fields["persons"], PERSONS) if "persons" in fields else None,
            "units": self.condition(f"{label}, units", fields.get("units"), UNITS),
            "iterate_by": None if iterate_by == "none" else cast(IterateBy, iterate_by),
        }
        if thresholds is not None and "beyond" in fields:
            beyond = self.text(f"{label}, beyond", fields["beyond"])
            given["beyond"] = thresholds.get(beyond)
            if given["beyond"] is None:
                self.problems.append(
                    f"{label}, beyond: expected a tabulation of the table "
                    f"({checks.listed(thresholds) or 'it has none'}), got {show(beyond)}"
                )
        return self.made(lambda: Tabulation(name, **given)) if len(self.problems) == before else None

    def derived(self, table: str, value: object) -> Derived | None:
        """One derived tabulation."""
        fields = self.fields(f"{table}, derived", value, ("name", "source", "cells"))
        name, source = (self.text(f"{table}, derived, {n}", fields.get(n)) for n in ("name", "source"))
        cells = self.by_line(f"{name[:40] or table}, cell", fields.get("cells"), self.numbers)
        return self.made(lambda: Derived(name, source, cells))

    def average(self, context: str, value: object) -> Average | None:
        """The averages of a table."""
        fields = self.fields(context, value, ("numerator", "denominator", "per", "at_least"))
        numerator, denominator = (self.text(f"{context}, {n}", fields.get(n)) for n in ("numerator", "denominator"))
        per = self.by_line(f"{context}, per", fields.get("per"), self.number)
        at_least = self.number(f"{context}, at_least", fields.get("at_least"))
        return self.made(lambda: Average(numerator, denominator, per, at_least), f"{context}: ")

    def levels(self, fields: Mapping[str, Any]) -> tuple[Level, ...]:
        """The levels, which name geographies and iteration levels."""
        before = len(self.problems)
        geographies = [self.geography(item) for item in self.items("geographies", fields.get("geographies"))]
        given = self.items("iteration_levels", fields.get("iteration_levels"))
        iteration_levels = [self.iteration_level(item) for item in given]
        if len(self.problems) > before:
            return ()
        known: dict[str, Level] = {}
        for geography in geographies:
            for iteration_level in iteration_levels:
                assert geography is not None
                assert iteration_level is not None
                level = Level(geography, iteration_level)
                if level.key in known:
                    self.problems.append(f"levels: expected distinct keys, got {level.key} more than once")
                known[level.key] = level
        chosen = self.texts("levels", fields.get("levels"))
        unknown = [key[:40] for key in chosen if key not in known]
        if unknown:
            self.problems.append(
                f"levels: expected a geography with an iteration level, such as {checks.listed(known)}, "
                f"got {checks.listed(unknown)}"
            )
            return ()
        levels = tuple(known[key] for key in chosen)
        unused = [g.key for g in geographies if g is not None and g not in {level.geography for level in levels}]
        unused += [i.key for i in iteration_levels if i not in {level.iteration_level for level in levels} and i]
        if unused:
            self.problems.append(
                f"levels: expected every geography and iteration level in a level, got none for {checks.listed(unused)}"
            )
        return levels

    def geography(self, value: object) -> Geography | None:
        """One geography."""
        required = ("key", "label", "region_type", "columns", "regions")
        fields = self.fields("geographies", value, required, ("covers", "puerto_rico"))
        key, label, region_type = (self.text(f"geographies, {n}", fields.get(n)) for n in required[:3])
        context = key[:40] or "geographies"
        columns = self.texts(f"{context}, columns", fields.get("columns"))
        given = self.typed(f"{context}, regions", fields.get("regions"), dict, "an object of codes and names", {})
        regions = tuple((str(code), self.text(f"{context}, regions", name)) for code, name in given.items())
        covers, puerto_rico = (self.flag(f"{context}, {n}", fields.get(n, True)) for n in ("covers", "puerto_rico"))
        return self.made(lambda: Geography(key, label, region_type, columns, regions, covers, puerto_rico))

    def iteration_level(self, value: object) -> IterationLevel | None:
        """One iteration level."""
        fields = self.fields("iteration_levels", value, ("key", "label", "covers", "iterations"))
        key, label = (self.text(f"iteration_levels, {n}", fields.get(n)) for n in ("key", "label"))
        context = key[:40] or "iteration_levels"
        covers = self.flag(f"{context}, covers", fields.get("covers"))
        iterations = [
            self.iteration(context, i) for i in self.items(f"{context}, iterations", fields.get("iterations"))
        ]
        made = tuple(iteration for iteration in iterations if iteration is not None)
        return self.made(lambda: IterationLevel(key, label, made, covers)) if len(made) == len(iterations) else None

    def iteration(self, level: str, value: object) -> Iteration | None:
        """One iteration."""
        before = len(self.problems)
        fields = self.fields(f"{level}, iterations", value, ("code", "label"), ("races", "ethnicities"))
        code, label = (self.text(f"{level}, iterations, {n}", fields.get(n)) for n in ("code", "label"))
        context = f"iteration {code[:40]}"
        columns = dict(zip(("races", "ethnicities"), RACE_COLUMNS["person"], strict=True))
        codes = {
            name: self.codes(f"{context}, {name}", PERSONS[column], fields[name]) if name in fields else None
            for name, column in columns.items()
        }
        return self.made(lambda: Iteration(code, label, **cast(Any, codes))) if len(self.problems) == before else None

    def columns(self, value: object) -> None:
        """The columns and codes that the catalog was made for must be those of this version."""
        layouts = {layout.name: layout for layout in LAYOUTS}
        for record, columns in self.fields("columns", value, (), layouts).items():
            for name, given in self.typed(f"columns, {record}", columns, dict, "an object of columns", {}).items():
                fields = self.fields(f"columns, {record}, {str(name)[:40]}", given, ("label", "codes"))
                layout = layouts.get(record)
                own = column_codes(layout[name]) if layout is not None and name in layout else "no such column"
                if fields.get("codes") != own:
                    self.problems.append(
                        f"columns, {record}, {str(name)[:40]}: expected the codes that this version of PHSafe has "
                        f"({own[:60]}), got {show(fields.get('codes'))}"
                    )


def _size_problems(document: Mapping[str, Any]) -> Iterable[str]:
    """Refuse a document that is too large to be read, before anything in it is compared with everything else."""
    tables = [t for t in _list(document.get("tables")) if isinstance(t, Mapping)]
    outputs = [
        o
        for t in tables
        for part in ("tabulations", "derived", "truncation")
        for o in _list(t.get(part))
        if isinstance(o, Mapping)
    ]
    sizes = {
        "tables": (len(_list(document.get("tables"))), checks.MAX_TABULATIONS),
        "tabulations": (len(outputs), checks.MAX_TABULATIONS),
        "lines": (sum(len(_list(t.get("lines"))) for t in tables), checks.MAX_ALL_CELLS),
        "cells": (sum(len(o["cells"]) for o in outputs if isinstance(o.get("cells"), Mapping)), checks.MAX_ALL_CELLS),
        **{part: (len(_list(document.get(part))), checks.MAX_LEVELS) for part in FIELDS[2:]},
    }
    for what, (size, most) in sizes.items():
        if size > most:
            yield f"expected a catalog of at most {most} {what}, got {size}"


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
