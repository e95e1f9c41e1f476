"""Tables that this machine opens: DuckDB reads text, Arrow reads Parquet and frames."""

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
from phsafe.readers.duckdb_errors import in_words, was_interrupted
from phsafe.readers.options import EngineOptions, Location, Storage
from phsafe.scratch import temporary_folder

T = TypeVar("T")
Form = Mapping[str, str | bool]
#: Rows that are read and encoded at a time.
TASK_ROWS = 1_000_000
#: A row of text has more bytes than this.
ROW_BYTES = 20


@dataclass(frozen=True)
class LocalTable:
    """A table that this machine reads: its columns, about how many rows it has, and what reads them."""

    schema: pa.Schema
    rows: int
    batches: Callable[[], Iterable[pa.RecordBatch]]
    sql: str = ""
    files: Sequence[Path] = ()


class LocalReader:
    """Opens tables with DuckDB and Arrow. Its temporary folder is the owner's alone, and removed at the end."""

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
        """See `TableReader`. This program sees the files itself."""
        return None

    def read_csv(self, path: Location, header: Sequence[str], *, gzip: bool) -> LocalTable:
        """See `TableReader`. Nothing is guessed: separator, quotes and types are given; no column comes from a path."""
        form: Form = {"header": True, "delim": ",", "quote": '"', "escape": '"'}
        return self._text([path], header, {**form, "compression": "gzip" if gzip else "none"})

    def read_lines(self, paths: Sequence[Location]) -> LocalTable:
        """See `TableReader`: CSV of one column, with a separator that no text has."""
        form: Form = {"header": False, "delim": "\x01", "quote": "", "escape": "", "nullstr": "\x02"}
        return self._text(paths, ["line"], {**form, "compression": "none"})

    def _text(self, paths: Sequence[Location], columns: Sequence[str], form: Form) -> LocalTable:
        files = [Path(path).absolute() for path in paths]
        self._texts += map(os.fspath, files)
        settings = {**form, "auto_detect": False, "null_padding": False, "hive_partitioning": False}
        given = ", ".join(f"{name}={_quoted(v) if isinstance(v, str) else v}" for name, v in settings.items())
        types = ", ".join(f"{_quoted(column)}: 'VARCHAR'" for column in columns)
        # Paths and names are quoted; the rest is ours.
        sql = f"SELECT * FROM read_csv([{', '.join(map(_literal, files))}], columns={{{types}}}, {given})"  # noqa: S608
        rows = sum(path.stat().st_size for path in files) // ROW_BYTES
        return self._table(sql, pa.schema([(name, pa.string()) for name in columns]), rows)

    def _table(self, sql: str, schema: pa.Schema, rows: int) -> LocalTable:
        return LocalTable(schema, rows, lambda: self._stream(sql), sql=sql)

    def read_parquet(self, paths: Sequence[Location]) -> LocalTable:
        """See `TableReader`."""
        files = [Path(path).absolute() for path in paths]
        schema = _in_words(files, lambda: pq.read_schema(files[0])).remove_metadata()
        rows = _in_words(files, lambda: sum(pq.read_metadata(file).num_rows for file in files))
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
        cursor = self._tell(self._connection.cursor)
        try:
            reader = self._tell(lambda: cursor.sql(sql).to_arrow_reader(TASK_ROWS))
            while (batch := self._tell(lambda: next(reader, None))) is not None:
                yield batch
        finally:
            cursor.close()

    def close(self) -> None:
        """See `TableReader`."""
        _opened.cache_clear()  # The next run may find other files under these names.
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
            told = in_words(error, self._scratch.path, self._texts)
        except RuntimeError as error:
            if not was_interrupted(error):
                raise
            told = KeyboardInterrupt()
        raise told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@lru_cache(maxsize=8)
def _opened(path: Path) -> pq.ParquetFile:
    """A Parquet file whose texts are read as dictionaries."""
    return pq.ParquetFile(path, read_dictionary=_texts(pq.read_schema(path)))


def _texts(schema: pa.Schema) -> list[str]:
    return [c.name for c in schema if pa.types.is_string(c.type) or pa.types.is_large_string(c.type)]


def read_row_group(path: Path, number: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
    """The rows of a row group, as far as it has the columns; texts as dictionaries."""

    def read() -> list[pa.RecordBatch]:
        file = _opened(path)
        found = [name for name in file.schema_arrow.names if name in columns]
        return [_valid(batch) for batch in file.read_row_group(number, found, use_threads=False).to_batches()]

    return _in_words([path], read)


def _valid(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of rows; an error of Arrow's if a text is not UTF-8."""
    for column in batch.columns:
        (column.dictionary if pa.types.is_dictionary(column.type) else column).validate(full=True)
    return batch


def _in_words(paths: Sequence[Path], work: Callable[[], T]) -> T:
    """The result of reading files, or its failure in our words alone: the text of a library may quote records."""
    try:
        return work()
    except (OSError, pa.ArrowException) as error:
        text, kind = str(error), type(error).__name__
    path = next((path for path in paths if os.fspath(path) in text), paths[0])
    raise DataError(f"{path}: can't be read or counted ({kind})")


def _parquet_batches(files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of Parquet files in any order. Arrow reads ahead with threads of its own."""
    from pyarrow import dataset  # noqa: PLC0415  (it takes long to load)

    form = dataset.ParquetFileFormat(dictionary_columns=_texts(schema))
    found = _in_words(files, lambda: dataset.dataset([*map(os.fspath, files)], format=form))
    batches = found.to_batches(batch_size=TASK_ROWS, batch_readahead=2, fragment_readahead=1)
    while (batch := _in_words(files, lambda: next(batches, None))) is not None:
        yield _in_words(files, partial(_valid, batch))


def _literal(path: Path) -> str:
    """A path in SQL that DuckDB takes letter by letter: it would read * ? [ as a pattern."""
    return _quoted("".join(f"[{c}]" if c in "*?[" else c for c in os.fspath(path)))


def _quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
