"""The file names and formats in which a data folder may hold a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from phsafe.errors import DataError
from phsafe.model.schema import Layout

#: Files that writers put beside their data, and that hold no records: markers, summaries and checksums. Those whose
#: names only begin so are logs of commits.
MARKERS = ("_SUCCESS", "_metadata", "_common_metadata")
MARKER_STARTS = ("_committed_", "_started_")
MARKER = re.compile("|".join((*MARKERS, *(f"{start}.*" for start in MARKER_STARTS), r"\..*\.crc")))
#: A folder of a partitioned table, such as ``state=06``.
PARTITION_FOLDER = re.compile(r"[A-Za-z]\w*=.+")
#: Names that Spark skips without notice.
HIDDEN = re.compile(r"[._].*|.*\._COPYING_")
#: A name that looks like (a part of) a table: it contains the table's name as a word, or the ending of Parquet.
TABLE_LIKE = re.compile(r"(?<![a-z])(persons?|units?|geo)(?![a-z])|\.parq", re.IGNORECASE)
PARQUET_ENDINGS = (".parquet", ".parq")
NOT_A_PART = (
    "expected only Parquet files named *.parquet in a table's folder, directly or in folders such as state=06; "
    "rename it, or move it elsewhere"
)
NOT_A_TABLE = (
    "expected each of persons, units and geo once in a data folder, and no other file or folder that may belong to "
    "them; rename it, or move it elsewhere"
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
        raise DataError(_named(folder, others, NOT_A_PART))
    if not parts:
        raise DataError(f"{folder}: expected Parquet files in the folder, got none")
    return parts


def stray_problems(folder: object, names: Iterable[str], tables: Collection[str]) -> list[str]:
    """List what may be a lost part of a table: files outside the tables that look like one, and hidden names.

    Args:
        folder: The data folder, for the message.
        names: The paths of all files below the data folder, relative to it.
        tables: The names of its files and folders that are tables.

    """
    strays = [
        name
        for name in sorted(names)
        if name.split("/")[0] not in tables
        and not MARKER.fullmatch(name.rpartition("/")[2])
        and (TABLE_LIKE.search(name) or any(map(HIDDEN.fullmatch, name.split("/"))))
    ]
    return _named(folder, strays, NOT_A_TABLE)


def hidden_globs() -> list[str]:
    """Globs that match every name that Spark skips and that is no marker, and what is in folders with such names.

    Globs can't exclude a word, so one glob excludes each of its letters.

    >>> [glob for glob in hidden_globs() if glob.startswith("_SUCC")]
    ['_SUCC', '_SUCC[^E]*', '_SUCCE', '_SUCCE[^S]*', '_SUCCES', '_SUCCES[^S]*', '_SUCCESS?*']
    """
    words = (*MARKERS, *MARKER_STARTS)
    globs = []
    for start in sorted({word[:end] for word in words for end in range(1, len(word))}):
        letters = {word[len(start)] for word in words if word.startswith(start) and word != start}
        globs += [start, f"{start}[^{''.join(sorted(letters))}]*"]
    # The names that begin with a dot and don't end in .crc.
    dotted = [".c", ".rc", ".crc", ".*[^c]", ".*[^r]c", ".*[^c]rc", ".*[^.]crc"]
    return [*globs, *(f"{word}?*" for word in MARKERS), *dotted, "*._COPYING_", "[._]*/*"]


def _named(folder: object, names: list[str], sentence: str) -> list[str]:
    """A message for each of the first names, and how many more there are."""
    more = [f"{folder}: {len(names) - NAMED} more such files"] if len(names) > NAMED else []
    return [f"{folder}/{name}: {sentence}" for name in names[:NAMED]] + more
