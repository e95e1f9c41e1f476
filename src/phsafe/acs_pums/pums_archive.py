"""The CSV files to convert: plain files and members of zips, which are checked for size, streamed, never unpacked.

Zips are untrusted input: member names, sizes and compression are checked before anything is unpacked, and the declared
sizes are compared with the size of the zip itself.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from phsafe.errors import DataError

ZIP = b"PK"
#: The Bureau's zips compress their content 4 to 20 times; a zip bomb, a thousand times or more.
MAX_RATIO = 100
#: Twice the size of the nation's five-year files.
MAX_BYTES = 64 * 10**9
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9 _.()-]*(/[A-Za-z0-9_][A-Za-z0-9 _.()-]*)*")


@dataclass(frozen=True)
class CsvFile:
    """A CSV file to read: its name for messages, its size in bytes, and how to open it."""

    name: str
    size: int
    opener: Callable[[], IO[bytes]]

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file; errors while reading become a `DataError`."""
        try:
            with self.opener() as stream:
                yield stream
        except (zipfile.BadZipFile, EOFError, zlib.error):
            raise DataError(f"{self.name}: the zip is truncated or damaged; download it again") from None
        except (NotImplementedError, RuntimeError):
            raise DataError(
                f"{self.name}: the zip is encrypted or uses an unsupported compression method; "
                "unpack it and name the CSV file"
            ) from None
        except OSError as error:
            raise DataError(f"{self.name}: can't read the file: {error.strerror or error}") from None


def csv_files(paths: Sequence[Path]) -> list[CsvFile]:
    """List the CSV files among the paths and inside zips; raise `DataError` with every problem."""
    found: list[CsvFile] = []
    problems: list[str] = []
    for path in paths:
        try:
            found += _files_in(path)
        except DataError as error:
            problems += error.reasons
    total = sum(file.size for file in found)
    if total > MAX_BYTES:
        problems.append(
            f"expected at most {MAX_BYTES // 10**9} GB of CSV in total, got {total / 10**9:,.0f} GB; "
            "convert fewer files at a time"
        )
    if problems:
        raise DataError(problems)
    return found


def _files_in(path: Path) -> list[CsvFile]:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(len(ZIP))
    except OSError as error:
        raise DataError(f"{path}: can't read the file: {error.strerror or error}") from None
    if start != ZIP:
        return [CsvFile(str(path), size, lambda: path.open("rb"))]
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        raise DataError(f"{path}: the zip is truncated or damaged; download it again") from None
    with archive:
        members = [info for info in archive.infolist() if _wanted(info)]
    if not members:
        raise DataError(f"{path}: expected a zip with CSV files in it, got none")
    if not all(_PLAIN_NAME.fullmatch(info.filename) for info in members):
        raise DataError(
            f"{path}: a file in the zip has a suspicious name (a path outside the zip, or unusual characters); "
            "download the zip again from the Census Bureau"
        )
    unpacked = sum(info.file_size for info in members)
    if unpacked > MAX_RATIO * size:
        raise DataError(
            f"{path}: expected a zip that compresses its content at most {MAX_RATIO} times, got "
            f"{unpacked // max(size, 1):,} times: it may be a zip bomb"
        )
    return [CsvFile(f"{path}, {info.filename}", info.file_size, partial(_member, path, info)) for info in members]


def _wanted(info: zipfile.ZipInfo) -> bool:
    """Whether a member is a CSV file, and not one of macOS's metadata files."""
    return info.filename.lower().endswith(".csv") and not info.filename.rpartition("/")[2].startswith("._")


def _member(path: Path, info: zipfile.ZipInfo) -> IO[bytes]:
    """Open a member; `ZipFile` stays open until its last open member is closed."""
    with zipfile.ZipFile(path) as archive:
        return archive.open(info)
