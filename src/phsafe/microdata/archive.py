"""The CSV files among what a user names: plain files and members of zips, which are read and never unpacked to disk.

A zip is somebody else's file: its names, sizes and packing are looked at before a byte of it is unpacked, and what it
says of itself is held against the size that it has on disk.
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
#: The Bureau's zips are 4 to 20 times smaller than what they hold; a bomb is a thousand times smaller or more.
MAX_RATIO = 100
#: Twice the files of the whole nation over five years.
MAX_BYTES = 64 * 10**9
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9 _.()-]*(/[A-Za-z0-9_][A-Za-z0-9 _.()-]*)*")


@dataclass(frozen=True)
class CsvFile:
    """A CSV file to read: what to call it, how many bytes it holds, and how to open it."""

    name: str
    size: int
    opener: Callable[[], IO[bytes]]

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Its bytes; what goes wrong while they are read is said in words."""
        try:
            with self.opener() as stream:
                yield stream
        except (zipfile.BadZipFile, EOFError, zlib.error):
            raise DataError(f"{self.name}: the zip is cut off or damaged; fetch it again") from None
        except (NotImplementedError, RuntimeError):
            raise DataError(
                f"{self.name}: packed with a password or in a way that can't be read here; "
                "unpack it and name the CSV file"
            ) from None
        except OSError as error:
            raise DataError(f"{self.name}: can't read the file: {error.strerror or error}") from None


def csv_files(paths: Sequence[Path]) -> list[CsvFile]:
    """The CSV files that are named or lie in the zips that are named, or every reason why not."""
    found: list[CsvFile] = []
    problems: list[str] = []
    for path in paths:
        try:
            found += _of(path)
        except DataError as error:
            problems += error.reasons
    total = sum(file.size for file in found)
    if total > MAX_BYTES:
        problems.append(
            f"expected at most {MAX_BYTES // 10**9} GB of CSV in all, got {total / 10**9:,.0f} GB; "
            "convert fewer files at once"
        )
    if problems:
        raise DataError(problems)
    return found


def _of(path: Path) -> list[CsvFile]:
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
        raise DataError(f"{path}: the zip is cut off or damaged; fetch it again") from None
    with archive:
        members = [info for info in archive.infolist() if _wanted(info)]
    if not members:
        raise DataError(f"{path}: expected a zip with CSV files in it, got none")
    if not all(_PLAIN_NAME.fullmatch(info.filename) for info in members):
        raise DataError(
            f"{path}: a file in the zip has a name that no file of the Bureau's has "
            "(a path that leads elsewhere, or strange characters); fetch it again from where it is published"
        )
    unpacked = sum(info.file_size for info in members)
    if unpacked > MAX_RATIO * size:
        raise DataError(
            f"{path}: expected a zip at most {MAX_RATIO} times smaller than what it holds, got one "
            f"{unpacked // max(size, 1):,} times smaller: it may be made to fill the disk"
        )
    return [CsvFile(f"{path}, {info.filename}", info.file_size, partial(_member, path, info)) for info in members]


def _wanted(info: zipfile.ZipInfo) -> bool:
    """CSV files, but not the companions that macOS adds."""
    return info.filename.lower().endswith(".csv") and not info.filename.rpartition("/")[2].startswith("._")


def _member(path: Path, info: zipfile.ZipInfo) -> IO[bytes]:
    """A member's bytes. The archive is closed with them: `ZipFile` counts its open members."""
    with zipfile.ZipFile(path) as archive:
        return archive.open(info)
