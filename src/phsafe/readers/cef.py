"""Reader for the Census Edited File: fixed-width units and persons, and pipe-separated blocks.

A small TOML or INI file names the files (`phsafe.readers.cef_index`). Queries in the SQL subset that all engines share
split lines into columns; see docs/how-to/cef.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeGuard

import pyarrow as pa

from phsafe.errors import DataError
from phsafe.model.schema import FAMILY, GEO, HOUSING_UNIT, LAYOUTS, PERSONS, UNITS, Layout
from phsafe.readers.cef_index import BLOCK, BLOCK_KEY, PIPE, STATE, Files, Slices
from phsafe.readers.input_tables import Tables
from phsafe.readers.interfaces import EngineTable, Location, TableReader

#: The code for "not in universe" that replaces a blank.
BLANKS = {"HHSPAN": "0", "HHRACE": "00"}


def is_cef(data: object, reader: str | None) -> TypeGuard[Location]:
    """Whether to read a data source as a Census Edited File; if `reader` is None, the file ending decides."""
    if isinstance(data, Mapping):
        return False
    named = str(data).endswith((".toml", ".ini"))
    if reader == "cef" and not named:
        raise DataError(
            f"{data}: the config's reader is cef, so expected a .toml file that names the data files (or an .ini "
            "file), got another path"
        )
    if reader == "csv" and named:
        raise DataError(
            f'{data}: expected a folder with persons, units and geo; to read a Census Edited File, set "reader": "cef" '
            "in the config"
        )
    return named


def load(files: Files, engine: TableReader) -> Tables:
    """Open the tables; raise `DataError` with every problem of the files' format."""
    lines = {layout.name: engine.read_lines(files.paths[layout.name]) for layout in LAYOUTS}
    problems = [problem for layout in LAYOUTS for problem in _line_problems(files, layout, lines[layout.name], engine)]
    if problems:
        raise DataError(problems)
    persons = _sliced(engine, lines["persons"], files.slices["persons"], PERSONS)
    homes = _sliced(engine, lines["units"], files.slices["units"], UNITS)
    units = _with_family(engine, homes, persons)
    return Tables({"persons": persons, "units": units, "geo": _located(engine, homes, lines["geo"], files.header)})


def _line_problems(files: Files, layout: Layout, lines: EngineTable, engine: TableReader) -> list[str]:
    """Check that every line has the file's format. The message doesn't identify lines, which are records."""
    if layout is GEO:
        fits = f"length(line) - length(replace(line, '{PIPE}', '')) = {len(files.header) - 1}"
        expected = f"as many values between pipes in every line as in the header ({len(files.header)})"
    else:
        width, (start, end) = files.widths[layout.name], files.slices[layout.name][STATE]
        fits = f"length(line) = {width} AND {_is_digits(_slice(start, end))}"
        expected = f"every line as long as the first ({width}), with a two-digit state code at {start}:{end}"
    sql = f"SELECT CAST(count(*) AS BIGINT) AS bad FROM {{lines}} AS l WHERE NOT coalesce({fits}, FALSE)"  # noqa: S608
    bad = engine.fetch(engine.query(sql, {"lines": lines}, pa.schema([("bad", pa.int64())])))
    if not bad["bad"][0].as_py():
        return []
    return [f"{', '.join(map(str, files.paths[layout.name]))}: expected {expected}, got others"]


def _sliced(engine: TableReader, lines: EngineTable, slices: Slices, layout: Layout) -> EngineTable:
    """Slice lines into the columns of a layout and the key of the block."""
    columns = {name: _value(name, _slice(*span), layout) for name, span in slices.items() if name != STATE}
    chosen = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    return engine.query(f"SELECT {chosen} FROM {{lines}} AS l", {"lines": lines}, _schema(columns, layout))  # noqa: S608


def _slice(start: int, end: int) -> str:
    return f"substr(line, {start + 1}, {end - start})"


def _trimmed(text: str) -> str:
    """A text without leading and trailing blanks. DuckDB's plain trim also removes other white space."""
    return f"trim(BOTH ' ' FROM {text})"


def _block_number(text: str) -> str:
    """A block's key without the zeros before its number; a key that is no number stays as it is."""
    return f"(CASE WHEN {_is_digits(text)} THEN '0' || trim(LEADING '0' FROM {text}) ELSE {text} END)"


def _is_digits(text: str) -> str:
    return f"({text} <> '' AND translate({text}, '0123456789', '') = '')"


def _value(name: str, text: str, layout: Layout) -> str:
    if name == BLOCK:
        return _trimmed(text)
    if name in BLANKS:
        text = f"(CASE WHEN {_trimmed(text)} = '' THEN '{BLANKS[name]}' ELSE {text} END)"
    if not layout[name].is_integer:
        return text
    # Numbers may be padded with zeros or blanks.
    return f"(CASE WHEN {_is_digits(_trimmed(text))} THEN TRY_CAST({_trimmed(text)} AS INTEGER) END)"


def _with_family(engine: TableReader, homes: EngineTable, persons: EngineTable) -> EngineTable:
    """Add NPF to units: the number of family members, or 0 if there are fewer than two."""
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
    """The geo table: each unit with the geo columns of its block. A unit whose block is unknown has no row.

    The header line is harmless: it looks like a block whose key no unit has.
    """
    values = {
        name: f"split_part(line, '{PIPE}', {number})"
        for number, name in enumerate(header, start=1)
        if name == BLOCK_KEY or (name in GEO and name not in UNITS)
    }
    columns = ["RTYPE", "MAFID", *(name for name in values if name in GEO)]
    split = ", ".join(f"{value} AS {name}" for name, value in values.items())
    sql = f"""
        SELECT {", ".join(columns)} FROM {{homes}} AS u
        INNER JOIN (SELECT {split} FROM {{lines}} AS l) AS b
        ON {_block_number(f"u.{BLOCK}")} = {_block_number(_trimmed(f"b.{BLOCK_KEY}"))}"""  # noqa: S608
    return engine.query(sql, {"homes": homes, "lines": lines}, _schema(columns, GEO))


def _schema(names: Iterable[str], layout: Layout) -> pa.Schema:
    integers = {column.name for column in layout.columns if column.is_integer}
    return pa.schema([(name, pa.int32() if name in integers else pa.string()) for name in names])
