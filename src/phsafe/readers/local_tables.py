"""Tables on this machine: DuckDB reads text files, with threads and memory as set; Arrow reads Parquet and frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Self, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from phsafe.errors import DataError, PHSafeError
from phsafe.readers.delimited import is_gzip
from phsafe.readers.duckdb_errors import translated, was_interrupted
from phsafe.readers.interfaces import EngineOptions, Location, Storage
from phsafe.system.scratch import temporary_folder

T = TypeVar("T")
Form = Mapping[str, str | bool]
#: The number of rows in a batch that is read and encoded.
TASK_ROWS = 1_000_000
#: A lower bound on the bytes in a row of text, to estimate the number of rows.
ROW_BYTES = 20


@dataclass(frozen=True)
class LocalTable:
    """A local table: its columns, its approximate number of rows, and a function that reads them."""

    schema: pa.Schema
    rows: int
    batches: Callable[[], Iterable[pa.RecordBatch]]
    sql: str = ""
    files: Sequence[Path] = ()


class LocalReader:
    """Opens tables with DuckDB and Arrow. Its scratch folder is accessible to the owner only, and removed on close."""

    def __init__(self, options: EngineOptions) -> None:
        self._scratch = temporary_folder(options.temp_dir)
        self._texts = list[str]()
        given = {"threads": options.threads, "memory_limit": options.memory_limit}
        settings = {"temp_directory": str(self._scratch.path), "preserve_insertion_order": False}
        try:
            self._connection = duckdb.connect(
                config=settings | {name: value for name, value in given.items() if value is not None}
            )
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
        """See `TableReader`. This process reads files itself."""
        return None

    def read_csv(self, path: Location, header: Sequence[str], *, gzip: bool) -> LocalTable:
        """See `TableReader`. DuckDB is told the separator, quotes and types, and infers nothing from data or paths."""
        form: Form = {"header": True, "delim": ",", "quote": '"', "escape": '"'}
        return self._text([path], header, {**form, "compression": "gzip" if gzip else "none"})

    def read_lines(self, paths: Sequence[Location]) -> LocalTable:
        """See `TableReader`. Reads CSV with one column, and a separator that doesn't occur in text."""
        form: Form = {"header": False, "delim": "\x01", "quote": "", "escape": "", "nullstr": "\x02"}
        zipped = [path for path in paths if is_gzip(Path(path))]
        plain = [path for path in paths if path not in zipped]
        tables = [
            self._text(files, ["line"], {**form, "compression": compression})
            for compression, files in (("none", plain), ("gzip", zipped))
            if files
        ]
        sql = " UNION ALL ".join(f"({table.sql})" for table in tables)
        return self._table(sql, tables[0].schema, sum(table.rows for table in tables))

    def _text(self, paths: Sequence[Location], columns: Sequence[str], form: Form) -> LocalTable:
        files = [Path(path).absolute() for path in paths]
        self._texts += map(os.fspath, files)
        settings = {**form, "auto_detect": False, "null_padding": False, "hive_partitioning": False}
        given = ", ".join(f"{name}={_quoted(v) if isinstance(v, str) else v}" for name, v in settings.items())
        types = ", ".join(f"{_quoted(column)}: 'VARCHAR'" for column in columns)
        # Paths and column names are quoted; everything else is constant.
        sql = f"SELECT * FROM read_csv([{', '.join(map(_literal, files))}], columns={{{types}}}, {given})"  # noqa: S608
        rows = sum(path.stat().st_size for path in files) // ROW_BYTES
        return self._table(sql, pa.schema([(name, pa.string()) for name in columns]), rows)

    def _table(self, sql: str, schema: pa.Schema, rows: int) -> LocalTable:
        return LocalTable(schema, rows, lambda: self._stream(sql), sql=sql)

    def read_parquet(self, paths: Sequence[Location]) -> LocalTable:
        """See `TableReader`."""
        files = [Path(path).absolute() for path in paths]
        schema = _guarded_read(files, lambda: pq.read_schema(files[0])).remove_metadata()
        rows = _guarded_read(files, lambda: sum(pq.read_metadata(file).num_rows for file in files))
        return LocalTable(schema, rows, lambda: _parquet_batches(files, schema), files=files)

    def read_arrow(self, frame: pa.Table) -> LocalTable:
        """See `TableReader`."""
        return LocalTable(frame.schema, frame.num_rows, lambda: frame.to_batches(TASK_ROWS))

    def query(self, sql: str, tables: Mapping[str, LocalTable], schema: pa.Schema) -> LocalTable:
        """See `TableReader`."""
        inner = {name: f"({table.sql})" for name, table in tables.items()}
        return self._table(sql.format(**inner), schema, max(table.rows for table in tables.values()))

    def fetch(self, table: LocalTable) -> pa.Table:
        """See `TableReader`."""
        batches = [*table.batches()]
        return pa.Table.from_batches(batches).cast(table.schema) if batches else table.schema.empty_table()

    def _stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        cursor = self._guarded(self._connection.cursor)
        try:
            reader = self._guarded(lambda: cursor.sql(sql).to_arrow_reader(TASK_ROWS))
            while (batch := self._guarded(lambda: next(reader, None))) is not None:
                yield batch
        finally:
            cursor.close()

    def close(self) -> None:
        """See `TableReader`."""
        _opened.cache_clear()  # The files may have changed before the next run.
        try:
            self._connection.close()
        finally:
            self._scratch.remove()

    def _guarded(self, work: Callable[[], T]) -> T:
        """Run some work and translate its errors.

        The translated error is raised outside the `except` block, so that its `__context__` doesn't keep DuckDB's text.
        """
        failure: BaseException
        try:
            return work()
        except (duckdb.Error, OSError, pa.ArrowException) as error:  # Arrow raises the last two while fetching rows.
            failure = translated(error, self._scratch.path, self._texts)
        except RuntimeError as error:
            if not was_interrupted(error):
                raise
            failure = KeyboardInterrupt()
        raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@lru_cache(maxsize=8)
def _opened(path: Path) -> pq.ParquetFile:
    """Open a Parquet file so that string columns are read as dictionaries."""
    return pq.ParquetFile(path, read_dictionary=_texts(pq.read_schema(path)))


def _texts(schema: pa.Schema) -> list[str]:
    return [c.name for c in schema if pa.types.is_string(c.type) or pa.types.is_large_string(c.type)]


def read_row_group(path: Path, number: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
    """Read those of the columns that a row group has, with strings as dictionaries."""

    def read() -> list[pa.RecordBatch]:
        file = _opened(path)
        found = [name for name in file.schema_arrow.names if name in columns]
        return [_valid(batch) for batch in file.read_row_group(number, found, use_threads=False).to_batches()]

    return _guarded_read([path], read)


def _valid(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch; raise an Arrow error if it has text that is not UTF-8."""
    for column in batch.columns:
        (column.dictionary if pa.types.is_dictionary(column.type) else column).validate(full=True)
    return batch


def _guarded_read(paths: Sequence[Path], work: Callable[[], T]) -> T:
    """Read files and translate errors, because the text of a library may quote records."""
    try:
        return work()
    except (OSError, pa.ArrowException) as error:
        text, error_type = str(error), type(error).__name__
    path = next((path for path in paths if os.fspath(path) in text), paths[0])
    raise DataError(f"{path}: can't be read or counted ({error_type})")


def _parquet_batches(files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of Parquet files, in any order. Arrow reads ahead in its own threads."""
    from pyarrow import dataset  # noqa: PLC0415  (slow to load)

    form = dataset.ParquetFileFormat(dictionary_columns=_texts(schema))
    found = _guarded_read(files, lambda: dataset.dataset([*map(os.fspath, files)], format=form))
    batches = found.to_batches(batch_size=TASK_ROWS, batch_readahead=2, fragment_readahead=1)
    while (batch := _guarded_read(files, lambda: next(batches, None))) is not None:
        yield _guarded_read(files, partial(_valid, batch))


def _literal(path: Path) -> str:
    """A path as an SQL literal, with * ? [ escaped, which DuckDB would treat as wildcards."""
    return _quoted("".join(f"[{c}]" if c in "*?[" else c for c in os.fspath(path)))


def _quoted(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
