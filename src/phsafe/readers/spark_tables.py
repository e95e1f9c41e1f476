"""Tables on Spark: files and addresses (hdfs, s3a), listed and read through Spark, with pinned settings.

Only calls and SQL that Spark Connect supports are used, so that one class serves both kinds of session. All files are
accessed through Spark, because this machine may not see them.
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
from phsafe.readers.file_formats import HIDDEN, MARKER, NAMED, hidden_globs
from phsafe.readers.interfaces import UNKNOWN, EngineOptions, Location, Storage
from phsafe.readers.parquet import has_more_than_a_footer, holds_rows, names_below
from phsafe.readers.spark_errors import NOT_FOUND, quietly, translated, within

#: Required values of settings that change the meaning of a query, what is read, or the speed.
PINNED = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # Larger than Spark's default, because the kernel has a cost per batch as well as per row.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    # Tables with up to this many files are listed without a separate job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100",
}
#: The timeout in seconds for listing a folder, which needs no worker.
LIST_TIMEOUT = 45.0
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://([^/]*))?(/.*)?", re.DOTALL)


@dataclass(frozen=True)
class SparkTable:
    """A Spark data frame, and its columns in Arrow's types."""

    frame: Any
    schema: pa.Schema


class SparkReader:
    """Opens tables in a Spark session, its own or the caller's, and pins its settings until the reader is closed."""

    def __init__(self, options: EngineOptions) -> None:
        self._stack = contextlib.ExitStack()
        self._addresses: list[str] = []
        self._first_lines: dict[str, bytes] = {}
        try:
            self._session = self._stack.enter_context(spark_session.session_of(options))
            self._stack.enter_context(spark_session.pinned(self._session, PINNED))
        except BaseException:
            self._stack.close()
            raise

    @property
    def storage(self) -> Storage | None:
        """See `TableReader`. Spark may see different files from this process."""
        return self

    def address(self, data: Location) -> str:
        """See `Storage`."""
        return address_of(data)

    def files(self, folder: str) -> dict[str, int]:
        """See `Storage`."""
        reader = self._session.read.format("binaryFile").option("recursiveFileLookup", "true")

        def list_files() -> Any:  # noqa: ANN401
            found = reader.load(_literal(folder)).select("path", "length")
            assert found.columns  # Spark Connect evaluates lazily; asking for the columns makes it list the folder
            return found

        with self._translate_errors(folder):
            rows = within(LIST_TIMEOUT, list_files, f"{folder}: Spark did not list the folder")
            listed = rows.toArrow().to_pylist()
        root = _path(folder).rstrip("/")
        names = {_path(row["path"]).removeprefix(root).removeprefix("/"): row["length"] for row in listed}
        if "" in names:
            raise DataError(f"{folder}: expected a folder with persons, units and geo, got a file")
        return names

    def hidden(self, folder: str, depth: int) -> list[str]:
        """See `Storage`. Spark never lists such names, but it answers whether a glob matches one."""
        found, level, globs = _local_names(folder) or self._markers_with_rows(folder), 0, ",".join(hidden_globs())
        while not found and (level <= depth or self._exists(folder, "*/" * level + "*")):
            if self._exists(folder, f"{'*/' * level}{{{globs}}}"):
                found = ["*/" * level + UNKNOWN]
            level += 1
        return found

    def _markers_with_rows(self, folder: str) -> list[str]:
        """The first markers that hold rows, where the session runs in this machine's JVM; Spark Connect can't tell."""
        jvm = getattr(self._session, "_jvm", None)
        if jvm is None:
            return []

        def find() -> list[str]:
            root = jvm.org.apache.hadoop.fs.Path(folder)
            system = root.getFileSystem(self._session._jsc.hadoopConfiguration())
            files, found = system.listFiles(root, True), []
            while files.hasNext():
                status = files.next()
                name = status.getPath().toUri().getPath().removeprefix(root.toUri().getPath()).removeprefix("/")
                if MARKER.fullmatch(name.rpartition("/")[2]) and _holds_rows(system, status):
                    found.append(name)
            return sorted(found)[:NAMED]

        with self._translate_errors(folder):
            return within(LIST_TIMEOUT, find, f"{folder}: Spark did not list the folder")

    def _exists(self, folder: str, glob: str) -> bool:
        """Whether a glob below a folder matches a name, hidden or not."""
        frame = self._session.read.format("binaryFile").option("recursiveFileLookup", "true")
        try:
            with self._translate_errors(folder):
                found = within(
                    LIST_TIMEOUT, lambda: frame.load(f"{_literal(folder)}/{glob}").columns,
                    f"{folder}: Spark did not list the folder",
                )  # fmt: skip
        except DataError as error:
            if NOT_FOUND in str(error):
                return False
            raise
        return bool(found)

    def first_line(self, file: str) -> bytes:
        """See `Storage`."""
        if file not in self._first_lines:
            with self._translate_errors(file):
                self._first_lines[file] = spark_csv.first_line(self._session, _literal(file))
        return self._first_lines[file]

    def read_csv(self, path: Location, header: Sequence[str], *, gzip: bool) -> SparkTable:
        """See `TableReader`. All lines are checked before any is parsed: Spark's CSV reader guesses at bad ones.

        `gzip` is ignored: Spark recognises gzipped files by their name.
        """
        address = address_of(path)
        first = self.first_line(address)
        with self._translate_errors(address):
            view = self._view(spark_csv.lines(self._session, _literal(address), first))
            if not spark_csv.is_clean(self._session, view, first, len(header)):
                raise DataError(
                    f"{address}: expected CSV in UTF-8 with consistent line endings, none inside a value, "
                    "and as many values in each row as the header has names, got something else"
                )
            rows = spark_csv.rows(self._session, view, first, header)
        return SparkTable(rows, pa.schema([(name, pa.string()) for name in header]))

    def read_lines(self, paths: Sequence[Location]) -> SparkTable:
        """See `TableReader`."""
        addresses = [address_of(path) for path in paths]
        first = self.first_line(addresses[0])
        with self._translate_errors(*addresses):
            lines = spark_csv.lines(self._session, [_literal(address) for address in addresses], first)
            return SparkTable(
                lines.selectExpr("value AS line").filter("line <> ''"), pa.schema([("line", pa.string())])
            )

    def read_parquet(self, paths: Sequence[Location]) -> SparkTable:
        """See `TableReader`. All files must have the same columns; folder names never become columns."""
        addresses = [address_of(path) for path in paths]
        with self._translate_errors(*addresses):
            literal = [_literal(address) for address in addresses]
            frame = self._session.read.option("mergeSchema", "true").parquet(*literal)
            schema = spark_arrow.schema_of(frame.schema)
            if len(addresses) > 1:
                first = self._session.read.parquet(literal[0])
                if set(spark_arrow.schema_of(first.schema)) != set(schema):
                    raise DataError(
                        f"{addresses[0].rpartition('/')[0]}: expected the same columns and types in every Parquet "
                        "file, got different ones"
                    )
            return SparkTable(frame, schema)

    def read_arrow(self, frame: pa.Table) -> SparkTable:
        """See `TableReader`."""
        with self._translate_errors():
            plain = spark_arrow.plain(frame)
            return SparkTable(self._session.createDataFrame(plain), plain.schema)

    def query(self, sql: str, tables: Mapping[str, SparkTable], schema: pa.Schema) -> SparkTable:
        """See `TableReader`."""
        with self._translate_errors():
            views = {name: self._view(table.frame) for name, table in tables.items()}
            return SparkTable(self._session.sql(sql.format(**views)), schema)

    def fetch(self, table: SparkTable) -> pa.Table:
        """See `TableReader`."""
        with self._translate_errors():
            return table.frame.toArrow().cast(table.schema)

    def close(self) -> None:
        """See `TableReader`. The caller's session stays open, with its settings restored."""
        self._stack.close()

    def _view(self, frame: Any) -> str:  # noqa: ANN401
        """Name a frame until the engine is closed, because Spark Connect looks the name up in every query."""
        name = f"phsafe_{uuid.uuid4().hex}"
        frame.createTempView(name)
        self._stack.callback(self._drop, name)
        return name

    def _drop(self, name: str) -> None:
        with contextlib.suppress(Exception), quietly():
            self._session.catalog.dropTempView(name)

    @contextlib.contextmanager
    def _translate_errors(self, *addresses: str) -> Iterator[None]:
        """Translate Spark errors, with reference to these addresses, or by default to all that were read."""
        self._addresses += addresses
        with translated(addresses or self._addresses), quietly():
            yield

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _holds_rows(system: Any, status: Any) -> bool:  # noqa: ANN401  (Hadoop's file system and the status of a file)
    """See `phsafe.readers.parquet.holds_rows`."""
    size = status.getLen()
    if size < 12:
        return False
    stream = system.open(status.getPath())
    try:
        start = bytes(stream.read() for _ in range(4))
        stream.seek(size - 8)
        return has_more_than_a_footer(start, bytes(stream.read() for _ in range(4)), size)
    finally:
        stream.close()


def _local_names(folder: str) -> list[str]:
    """The first hidden names below a folder, and markers that hold rows, as far as this machine sees the folder."""
    path = Path(folder.removeprefix("file://"))
    names = sorted(names_below(path)) if folder.startswith("file://") and path.is_dir() else []
    return [
        name
        for name in names
        if any(map(HIDDEN.fullmatch, name.split("/")))
        and (not MARKER.fullmatch(name.rpartition("/")[2]) or holds_rows(path / name))
    ][:NAMED]


def address_of(data: Location) -> str:
    """The full address of a file or folder. A path without a scheme is local, not on Spark's default file system.

    >>> address_of("s3a://bucket/census/"), address_of(Path("/data/census"))
    ('s3a://bucket/census', 'file:///data/census')
    """
    if isinstance(data, str) and is_address(data):
        return data.rstrip("/")
    return f"file://{Path(data).absolute()}"


def is_address(data: Location) -> bool:
    """Whether this is an address with a scheme rather than a path.

    >>> is_address("hdfs://node:8020/census"), is_address("data/census")
    (True, False)
    """
    return isinstance(data, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", data) is not None


def _path(address: str) -> str:
    """The path in an address, because Spark may write the rest with other slashes or a default host."""
    match = _ADDRESS.fullmatch(address)
    return (match.group(2) if match else address) or ""


def _literal(address: str) -> str:
    """An address in which the characters that Spark treats as wildcards are escaped."""
    return "".join(f"\\{c}" if c in "*?[]{}\\" else c for c in address)
