"""Spark on a cluster, through Ibis and SQL only: nothing of ours runs on the workers.

Everything is text of SQL and calls that Spark Connect has too, so one class serves both kinds of session. Files are
looked at by Spark alone, because this machine may not see them.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from ibis.expr.types import Table

from phsafe.engine import spark_arrow, spark_csv, spark_session
from phsafe.engine.options import Engine, EngineOptions, Location, Storage
from phsafe.engine.spark_errors import in_words, quietly, within
from phsafe.errors import DataError

#: Settings that change what an expression means or what is read, and what they must be. DuckDB has these meanings.
PINNED = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.variable.substitute": "false",
}
#: Settings that Ibis makes.
TOUCHED = ("spark.sql.session.timeZone", "spark.sql.mapKeyDedupPolicy")
#: Seconds in which Spark must say what lies in a folder. It needs no worker for that.
LOOK = 45.0
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://([^/]*))?(/.*)?", re.DOTALL)


class Spark:
    """A Spark session, its own or one given, with every setting that matters pinned until it is closed."""

    def __init__(self, options: EngineOptions) -> None:
        self._stack = contextlib.ExitStack()
        self._places: list[str] = []
        try:
            self._session = self._stack.enter_context(spark_session.session_of(options))
            self._stack.enter_context(spark_session.pinned(self._session, PINNED, TOUCHED))
            with self._in_words(), quietly():
                import ibis  # noqa: PLC0415  (its PySpark part is loaded here)

                from phsafe.engine.spark_dialect import Compiler  # noqa: PLC0415

                self._ibis = ibis.pyspark.connect(self._session)
                self._ibis.compiler = Compiler()
        except BaseException:
            self._stack.close()
            raise

    @property
    def storage(self) -> Storage | None:
        """See `Engine`. Spark may see other files than this program."""
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
        with self._in_words(file):
            return spark_csv.first_line(self._session, _literal(file))

    @property
    def passes_over(self) -> bool:
        """See `Engine`. Each filter would be a pass of its own, over text too."""
        return False

    def read_csv(self, paths: Sequence[Location], header: Sequence[str], *, gzip: bool) -> Table:
        """See `Engine`. Lines are checked before any is read; Spark's own CSV reader would guess at bad ones.

        Whether a file is gzipped Spark sees from its name.
        """
        (place,) = map(address_of, paths)
        with self._in_words(place):
            first = spark_csv.first_line(self._session, _literal(place))
            view = self._view(spark_csv.lines(self._session, _literal(place), first))
            if not spark_csv.is_clean(self._session, view, first, len(header)):
                raise DataError(
                    f"{place}: expected CSV in UTF-8 with one kind of line end, none inside a value, "
                    "and as many columns as the header, got something else"
                )
            return self._table(spark_csv.rows(self._session, view, first, header))

    def read_lines(self, paths: Sequence[Location]) -> Table:
        """See `Engine`."""
        places = [address_of(path) for path in paths]
        with self._in_words(*places):
            first = spark_csv.first_line(self._session, _literal(places[0]))
            lines = spark_csv.lines(self._session, [_literal(place) for place in places], first)
            return self._table(lines.selectExpr("value AS line").filter("line <> ''"))

    def read_parquet(self, paths: Sequence[Location], key: str) -> Table:
        """See `Engine`. All files must have the same columns; nothing is taken from the names of folders."""
        places = [address_of(path) for path in paths]
        with self._in_words(*places):
            literal = [_literal(place) for place in places]
            frame = self._session.read.option("mergeSchema", "true").parquet(*literal)
            if len(places) > 1:
                first = self._session.read.parquet(literal[0])
                if _columns(first) != _columns(frame):
                    raise DataError(
                        f"{places[0].rpartition('/')[0]}: expected the same columns and types in every Parquet file, "
                        "got others"
                    )
            return self._table(frame)

    def read_arrow(self, frame: pa.Table) -> Table:
        """See `Engine`."""
        with self._in_words():
            return self._table(self._session.createDataFrame(spark_arrow.plain(frame)))

    def stored(self, table: Table, key: str) -> Table:
        """See `Engine`. Lines of text are read anew for each query; what is large had better come as Parquet."""
        return table

    def each_part(
        self, tables: Sequence[Table], work: Callable[[Engine], None], progress: Callable[[float], None]
    ) -> None:
        """See `Engine`. Spark cuts its work by itself: one part."""
        work(self)
        progress(1.0)

    def frequent(self, keys: Table, limit: int) -> Table:
        """See `Engine`."""
        (name,) = keys.columns
        known = keys.filter(keys[name].notnull())
        counted = known.group_by(name).agg(times=known.count())
        return counted.filter(counted.times > limit).select(name)

    @contextlib.contextmanager
    def materialized(self, expression: Table) -> Iterator[Table]:
        """See `Engine`. A worker that is lost takes its part along; Spark computes that part again, to the same."""
        with self._in_words():
            frame = self._sql(expression)
            frame.persist()
        try:
            with self._in_words():
                frame.count()
                table = self._table(frame)
            yield table
        finally:
            with contextlib.suppress(Exception), quietly():
                frame.unpersist()

    def gathered(self, expression: Table, key: str) -> contextlib.AbstractContextManager[Table]:
        """See `Engine`. Spark brings the rows of a key together by itself."""
        return contextlib.nullcontext(expression)

    def fetch(self, expression: Table) -> pa.Table:
        """See `Engine`."""
        with self._in_words():
            return self._sql(expression).toArrow().cast(expression.schema().to_pyarrow())

    def close(self) -> None:
        """See `Engine`. A session that was given stays open, as it was."""
        self._stack.close()

    def _sql(self, expression: Table) -> Any:  # noqa: ANN401
        return self._session.sql(self._ibis.compile(expression))

    def _table(self, frame: Any) -> Table:  # noqa: ANN401
        return self._ibis.table(self._view(frame))

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


def _columns(frame: Any) -> set[tuple[str, str]]:  # noqa: ANN401
    return {(field.name, field.dataType.simpleString()) for field in frame.schema.fields}
