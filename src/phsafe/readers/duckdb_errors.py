"""DuckDB's errors in words of ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from phsafe.errors import DataError, PHSafeError


def in_words(error: Exception, folder: Path, files: Sequence[str]) -> PHSafeError:
    """A sentence of ours for an error of DuckDB's, whose own text quotes the record that it stumbled over.

    Of that text only three things are taken: the kind of error, a line number, and a file name that is one of `files`.

    Args:
        error: A `duckdb.Error`, or what Arrow makes of one while it fetches rows: the text is the same.
        folder: The temporary folder of this run.
        files: The text files that were opened.

    """
    text = str(error)
    kind = text.partition(":")[0]
    if kind == "Out of Memory Error":
        return PHSafeError(
            f"counting ran out of memory or of room in {folder.parent}; "
            "raise the memory limit or name another temp folder"
        )
    if kind == "IO Error" and "no space left" in text.lower():
        return PHSafeError(f"no room is left in {folder.parent}; name another temp folder")
    # The place stands behind the quoted record, so the last name in the text is the file's.
    named = max((name for name in files if name in text), key=lambda n: (text.rfind(n), len(n)), default=None)
    line = re.match(r"[A-Za-z ]*: CSV Error on Line: (\d+)$", text.partition("\n")[0])
    if line or (kind == "Invalid Input Error" and "CSV" in text):
        place = ", ".join([*([named] if named else []), *([f"line {line.group(1)}"] if line else [])])
        return DataError(
            f"{place or 'a CSV file'}: expected CSV in UTF-8 with one kind of line end "
            "and as many columns as the header, got something else"
        )
    return DataError(f"{named or 'the input files'}: can't be read or counted ({type(error).__name__})")


def was_interrupted(error: RuntimeError) -> bool:
    """Whether this is what DuckDB makes of a KeyboardInterrupt that comes in the middle of a query."""
    return str(error) == "Query interrupted"
