"""This machine as the engine: DuckDB reads texts, Arrow reads Parquet, and processes share the partitions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import duckdb
import pyarrow as pa

from phsafe.counting.kernel import Counted, Kernel
from phsafe.engines.duckdb_errors import in_words, was_interrupted
from phsafe.engines.local_scan import LocalScan
from phsafe.engines.local_tables import TASK_ROWS, Frame, LocalTable, Query
from phsafe.engines.options import EngineOptions, Location, Storage
from phsafe.engines.row_groups import ParquetFiles
from phsafe.errors import PHSafeError
from phsafe.scratch import temporary_folder
from phsafe.workers import cores

T = TypeVar("T")
#: A row of text has more bytes than this.
ROW_BYTES = 20


class DuckDB:
    """The engine of this machine. Its temporary folder is readable by the owner only, and removed at the end."""

    def __init__(self, options: EngineOptions) -> None:
        self._scratch = temporary_folder(options.temp_dir)
        self._folder = self._scratch.path
        self._processes = options.threads or cores()
        self._texts: list[str] = []
        settings: dict[str, Any] = {"temp_directory": str(self._folder), "preserve_insertion_order": False}
        if options.threads is not None:
            settings["threads"] = options.threads
        if options.memory_limit is not None:
            settings["memory_limit"] = options.memory_limit
        try:
            self._connection = duckdb.connect(config=settings)
        except BaseException as error:
            self._scratch.remove()
            if isinstance(error, RuntimeError) and was_interrupted(error):
                raise KeyboardInterrupt from None
            if not isinstance(error, duckdb.Error):
                raise
            raise PHSafeError(
                f"can't open DuckDB with {'all' if options.threads is None else options.threads} threads "
                f"and memory limit {options.memory_limit or 'none'}: expected a whole number and a size such as 4GB"
            ) from None

    @property
    def storage(self) -> Storage | None:
        """See `Engine`. This program sees the files itself."""
        return None

    def read_csv(self, path: Location, header: Sequence[str], *, gzip: bool) -> Query:
        """See `Engine`. Nothing is guessed: separator, quotes and types are given, and no column comes from a path."""
        compression = "gzip" if gzip else "none"
        return self._text(
            [path], header, header=True, delim=",", quote='"', escape='"', compression=compression
        )

    def read_lines(self, paths: Sequence[Location]) -> Query:
        """See `Engine`: CSV of one column, with a separator that no text has."""
        return self._text(
            paths, ["line"], header=False, delim="\x01", quote="", escape="", nullstr="\x02", compression="none"
        )  # fmt: skip

    def _text(self, paths: Sequence[Location], columns: Sequence[str], **form: str | bool) -> Query:
        absolute = [Path(path).absolute() for path in paths]
        self._texts += map(os.fspath, absolute)
        settings = form | {"auto_detect": False, "null_padding": False, "hive_partitioning": False}
        given = ", ".join(
            f"{setting}={_quoted(value) if isinstance(value, str) else value}"
            for setting, value in settings.items()
        )
        names = ", ".join(_quoted(_literal(path)) for path in absolute)
        types = ", ".join(f"{_quoted(column)}: 'VARCHAR'" for column in columns)
        # Paths and names are quoted; the rest is ours.
        sql = f"SELECT * FROM read_csv([{names}], columns={{{types}}}, {given})"  # noqa: S608
        size = sum(path.stat().st_size for path in absolute) // ROW_BYTES
        return Query(sql, pa.schema([(name, pa.string()) for name in columns]), size, self._stream)

    def read_parquet(self, paths: Sequence[Location], key: str) -> ParquetFiles:
        """See `Engine`."""
        return ParquetFiles([Path(path).absolute() for path in paths], key)

    def read_arrow(self, frame: pa.Table) -> Frame:
        """See `Engine`."""
        return Frame(frame)

    def query(self, sql: str, tables: Mapping[str, Query], schema: pa.Schema) -> Query:
        """See `Engine`."""
        inner = {name: f"({table.sql})" for name, table in tables.items()}
        return Query(sql.format(**inner), schema, max(table.rows for table in tables.values()), self._stream)

    def fetch(self, table: LocalTable) -> pa.Table:
        """See `Engine`."""
        batches = list(table.batches())
        return pa.Table.from_batches(batches).cast(table.schema) if batches else table.schema.empty_table()

    def _stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        cursor = self._tell(self._connection.cursor)
        try:
            reader = self._tell(lambda: cursor.sql(sql).to_arrow_reader(TASK_ROWS))
            while (batch := self._tell(lambda: next(reader, None))) is not None:
                yield batch
        finally:
            cursor.close()

    def scan(
        self, tables: Mapping[str, LocalTable], kernel: Kernel, progress: Callable[[float], None]
    ) -> Counted:
        """See `Engine`."""
        return LocalScan(tables, kernel, self._processes, self._folder, progress).run()

    def close(self) -> None:
        """See `Engine`."""
        try:
            self._connection.close()
        finally:
            self._scratch.remove()

    def _tell(self, work: Callable[[], T]) -> T:
        """The result of some work, or its failure in our words alone.

        What is raised behind the `except` has no `__context__`, in which DuckDB's own text would live on.
        """
        told: BaseException
        try:
            return work()
        except (duckdb.Error, OSError, pa.ArrowException) as error:  # The last two: while Arrow fetches rows.
            told = in_words(error, self._folder, self._texts)
        except RuntimeError as error:
            if not was_interrupted(error):
                raise
            told = KeyboardInterrupt()
        raise told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _literal(path: Path) -> str:
    """A path that DuckDB takes letter by letter: it would read * ? [ as a pattern."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in os.fspath(path))


def _quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
