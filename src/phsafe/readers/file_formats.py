"""The file names and formats in which a data folder may hold a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from phsafe.errors import DataError
from phsafe.model.schema import Layout

#: Files that writers put beside their data, and that hold no records: markers, summaries and checksums.
MARKER = re.compile(r"_SUCCESS|_metadata|_common_metadata|\..*\.crc")
#: A folder of a partitioned table, such as ``state=06``.
PARTITION_FOLDER = re.compile(r"\w+=.+")
PARQUET_ENDINGS = (".parquet", ".parq")
NOT_A_PART = (
    "expected only Parquet files named *.parquet in a table's folder, directly or in folders such as state=06; "
    "rename it, or move it elsewhere"
)
#: How many files a message names.
NAMED = 10


def forms_of(layout: Layout) -> tuple[str, ...]:
    """All file and folder names that a table may have.

    >>> from phsafe.model.schema import GEO
    >>> forms_of(GEO)
    ('geo.csv', 'geo.csv.gz', 'geo.parquet', 'geo')
    """
    name = layout.name
    return (f"{name}.csv", f"{name}.csv.gz", f"{name}.parquet", name)


def single_form(folder: object, layout: Layout, names: Collection[str]) -> str:
    """The one form in which a folder holds a table; raise `DataError` if there is none or more than one.

    Args:
        folder: The folder, for the message.
        layout: The table's layout.
        names: The names in the folder.

    """
    found = [form for form in forms_of(layout) if form in names]
    if len(found) != 1:
        name = layout.name
        expected = f"{name}.csv, {name}.parquet or a folder {name} with Parquet files"
        got = "none of them" if not found else " and ".join(found)
        raise DataError(f"{folder}: expected {expected}, got {got}")
    return found[0]


def parquet_parts(folder: object, names: Iterable[str]) -> list[str]:
    """The Parquet files of a table's folder.

    Every file must be one, or a marker without records, so that no part of a table is skipped unnoticed.

    Args:
        folder: The folder, for the message.
        names: The paths of all files below the folder, relative to it.

    Raises:
        DataError: There is no Parquet file, or another file; names the first ten of these.

    """
    parts: list[str] = []
    others: list[str] = []
    for name in sorted(names):
        *folders, file = name.split("/")
        if MARKER.fullmatch(file):
            continue
        is_part = file.lower().endswith(PARQUET_ENDINGS) and file[0] not in "._"
        (parts if is_part and all(map(PARTITION_FOLDER.fullmatch, folders)) else others).append(name)
    if others:
        more = [f"{folder}: {len(others) - NAMED} more such files"] if len(others) > NAMED else []
        raise DataError([f"{folder}/{name}: {NOT_A_PART}" for name in others[:NAMED]] + more)
    if not parts:
        raise DataError(f"{folder}: expected Parquet files in the folder, got none")
    return parts
