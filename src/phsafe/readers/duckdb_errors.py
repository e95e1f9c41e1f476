"""Translation of DuckDB errors, such as malformed lines, into messages that quote no records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from phsafe.errors import DataError, PHSafeError

EXPECTED = (
    "expected CSV in UTF-8 with consistent line endings and as many values in each row as the header has names, "
    "got something else"
)


class MalformedTextError(DataError):
    """A text file is malformed. The message doesn't name the line, because a release must not reveal where it is."""

    def __init__(self, file: str | None, line: str | None) -> None:
        self._file, self._line = file or "a CSV file", line
        super().__init__(f"{self._file}: {EXPECTED}; phsafe validate names the line if it can")

    def located(self) -> DataError:
        """The same error with the line, if it is known; for those who prepare the data."""
        return DataError(f"{self._file}{f', line {self._line}' if self._line else ''}: {EXPECTED}")


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
        return MalformedTextError(named, line.group(1) if line else None)
    return DataError(f"{named or 'the input files'}: can't be read or counted ({type(error).__name__})")


def was_interrupted(error: RuntimeError) -> bool:
    """Whether this is the error that DuckDB raises if Ctrl-C interrupts a query."""
    return str(error) == "Query interrupted"
