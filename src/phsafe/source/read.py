"""A data folder, or frames in memory, as canonical tables; or every reason why it can't be.

A folder holds persons, units and geo, each as NAME.csv (or NAME.csv.gz), NAME.parquet or a folder of Parquet files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from ibis.expr.types import Table

from phsafe.engine import Engine, open_engine
from phsafe.errors import DataError
from phsafe.schema import LAYOUTS, Layout
from phsafe.source import delimited, parquet
from phsafe.source.canonical import canonical, type_problems
from phsafe.source.tables import Tables

#: A folder's path, or frames (Arrow, Polars, pandas) named persons, units and geo.
DataSource = str | Path | Mapping[str, Any]


def load(data: DataSource, engine: Engine) -> Tables:
    """The canonical tables of a data source, or a `DataError` with every problem of its layout."""
    problems: list[str] = []
    tables: dict[str, Table] = {}
    extra: dict[str, int] = {}
    if not isinstance(data, Mapping):
        _check_folder(Path(data))
    for layout in LAYOUTS:
        try:
            raw = (
                _frame(data, layout, engine)
                if isinstance(data, Mapping)
                else _files(Path(data), layout, engine)
            )
        except DataError as error:
            problems += error.reasons
            continue
        wrong = type_problems(raw, layout)
        problems += wrong
        if not wrong:
            tables[layout.name] = canonical(raw, layout)
            unknown = len(set(raw.columns) - set(layout.names))
            extra |= {layout.name: unknown} if unknown else {}
    if problems:
        raise DataError(problems)
    return Tables(**tables, extra=extra)


def check_readable(data: DataSource) -> None:
    """Every problem of a data source's layout that can be seen without counting: files, columns, types."""
    with open_engine() as engine:
        load(data, engine)


def _files(folder: Path, layout: Layout, engine: Engine) -> Table:
    """The one form in which a table stands in the folder."""
    name = layout.name
    forms = [
        path
        for path in (
            folder / f"{name}.csv",
            folder / f"{name}.csv.gz",
            folder / f"{name}.parquet",
            folder / name,
        )
        if path.exists()
    ]
    if len(forms) != 1:
        expected = f"{name}.csv, {name}.parquet or a folder {name} with Parquet files"
        got = "none of them" if not forms else " and ".join(path.name for path in forms)
        raise DataError(f"{folder}: expected {expected}, got {got}")
    path = forms[0]
    if path.name == name or path.suffix == ".parquet":
        return parquet.read(path, engine)
    return delimited.read(path, engine)


def _frame(frames: Mapping[str, Any], layout: Layout, engine: Engine) -> Table:
    """A frame of any library that speaks Arrow."""
    if layout.name not in frames:
        raise DataError(
            f"expected frames named {', '.join(one.name for one in LAYOUTS)}, got no {layout.name}"
        )
    frame = frames[layout.name]
    if hasattr(frame, "collect") and not isinstance(frame, pa.Table):
        frame = frame.collect()
    try:
        return engine.read_arrow(frame if isinstance(frame, pa.Table) else pa.table(frame))
    except (TypeError, ValueError, pa.ArrowException) as error:
        kind = type(error).__name__
        raise DataError(
            f"{layout.name}: expected an Arrow, Polars or pandas frame, got {type(frame).__name__} ({kind})"
        ) from None


def _check_folder(path: Path) -> None:
    if not path.is_dir():
        got = "a file" if path.exists() else "nothing there"
        raise DataError(f"{path}: expected a folder with persons, units and geo, got {got}")
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        # Engines take paths as UTF-8.
        raise DataError(f"{str(path)!a}: expected a path in UTF-8, got other bytes") from None
