"""A data folder, or frames in memory, as tables of an engine; or every reason why it can't be.

A folder holds persons, units and geo, each as NAME.csv (or NAME.csv.gz), NAME.parquet or a folder of Parquet files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from phsafe.errors import DataError
from phsafe.readers import cef, delimited, parquet, remote
from phsafe.readers.cef_files import read_files
from phsafe.readers.columns import column_problems, extra_columns
from phsafe.readers.forms import check_one, forms_of
from phsafe.readers.options import EngineTable, Location, TableReader
from phsafe.readers.tables import Tables
from phsafe.schema import LAYOUTS, Layout

#: A folder's path (or its address, for Spark), or frames (Arrow, Polars, pandas) named persons, units and geo.
DataSource = str | Path | Mapping[str, Any]


def load(data: DataSource, engine: TableReader, reader: str | None = None) -> Tables:
    """The tables of a data source, or a `DataError` with every problem of its layout."""
    return prepare(data, engine, reader)()


def prepare(data: DataSource, engine: TableReader, reader: str | None) -> Callable[[], Tables]:
    """Check what can be seen of a data source without reading it, and return what opens its tables.

    Raises:
        DataError: Every problem of its files, columns and types.

    """
    if cef.is_cef(data, reader):
        return partial(cef.load, read_files(data, engine), engine)
    tables = _opened(data, engine)
    return lambda: tables


def _opened(data: DataSource, engine: TableReader) -> Tables:
    """Every table, or a `DataError` with every problem of their columns."""
    problems: list[str] = []
    tables: dict[str, EngineTable] = {}
    read = _reader(data, engine)
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


def _reader(data: DataSource, engine: TableReader) -> Callable[[Layout], EngineTable]:
    """What reads a layout's table from a data source."""
    if isinstance(data, Mapping):
        return lambda layout: _frame(data, layout, engine)
    storage = engine.storage
    if storage is None:
        _check_folder(data)
        return lambda layout: _files(Path(data), layout, engine)
    folder = storage.address(data)
    files = storage.files(folder)
    return lambda layout: remote.read(folder, files, layout, engine, storage)


def _files(folder: Path, layout: Layout, engine: TableReader) -> EngineTable:
    """The one form in which a table stands in the folder."""
    form = check_one(folder, layout, [name for name in forms_of(layout) if (folder / name).exists()])
    if form == layout.name or form.endswith(".parquet"):
        return parquet.read(folder / form, engine)
    return delimited.read(folder / form, engine)


def _frame(frames: Mapping[str, Any], layout: Layout, engine: TableReader) -> EngineTable:
    """A frame of any library that speaks Arrow."""
    if layout.name not in frames:
        raise DataError(f"expected frames named {', '.join(one.name for one in LAYOUTS)}, got no {layout.name}")
    frame = frames[layout.name]
    if hasattr(frame, "collect") and not isinstance(frame, pa.Table):
        frame = frame.collect()
    try:
        table = frame if isinstance(frame, pa.Table) else pa.table(frame)
        table.validate(full=True)  # Texts that are not UTF-8 are refused here.
        return engine.read_arrow(table)
    except (TypeError, ValueError, pa.ArrowException) as error:
        kind = type(error).__name__
        raise DataError(
            f"{layout.name}: expected an Arrow, Polars or pandas frame, got {type(frame).__name__} ({kind})"
        ) from None


def _check_folder(data: Location) -> None:
    if "://" in str(data):
        raise DataError(f"{data}: only Spark reads such an address; name the engine spark")
    path = Path(data)
    if not path.is_dir():
        got = "a file" if path.exists() else "nothing there"
        raise DataError(f"{path}: expected a folder with persons, units and geo, got {got}")
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        # Engines take paths as UTF-8.
        raise DataError(f"{str(path)!a}: expected a path in UTF-8, got other bytes") from None
