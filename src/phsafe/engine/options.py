"""How to open an engine, and what counting needs of one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import pyarrow as pa
from ibis.expr.types import Table

EngineName = Literal["duckdb", "spark"]
ENGINES: tuple[EngineName, ...] = ("duckdb", "spark")
#: A file or folder: a path on this machine, or an address such as ``hdfs://…`` that Spark reads.
Location = str | Path


@dataclass(frozen=True)
class EngineOptions:
    """How to open an engine. None leaves a setting to the engine.

    `threads`, `memory_limit` and `temp_dir` are DuckDB's. Spark takes a master or a Spark Connect address, settings,
    or a running `session` of either kind, which is left running.
    """

    engine: EngineName = "duckdb"
    threads: int | None = None
    memory_limit: str | None = None
    temp_dir: Path | None = None
    spark_master: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    session: Any = None


class Storage(Protocol):
    """How to look at files that only the engine can see."""

    def address(self, data: Location) -> str:
        """A folder's full address; a path is one of this machine."""

    def files(self, folder: str) -> dict[str, int]:
        """Names below a folder, with their sizes. Hidden files (``.`` or ``_`` in front) are left out."""

    def first_line(self, file: str) -> bytes:
        """The first line of a text file, without its line end."""


class Engine(Protocol):
    """What counting needs of an engine."""

    @property
    def storage(self) -> Storage | None:
        """How to look at files, where this program can't do so itself."""

    @property
    def passes_over(self) -> bool:
        """Whether filters pass over pieces of files that can hold no such row: many then cost less than one pass."""

    def read_csv(self, paths: Sequence[Location], header: Sequence[str], *, gzip: bool) -> Table:
        """CSV files with the given header, every column as text."""

    def read_lines(self, paths: Sequence[Location]) -> Table:
        """The lines of text files, in a column `line`, without their ends; empty ones are left out."""

    def read_parquet(self, paths: Sequence[Location], key: str) -> Table:
        """Parquet files with their own types. `key` is the column that parts are cut by."""

    def read_arrow(self, frame: pa.Table) -> Table:
        """A frame in memory."""

    def stored(self, table: Table, key: str) -> Table:
        """The same table in a form that is fast to read again and again, where the engine has one."""

    def each_part(
        self, tables: Sequence[Table], work: Callable[[Engine], None], progress: Callable[[float], None]
    ) -> None:
        """Work on every part of some tables, as they were read: all rows of a key are in one part.

        `work` is called with an engine to which the tables have only the rows of one part; perhaps from several
        threads at a time, but not before the first call has come back. `progress` is told the share that is done, by
        any of them, but by one at a time.
        """

    def frequent(self, keys: Table, limit: int) -> Table:
        """The keys (a table's one column) that stand there more than `limit` times, each once. Nulls are no keys."""

    def materialized(self, expression: Table) -> contextlib.AbstractContextManager[Table]:
        """The result of an expression, computed once and kept until the context ends.

        Equal expressions give the same table, so that what is built on it needs to be written only once for all parts.
        """

    def gathered(self, expression: Table, key: str) -> contextlib.AbstractContextManager[Table]:
        """The result of an expression until the context ends, in an order in which grouping it by a key is quick.

        For `work` in `each_part`: whether an order is needed depends on the files.
        """

    def fetch(self, expression: Table) -> pa.Table:
        """A small result."""

    def close(self) -> None:
        """Let go of everything, temporary files included."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...
