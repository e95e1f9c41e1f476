"""Opens a data folder, or frames in memory, as tables of an engine.

A folder holds persons, units and geo, each as NAME.csv (or NAME.csv.gz), NAME.parquet or a folder of Parquet files. All
problems are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from phsafe.errors import DataError, did_you_mean
from phsafe.model.schema import LAYOUTS, Layout
from phsafe.readers import cef, delimited, parquet, remote
from phsafe.readers.cef_index import read_files
from phsafe.readers.column_check import column_problems, extra_columns
from phsafe.readers.file_formats import forms_of, single_form, stray_problems
from phsafe.readers.input_tables import Tables
from phsafe.readers.interfaces import EngineTable, Location, TableReader

HIDDEN_NAME = (
    "expected no name that Spark skips (beginning with _ or . or ending in ._COPYING_) except marker files; "
    "rename it, or move it elsewhere"
)
#: The path of a folder (for Spark also its address), or Arrow, Polars or pandas frames named persons, units and geo.
DataSource = str | Path | Mapping[str, Any]


def load(data: DataSource, engine: TableReader, reader: str | None = None) -> Tables:
    """Open the tables of a data source; raise `DataError` with every problem of its layout."""
    return prepare(data, engine, reader)()


def prepare(data: DataSource, engine: TableReader, reader: str | None) -> Callable[[], Tables]:
    """Check a data source as far as possible without reading its rows, and return a function that opens its tables.

    Args:
        data: The data source.
        engine: The engine that reads it.
        reader: The config's reader: ``csv`` or ``cef``; None to go by the file ending.

    Raises:
        DataError: With every problem of its files, columns and types.

    """
    if cef.is_cef(data, reader):
        return partial(cef.load, read_files(data, engine), engine)
    tables = _opened(data, engine)
    return lambda: tables


def _opened(data: DataSource, engine: TableReader) -> Tables:
    """Open every table; raise `DataError` with every problem of their columns."""
    tables: dict[str, EngineTable] = {}
    read, problems = _reader(data, engine)
    for layout in LAYOUTS:
        try:
            tables[layout.name] = read(layout)
        except DataError as error:
            problems += error.reasons
            continue
        problems += column_problems(tables[layout.name].schema, layout)
    if problems:
        raise DataError(problems)
    extra = {layout.name: extra_columns(tables[layout.name].schema, layout) for layout in LAYOUTS}
    return Tables(tables, {name: number for name, number in extra.items() if number})


def _reader(data: DataSource, engine: TableReader) -> tuple[Callable[[Layout], EngineTable], list[str]]:
    """A function that reads the table of a layout from a data source, and the problems of the source as a whole."""
    if isinstance(data, Mapping):
        return lambda layout: _frame(data, layout, engine), []
    forms = [form for layout in LAYOUTS for form in forms_of(layout)]
    storage = engine.storage
    if storage is None:
        _check_folder(data)
        problems = stray_problems(data, parquet.names_below(Path(data)), forms)
        return lambda layout: _files(Path(data), layout, engine), problems
    folder = storage.address(data)
    files = storage.files(folder)
    hidden = storage.hidden(folder, max((name.count("/") for name in files), default=0))
    problems = [*stray_problems(folder, files, forms), *(f"{folder}/{name}: {HIDDEN_NAME}" for name in hidden)]
    return lambda layout: remote.read(folder, files, layout, engine, storage), problems


def _files(folder: Path, layout: Layout, engine: TableReader) -> EngineTable:
    """Read a table in the one form in which the folder has it."""
    form = single_form(folder, layout, [name for name in forms_of(layout) if (folder / name).exists()])
    if form == layout.name or form.endswith(".parquet"):
        return parquet.read(folder / form, engine)
    return delimited.read(folder / form, engine)


def _frame(frames: Mapping[str, Any], layout: Layout, engine: TableReader) -> EngineTable:
    """Read a frame of any library that supports Arrow."""
    if layout.name not in frames:
        raise DataError(f"expected frames named {', '.join(one.name for one in LAYOUTS)}; {layout.name} is missing")
    frame = frames[layout.name]
    if hasattr(frame, "collect") and not isinstance(frame, pa.Table):
        frame = frame.collect()
    try:
        table = frame if isinstance(frame, pa.Table) else pa.table(frame)
        table.validate(full=True)  # Refuses text that is not UTF-8.
        return engine.read_arrow(table)
    except (TypeError, ValueError, pa.ArrowException) as error:
        error_type = type(error).__name__
        raise DataError(
            f"{layout.name}: expected an Arrow, Polars or pandas frame, got {type(frame).__name__} ({error_type})"
        ) from None


def _check_folder(data: Location) -> None:
    if "://" in str(data):
        raise DataError(f"{data}: only Spark can read this URI; add --engine spark")
    path = Path(data)
    if not path.is_dir():
        got = "a file" if path.exists() else "a path that doesn't exist"
        hint = "" if path.exists() else _similar_folder(path)
        raise DataError(f"{path}: expected a folder with persons, units and geo, got {got}{hint}")
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        # Engines require paths in UTF-8.
        raise DataError(f"{str(path)!a}: expected a path in UTF-8, got other bytes") from None


def _similar_folder(path: Path) -> str:
    """Suggest a folder beside one that doesn't exist."""
    try:
        return did_you_mean(path.name, [place.name for place in path.parent.iterdir() if place.is_dir()])
    except OSError:
        return ""
