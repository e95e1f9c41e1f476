"""Translation of DuckDB errors into messages that quote no records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from phsafe.errors import DataError, PHSafeError


def translated(error: Exception, folder: Path, files: Sequence[str]) -> PHSafeError:
    """Translate an error of DuckDB, whose own text may quote the record that caused it.

    Only three things are taken from that text: the type of error, a line number, and the name of one of `files`.

    Args:
        error: A `duckdb.Error`, or the Arrow error that wraps its text while rows are fetched.
        folder: The scratch folder of this run.
        files: The text files that were opened.

    """
    text = str(error)
    category = text.partition(":")[0]
    if category == "Out of Memory Error":
        return PHSafeError(
            f"counting ran out of memory or of disk space in {folder.parent}; "
            "raise the memory limit or name another temporary folder"
        )
    if category == "IO Error" and "no space left" in text.lower():
        return PHSafeError(f"the disk of {folder.parent} is full; free space or name another temporary folder")
    # The file is named after the quoted record, so the last name in the text is the right one.
    named = max((name for name in files if name in text), key=lambda n: (text.rfind(n), len(n)), default=None)
    line = re.match(r"[A-Za-z ]*: CSV Error on Line: (\d+)$", text.partition("\n")[0])
    if line or (category == "Invalid Input Error" and "CSV" in text):
        location = ", ".join([*([named] if named else []), *([f"line {line.group(1)}"] if line else [])])
        return DataError(
            f"{location or 'a CSV file'}: expected CSV in UTF-8 with consistent line ends "
            "and as many values in each row as the header has names, got something else"
        )
    return DataError(f"{named or 'the input files'}: can't be read or counted ({type(error).__name__})")


def was_interrupted(error: RuntimeError) -> bool:
    """Whether this is the error that DuckDB raises if Ctrl-C interrupts a query."""
    return str(error) == "Query interrupted"
