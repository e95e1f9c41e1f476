"""Tables that Spark opens.

Everything is calls and SQL that Spark Connect has too, so one class serves both kinds of session. Files are
looked at by Spark alone, because this machine may not see them.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from phsafe.errors import DataError
from phsafe.readers import spark_arrow, spark_csv, spark_session
from phsafe.readers.options import EngineOptions, Location, Storage
from phsafe.readers.spark_errors import in_words, quietly, within

#: Settings that change what a query means or what is read, and what they must be.
PINNED = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # Larger batches than Spark's own: the kernel's cost is by the batch as much as by the row.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    # A table of so many files is listed without a job of its own.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100",
}
#: Seconds in which Spark must say what lies in a folder. It needs no worker for that.
LOOK = 45.0
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://([^/]*))?(/.*)?", re.DOTALL)


@dataclass(frozen=True)
class SparkTable:
    """A data frame of Spark's, and its columns in Arrow's types."""

    frame: Any
    schema: pa.Schema


class SparkReader:
    """A Spark session, its own or one given, with every setting that matters pinned until it is closed."""

    def __init__(self, options: EngineOptions) -> None:
        self._stack = contextlib.ExitStack()
        self._places: list[str] = []
        self._first_lines: dict[str, bytes] = {}
        try:
            self._session = self._stack.enter_context(spark_session.session_of(options))
            self._stack.enter_context(spark_session.pinned(self._session, PINNED))
        except BaseException:
            self._stack.close()
            raise

    @property
    def storage(self) -> Storage | None:
        """See `TableReader`. Spark may see other files than this program."""
        return self

    def address(self, data: Location) -> str:
        """See `Storage`."""
        return address_of(data)

    def files(self, folder: str) -> dict[str, int]:
        """See `Storage`."""
        reader = self._session.read.format("binaryFile").option("recursiveFileLookup", "true")

        def look() -> Any:  # noqa: ANN401
            found = reader.load(_literal(folder)).select("path", "length")
            assert found.columns  # Spark Connect looks only when it is asked for something
            return found

        with self._in_words(folder):
            rows = within(LOOK, look, f"{folder}: Spark could not say what is there")
            listed = rows.toArrow().to_pylist()
        root = _path(folder).rstrip("/")
        names = {_path(row["path"]).removeprefix(root).removeprefix("/"): row["length"] for row in listed}
        if "" in names:
            raise DataError(f"{folder}: expected a folder with persons, units and geo, got a file")
        return names

    def first_line(self, file: str) -> bytes:
        """See `Storage`."""
        if file not in self._first_lines:
            with self._in_words(file):
                self._first_lines[file] = spark_csv.first_line(self._session, _literal(file))
        return self._first_lines[file]

    def read_csv(self, path: Location, header: Sequence[str], *, gzip: bool) -> SparkTable:
        """See `TableReader`. Lines are checked before any is read; Spark's own CSV reader would guess at bad ones.

        Whether a file is gzipped Spark sees from its name.
        """
        place = address_of(path)
        first = self.first_line(place)
        with self._in_words(place):
            view = self._view(spark_csv.lines(self._session, _literal(place), first))
            if not spark_csv.is_clean(self._session, view, first, len(header)):
                raise DataError(
                    f"{place}: expected CSV in UTF-8 with one kind of line end, none inside a value, "
                    "and as many columns as the header, got something else"
                )
            rows = spark_csv.rows(self._session, view, first, header)
        return SparkTable(rows, pa.schema([(name, pa.string()) for name in header]))

    def read_lines(self, paths: Sequence[Location]) -> SparkTable:
        """See `TableReader`."""
        places = [address_of(path) for path in paths]
        first = self.first_line(places[0])
        with self._in_words(*places):
            lines = spark_csv.lines(self._session, [_literal(place) for place in places], first)
            return SparkTable(
                lines.selectExpr("value AS line").filter("line <> ''"), pa.schema([("line", pa.string())])
            )

    def read_parquet(self, paths: Sequence[Location]) -> SparkTable:
        """See `TableReader`. All files must have the same columns; nothing is taken from the names of folders."""
        places = [address_of(path) for path in paths]
        with self._in_words(*places):
            literal = [_literal(place) for place in places]
            frame = self._session.read.option("mergeSchema", "true").parquet(*literal)
            schema = spark_arrow.schema_of(frame.schema)
            if len(places) > 1:
                first = self._session.read.parquet(literal[0])
                if set(spark_arrow.schema_of(first.schema)) != set(schema):
                    raise DataError(
                        f"{places[0].rpartition('/')[0]}: expected the same columns and types in every Parquet file, "
                        "got others"
                    )
            return SparkTable(frame, schema)

    def read_arrow(self, frame: pa.Table) -> SparkTable:
        """See `TableReader`."""
        with self._in_words():
            plain = spark_arrow.plain(frame)
            return SparkTable(self._session.createDataFrame(plain), plain.schema)

    def query(self, sql: str, tables: Mapping[str, SparkTable], schema: pa.Schema) -> SparkTable:
        """See `TableReader`."""
        with self._in_words():
            views = {name: self._view(table.frame) for name, table in tables.items()}
            return SparkTable(self._session.sql(sql.format(**views)), schema)

    def fetch(self, table: SparkTable) -> pa.Table:
        """See `TableReader`."""
        with self._in_words():
            return table.frame.toArrow().cast(table.schema)

    def close(self) -> None:
        """See `TableReader`. A session that was given stays open, as it was."""
        self._stack.close()

    def _view(self, frame: Any) -> str:  # noqa: ANN401
        """A name for a frame, for as long as the engine is open: Spark Connect looks it up in every query."""
        name = f"phsafe_{uuid.uuid4().hex}"
        frame.createTempView(name)
        self._stack.callback(self._drop, name)
        return name

    def _drop(self, name: str) -> None:
        with contextlib.suppress(Exception), quietly():
            self._session.catalog.dropTempView(name)

    @contextlib.contextmanager
    def _in_words(self, *places: str) -> Iterator[None]:
        """Errors in words about some places, or about any that was read."""
        self._places += places
        with in_words(places or self._places), quietly():
            yield

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def address_of(data: Location) -> str:
    """A full address. A path without a scheme is one of this machine, whatever file system Spark prefers.

    >>> address_of("s3a://bucket/census/"), address_of(Path("/data/census"))
    ('s3a://bucket/census', 'file:///data/census')
    """
    if isinstance(data, str) and is_address(data):
        return data.rstrip("/")
    return f"file://{Path(data).absolute()}"


def is_address(data: Location) -> bool:
    """Whether this is an address for Spark rather than a path.

    >>> is_address("hdfs://node:8020/census"), is_address("data/census")
    (True, False)
    """
    return isinstance(data, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", data) is not None


def _path(address: str) -> str:
    """The path in an address; Spark writes the same one with other slashes or with a default host."""
    match = _ADDRESS.fullmatch(address)
    return (match.group(2) if match else address) or ""


def _literal(address: str) -> str:
    """An address that Spark takes letter by letter: it would read these as a pattern."""
    return "".join(f"\\{c}" if c in "*?[]{}\\" else c for c in address)
