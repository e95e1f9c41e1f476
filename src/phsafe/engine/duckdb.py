"""DuckDB in this process: the engine unless another is asked for."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self, TypeVar

import duckdb
import ibis
import pyarrow as pa
from ibis.expr.types import Table

from phsafe.engine.options import EngineOptions, Location, Storage
from phsafe.errors import DataError, PHSafeError
from phsafe.scratch import ScratchFolder, sweep

T = TypeVar("T")

#: How the names of temporary folders start.
TEMPORARY = "phsafe-temp-"


class DuckDB:
    """DuckDB with its own temporary folder, readable by the owner only and removed at the end."""

    def __init__(self, options: EngineOptions) -> None:
        self._scratch = _temporary_folder(options.temp_dir)
        self._folder = self._scratch.path
        self._files: list[str] = []
        settings: dict[str, object] = {"temp_directory": str(self._folder), "preserve_insertion_order": False}
        if options.threads is not None:
            settings["threads"] = options.threads
        if options.memory_limit is not None:
            settings["memory_limit"] = options.memory_limit
        try:
            self._ibis = ibis.duckdb.connect(**settings)
        except BaseException as error:
            self._scratch.remove()
            if not isinstance(error, duckdb.Error):
                raise
            raise PHSafeError(
                f"can't open DuckDB with {'all' if options.threads is None else options.threads} threads "
                f"and memory limit {options.memory_limit or 'none'}: expected a whole number and a size such as 4GB"
            ) from None

    @property
    def storage(self) -> Storage | None:
        """See `Engine`. DuckDB reads what this program can see."""
        return None

    def read_csv(self, paths: Sequence[Location], header: Sequence[str], *, gzip: bool) -> Table:
        """See `Engine`. Nothing is guessed: separator, quotes and types are given, and no column comes from a path."""
        return self._tell(lambda: self._ibis.read_csv(
            self._literal_paths(paths), hive_partitioning=False,
            auto_detect=False, header=True, delim=",", quote='"', escape='"', null_padding=False,
            compression="gzip" if gzip else "none", columns=dict.fromkeys(header, "VARCHAR"),
        ))  # fmt: skip

    def read_lines(self, paths: Sequence[Location]) -> Table:
        """See `Engine`: CSV of one column, with a separator that no text has."""
        return self._tell(lambda: self._ibis.read_csv(
            self._literal_paths(paths), hive_partitioning=False,
            auto_detect=False, header=False, delim="\x01", quote="", escape="", null_padding=False, nullstr="\x02",
            compression="none", columns={"line": "VARCHAR"},
        ))  # fmt: skip

    def read_parquet(self, paths: Sequence[Location]) -> Table:
        """See `Engine`. Nothing is guessed: a folder named ``TABBLKST=44`` is no column."""
        return self._tell(
            lambda: self._ibis.read_parquet(self._literal_paths(paths), hive_partitioning=False)
        )

    def read_arrow(self, frame: pa.Table) -> Table:
        """See `Engine`."""
        return ibis.memtable(frame)

    @contextlib.contextmanager
    def materialized(self, expression: Table) -> Iterator[Table]:
        """See `Engine`."""
        name = f"phsafe_{uuid.uuid4().hex}"
        table = self._tell(lambda: self._ibis.create_table(name, expression, temp=True))
        try:
            yield table
        finally:
            self._ibis.raw_sql(f'DROP TABLE temp."{name}"')

    def fetch(self, expression: Table) -> pa.Table:
        """See `Engine`."""
        return self._tell(lambda: self._ibis.to_pyarrow(expression))

    def close(self) -> None:
        """See `Engine`."""
        self._ibis.disconnect()
        self._scratch.remove()

    def _literal_paths(self, paths: Sequence[Location]) -> list[str]:
        absolute = [Path(path).absolute() for path in paths]
        self._files += [os.fspath(path) for path in absolute]
        return [_literal_path(path) for path in absolute]

    def _tell(self, work: Callable[[], T]) -> T:
        """The result of some work, or its failure in our words alone.

        What is raised behind the `except` has no `__context__`, in which DuckDB's own text would live on.
        """
        try:
            return work()
        except duckdb.Error as error:
            told = _in_words(error, self._folder, self._files)
        raise told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _in_words(error: duckdb.Error, folder: Path, files: Sequence[str]) -> PHSafeError:
    """A sentence of ours for an error of DuckDB's, whose own text quotes the record that it stumbled over.

    Of that text only two things are taken: a line number, and a file name that is one of `files`.
    """
    text = str(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        return PHSafeError(
            f"counting ran out of memory or of room in {folder.parent}; "
            "raise the memory limit or name another temp folder"
        )
    if isinstance(error, duckdb.IOException) and "no space left" in text.lower():
        return PHSafeError(f"no room is left in {folder.parent}; name another temp folder")
    # The place stands behind the quoted record, so the last name in the text is the file's.
    named = max((name for name in files if name in text), key=lambda n: (text.rfind(n), len(n)), default=None)
    line = re.match(r"[A-Za-z ]*: CSV Error on Line: (\d+)$", text.partition("\n")[0])
    if line or (isinstance(error, duckdb.InvalidInputException) and "CSV" in text):
        place = ", ".join([*([named] if named else []), *([f"line {line.group(1)}"] if line else [])])
        return DataError(
            f"{place or 'a CSV file'}: expected CSV in UTF-8 with one kind of line end "
            "and as many columns as the header, got something else"
        )
    return DataError(f"{named or 'the input files'}: can't be read or counted ({type(error).__name__})")


def _temporary_folder(parent: Path | None) -> ScratchFolder:
    """A folder for what does not fit in memory; those of killed runs go first, because records lie in them."""
    try:
        place = Path(tempfile.gettempdir()) if parent is None else parent
        sweep(place, TEMPORARY)
        return ScratchFolder(place, TEMPORARY)
    except OSError as error:
        raise PHSafeError(
            f"can't make a temporary folder in {parent or 'the usual places'}: {error.strerror}; "
            "name another one with --temp-dir"
        ) from None


def _literal_path(path: Path) -> str:
    """A path that DuckDB takes letter by letter: it would read * ? [ as a pattern."""
    text = os.fspath(path)
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)
