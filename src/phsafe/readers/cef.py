"""The Census Edited File as it is: fixed-width units and persons, and blocks between pipes.

A small TOML file names the files (`cef_files`). Lines become columns by queries in the part of SQL that all engines
share; see docs/cef.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeGuard

import pyarrow as pa

from phsafe.errors import DataError
from phsafe.readers.cef_files import BLOCK, BLOCK_KEY, PIPE, STATE, Files, Slices
from phsafe.readers.options import EngineTable, Location, TableReader
from phsafe.readers.tables import Tables
from phsafe.schema import FAMILY, GEO, HOUSING_UNIT, LAYOUTS, PERSONS, UNITS, Layout

#: What stands for "not in universe" where the file has blanks.
BLANKS = {"HHSPAN": "0", "HHRACE": "00"}


def is_cef(data: object, reader: str | None) -> TypeGuard[Location]:
    """Whether a data source is read as a Census Edited File: as the config's reader says, or else by its looks."""
    if isinstance(data, Mapping):
        return False
    named = str(data).endswith(".toml")
    if reader == "cef" and not named:
        raise DataError(
            f"{data}: the config's reader is cef, so expected a TOML file that names the files, got another ending"
        )
    if reader == "csv" and named:
        raise DataError(
            f'{data}: expected a folder with persons, units and geo; to read a Census Edited File, set "reader": "cef" '
            "in the config"
        )
    return named


def load(files: Files, engine: TableReader) -> Tables:
    """Open the tables, or raise a `DataError` with every problem of the files' form."""
    lines = {layout.name: engine.read_lines(files.paths[layout.name]) for layout in LAYOUTS}
    problems = [problem for layout in LAYOUTS for problem in _line_problems(files, layout, lines[layout.name], engine)]
    if problems:
        raise DataError(problems)
    persons = _sliced(engine, lines["persons"], files.slices["persons"], PERSONS)
    homes = _sliced(engine, lines["units"], files.slices["units"], UNITS)
    units = _with_family(engine, homes, persons)
    return Tables({"persons": persons, "units": units, "geo": _located(engine, homes, lines["geo"], files.header)})


def _line_problems(files: Files, layout: Layout, lines: EngineTable, engine: TableReader) -> list[str]:
    """Whether every line has the form of its file; which one doesn't, and how, is not said."""
    if layout is GEO:
        fits = f"length(line) - length(replace(line, '{PIPE}', '')) = {len(files.header) - 1}"
        expected = f"as many values between pipes in every line as in the header ({len(files.header)})"
    else:
        width, (start, end) = files.widths[layout.name], files.slices[layout.name][STATE]
        fits = f"length(line) = {width} AND {_is_digits(_slice(start, end))}"
        expected = f"every line as long as the first ({width}), with a state's two digits at {start}:{end}"
    sql = f"SELECT CAST(count(*) AS BIGINT) AS bad FROM {{lines}} AS l WHERE NOT coalesce({fits}, FALSE)"  # noqa: S608
    bad = engine.fetch(engine.query(sql, {"lines": lines}, pa.schema([("bad", pa.int64())])))
    if not bad["bad"][0].as_py():
        return []
    return [f"{', '.join(map(str, files.paths[layout.name]))}: expected {expected}, got others"]


def _sliced(engine: TableReader, lines: EngineTable, slices: Slices, layout: Layout) -> EngineTable:
    """The columns of a layout that are in lines, and the key of the block."""
    columns = {name: _value(name, _slice(*place), layout) for name, place in slices.items() if name != STATE}
    chosen = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    return engine.query(f"SELECT {chosen} FROM {{lines}} AS l", {"lines": lines}, _schema(columns, layout))  # noqa: S608


def _slice(start: int, end: int) -> str:
    return f"substr(line, {start + 1}, {end - start})"


def _trimmed(text: str) -> str:
    """A text without blanks around it. DuckDB's plain trim removes other white space as well."""
    return f"trim(BOTH ' ' FROM {text})"


def _is_digits(text: str) -> str:
    return f"({text} <> '' AND translate({text}, '0123456789', '') = '')"


def _value(name: str, text: str, layout: Layout) -> str:
    if name == BLOCK:
        return _trimmed(text)
    if name in BLANKS:
        text = f"(CASE WHEN {_trimmed(text)} = '' THEN '{BLANKS[name]}' ELSE {text} END)"
    if not layout[name].is_integer:
        return text
    # Zeros or blanks may come first.
    return f"(CASE WHEN {_is_digits(_trimmed(text))} THEN TRY_CAST({_trimmed(text)} AS INTEGER) END)"


def _with_family(engine: TableReader, homes: EngineTable, persons: EngineTable) -> EngineTable:
    """Units with NPF: the householder and relatives, if there are at least two."""
    members = ", ".join(f"'{code}'" for code in FAMILY)
    sql = f"""
        SELECT u.*, CASE WHEN u.RTYPE = {HOUSING_UNIT} AND u.FINAL_POP >= 2 AND f.family >= 2
                         THEN CAST(f.family AS INTEGER) ELSE 0 END AS NPF
        FROM {{homes}} AS u LEFT JOIN (
            SELECT MAFID AS member_key, count(*) AS family FROM {{persons}} AS p
            WHERE RELSHIP IN ({members}) GROUP BY MAFID
        ) AS f ON u.MAFID = f.member_key"""  # noqa: S608  (all names and codes are ours)
    return engine.query(sql, {"homes": homes, "persons": persons}, _schema((*homes.schema.names, "NPF"), UNITS))


def _located(engine: TableReader, homes: EngineTable, lines: EngineTable, header: tuple[str, ...]) -> EngineTable:
    """Where each unit is: its block's columns of the layout. A unit whose block is unknown has no row.

    The header is a block with a key that no unit has.
    """
    values = {
        name: f"split_part(line, '{PIPE}', {place})"
        for place, name in enumerate(header, start=1)
        if name == BLOCK_KEY or (name in GEO and name not in UNITS)
    }
    columns = ["RTYPE", "MAFID", *(name for name in values if name in GEO)]
    split = ", ".join(f"{value} AS {name}" for name, value in values.items())
    sql = f"""
        SELECT {", ".join(columns)} FROM {{homes}} AS u
        INNER JOIN (SELECT {split} FROM {{lines}} AS l) AS b ON u.{BLOCK} = {_trimmed(f"b.{BLOCK_KEY}")}"""  # noqa: S608
    return engine.query(sql, {"homes": homes, "lines": lines}, _schema(columns, GEO))


def _schema(names: Iterable[str], layout: Layout) -> pa.Schema:
    integers = {column.name for column in layout.columns if column.is_integer}
    return pa.schema([(name, pa.int32() if name in integers else pa.string()) for name in names])
