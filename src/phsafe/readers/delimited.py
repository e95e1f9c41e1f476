"""CSV reader: comma-separated, double quotes, a header with columns in any order, UTF-8, plain or gzipped."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from pathlib import Path

from phsafe.errors import DataError
from phsafe.readers.interfaces import EngineTable, Location, TableReader

GZIP = b"\x1f\x8b"
#: The longest header; a file with a longer first line is not CSV.
MAX_HEADER = 100_000
CHUNK = 1 << 20


def read(path: Path, engine: TableReader) -> EngineTable:
    """Open a CSV file, every column as text."""
    try:
        zipped = is_gzip(path)
        with gzip.open(path) if zipped else path.open("rb") as file:
            line = file.readline(MAX_HEADER)
            # Reading to the end verifies the checksum, which DuckDB doesn't.
            while zipped and file.read(CHUNK):
                pass
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or "it is corrupt"
        raise DataError(f"{path}: can't read the file: {why}") from None
    return engine.read_csv(path, header(path, line), gzip=zipped)


def is_gzip(path: Path) -> bool:
    """Whether a file is gzipped, by its first bytes."""
    with path.open("rb") as file:
        return file.read(len(GZIP)) == GZIP


def header(path: Location, line: bytes) -> list[str]:
    """The column names in the first line. A bad header may be a record, so messages never quote it."""
    try:
        text = line.decode("utf-8-sig")
        names = next(csv.reader(io.StringIO(text), strict=True), [])
    except (UnicodeDecodeError, csv.Error):
        raise DataError(f"{path}: expected CSV text in UTF-8 with a header line, got other bytes") from None
    if not names or len(line) >= MAX_HEADER:
        raise DataError(f"{path}: expected a header line with column names, got none")
    # Engines treat names that differ only in case as equal.
    if len({name.lower() for name in names}) != len(names) or "" in names:
        raise DataError(f"{path}: expected every column name once, got repeated or empty ones")
    return names
