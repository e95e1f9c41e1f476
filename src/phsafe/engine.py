"""Where the counting runs: DuckDB in this process, opened through Ibis.

An engine reads files into Ibis tables, keeps an intermediate table, and fetches small results. It knows nothing of
tables, cells or noise.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, Self

import duckdb
import ibis
import pyarrow as pa
from ibis.expr.types import Table

from phsafe.errors import DataError, PHSafeError

EngineName = Literal["duckdb"]
ENGINES: tuple[EngineName, ...] = ("duckdb",)


@dataclass(frozen=True)
class EngineOptions:
    """How to open an engine. None leaves a setting to the engine."""

    engine: EngineName = "duckdb"
    threads: int | None = None
    memory_limit: str | None = None
    temp_dir: Path | None = None


class Engine(Protocol):
    """What counting needs of an engine."""

    def read_csv(self, paths: Sequence[Path], header: Sequence[str], *, gzip: bool) -> Table:
        """CSV files with the given header, every column as text."""

    def read_parquet(self, paths: Sequence[Path]) -> Table:
        """Parquet files with their own types."""

    def read_arrow(self, frame: pa.Table) -> Table:
        """A frame in memory."""

    def materialized(self, expression: Table) -> contextlib.AbstractContextManager[Table]:
        """The result of an expression, computed once and kept until the context ends."""

    def fetch(self, expression: Table) -> pa.Table:
        """A small result."""

    def close(self) -> None:
        """Let go of everything, temporary files included."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class DuckDB:
    """DuckDB with its own temporary folder, readable by the owner only and removed at the end."""

    def __init__(self, options: EngineOptions) -> None:
        self._folder = _temporary_folder(options.temp_dir)
        settings: dict[str, object] = {"temp_directory": str(self._folder), "preserve_insertion_order": False}
        if options.threads is not None:
            settings["threads"] = options.threads
        if options.memory_limit is not None:
            settings["memory_limit"] = options.memory_limit
        try:
            self._ibis = ibis.duckdb.connect(**settings)
        except Exception:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise PHSafeError(
                f"can't open DuckDB with {options.threads or 'all'} threads and memory limit "
                f"{options.memory_limit or 'none'}: expected a whole number and a size such as 4GB"
            ) from None

    def read_csv(self, paths: Sequence[Path], header: Sequence[str], *, gzip: bool) -> Table:
        """See `Engine`. Nothing is guessed: separator, quotes and types are given."""
        with _in_words(self._folder):
            return self._ibis.read_csv(
            [_literal_path(path) for path in paths],
            auto_detect=False, header=True, delim=",", quote='"', escape='"', null_padding=False,
            compression="gzip" if gzip else "none", columns=dict.fromkeys(header, "VARCHAR"),
        )  # fmt: skip

    def read_parquet(self, paths: Sequence[Path]) -> Table:
        """See `Engine`."""
        with _in_words(self._folder):
            return self._ibis.read_parquet([_literal_path(path) for path in paths])

    def read_arrow(self, frame: pa.Table) -> Table:
        """See `Engine`."""
        return ibis.memtable(frame)

    @contextlib.contextmanager
    def materialized(self, expression: Table) -> Iterator[Table]:
        """See `Engine`."""
        name = f"phsafe_{uuid.uuid4().hex}"
        with _in_words(self._folder):
            table = self._ibis.create_table(name, expression, temp=True)
        try:
            yield table
        finally:
            self._ibis.raw_sql(f'DROP TABLE temp."{name}"')

    def fetch(self, expression: Table) -> pa.Table:
        """See `Engine`."""
        with _in_words(self._folder):
            return self._ibis.to_pyarrow(expression)

    def close(self) -> None:
        """See `Engine`."""
        self._ibis.disconnect()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_engine(options: EngineOptions | None = None) -> Engine:
    """Open the engine that the options name."""
    return DuckDB(options or EngineOptions())


@contextlib.contextmanager
def _in_words(folder: Path) -> Iterator[None]:
    """Turn DuckDB's errors into sentences of ours: its own texts quote the record that they stumbled over."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise PHSafeError(
            f"counting ran out of memory or of room in {folder.parent}; raise the memory limit or name another temp folder"
        ) from None
    except duckdb.Error as error:
        text = str(error)
        line = re.search(r"(?:CSV Error on Line|Line): (\d+)", text)
        file = re.search(r"^\s*file\s*=\s*(.*)$", text, re.MULTILINE)
        if line or "CSV" in text:
            place = f"{file.group(1).strip()}, " if file else ""
            where = f"line {line.group(1)}" if line else "its text"
            raise DataError(
                f"{place}{where}: expected CSV in UTF-8 with as many columns as the header, got something else"
            ) from None
        if isinstance(error, duckdb.IOException) and "space" in text.lower():
            raise PHSafeError(f"no room is left in {folder.parent}; name another temp folder") from None
        raise DataError(f"the input files can't be read or counted ({type(error).__name__})") from None


def _temporary_folder(parent: Path | None) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="phsafe-", dir=parent))
    except OSError as error:
        raise PHSafeError(
            f"can't make a temporary folder in {parent or tempfile.gettempdir()}: {error.strerror}; name another one"
        ) from None


def _literal_path(path: Path) -> str:
    """A path that DuckDB takes letter by letter: it would read * ? [ as a pattern."""
    text = os.fspath(path.absolute())
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)
