"""Parquet reader: one file, or a folder of files with the same columns."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from phsafe.errors import DataError
from phsafe.readers.column_check import plain_type
from phsafe.readers.file_formats import MARKER, parquet_parts
from phsafe.readers.interfaces import EngineTable, TableReader

HOLDS_ROWS = "expected a marker without records, got a Parquet file with rows; rename it to *.parquet"


def read(path: Path, engine: TableReader) -> EngineTable:
    """Open a Parquet file or folder, with the files' own types."""
    names = names_below(path) if path.is_dir() else []
    problems = [f"{path / name}: {HOLDS_ROWS}" for name in names if holds_rows(path / name)]
    files = [path / name for name in parquet_parts(path, names)] if path.is_dir() else [path]
    schemas = {}
    for file in files:
        try:
            schemas[file] = pq.read_schema(file)
        except (OSError, pa.ArrowException):
            problems.append(f"{file}: expected a Parquet file, but it can't be read as one")
    for file, schema in schemas.items():
        first = schemas.get(files[0], schema)
        if {(f.name, plain_type(f.type)) for f in schema} != {(f.name, plain_type(f.type)) for f in first}:
            problems.append(f"{file}: expected the same columns and types as in {files[0].name}, got different ones")
    if problems:
        raise DataError(problems)
    return engine.read_parquet(files)


def holds_rows(path: Path) -> bool:
    """Whether a writer's marker is a Parquet file with more than a footer: a part of the table under a wrong name."""
    if not MARKER.fullmatch(path.name) or not path.is_file():
        return False
    with path.open("rb") as file:
        start, size = file.read(4), file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        return has_more_than_a_footer(start, file.read(4), size)


def has_more_than_a_footer(start: bytes, footer: bytes, size: int) -> bool:
    """Whether a file is Parquet with row groups: by its first four bytes, the length of its footer, and its size."""
    return start in (b"PAR1", b"PARE") and size != int.from_bytes(footer, "little") + 12


def names_below(folder: Path) -> list[str]:
    """The paths of all files, empty folders and linked folders below a folder, relative to it."""
    names = []
    for parent, folders, files in os.walk(folder):
        own = Path(parent).relative_to(folder)
        names += [(own / name).as_posix() for name in [*files, *(n for n in folders if Path(parent, n).is_symlink())]]
        if not files and not folders and Path(parent) != folder:
            names.append(own.as_posix())
    return names
