"""Parquet: one file, or a folder of files with the same columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from phsafe.errors import DataError
from phsafe.readers.columns import plain_type
from phsafe.readers.options import EngineTable, TableReader


def read(path: Path, engine: TableReader) -> EngineTable:
    """The table of a Parquet file or folder, with the files' own types."""
    # Names with . or _ in front are hidden, for every engine: unfinished pieces of whoever wrote the folder.
    found = [file for file in sorted(path.glob("*.parquet")) if file.name[0] not in "._"]
    files = found if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path}: expected Parquet files in the folder, got none")
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
