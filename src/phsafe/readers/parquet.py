"""Parquet reader: one file, or a folder of files with the same columns."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from phsafe.errors import DataError
from phsafe.readers.column_check import plain_type
from phsafe.readers.file_formats import parquet_parts
from phsafe.readers.interfaces import EngineTable, TableReader


def read(path: Path, engine: TableReader) -> EngineTable:
    """Open a Parquet file or folder, with the files' own types."""
    files = [path / name for name in parquet_parts(path, _names(path))] if path.is_dir() else [path]
    schemas, problems = {}, []
    for file in files:
        try:
            schemas[file] = pq.read_schema(file)
        except (OSError, pa.ArrowException):
            problems.append(f"{file}: expected a Parquet file, but it can't be read as one")
    for file, schema in schemas.items():
        first = schemas.get(files[0], schema)
        if {(f.name, plain_type(f.type)) for f in schema} != {(f.name, plain_type(f.type)) for f in first}:
            problems.append(f"{file}: expected the same columns and types as in {files[0].name}, got others")
    if problems:
        raise DataError(problems)
    return engine.read_parquet(files)


def _names(folder: Path) -> list[str]:
    """The paths of all files, empty folders and linked folders below a folder, relative to it."""
    names = []
    for parent, folders, files in os.walk(folder):
        own = Path(parent).relative_to(folder)
        names += [(own / name).as_posix() for name in [*files, *(n for n in folders if Path(parent, n).is_symlink())]]
        if not files and not folders and Path(parent) != folder:
            names.append(own.as_posix())
    return names
