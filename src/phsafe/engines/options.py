"""How to open an engine, and what an engine does: it reads tables and hands their rows to the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import pyarrow as pa

from phsafe.counting.kernel import Counted, Kernel

EngineName = Literal["duckdb", "spark"]
ENGINES: tuple[EngineName, ...] = ("duckdb", "spark")
#: A file or folder: a path on this machine, or an address such as ``hdfs://…`` that Spark reads.
Location = str | Path


@dataclass(frozen=True)
class EngineOptions:
    """How to open an engine. None leaves a setting to the engine.

    Attributes:
        engine: Where to count: ``duckdb`` (this machine) or ``spark``.
        threads: How many threads to use; DuckDB only, like the next two.
        memory_limit: How much memory DuckDB may use, such as ``4GB``.
        temp_dir: Where to put temporary files.
        spark_master: A Spark master or a Spark Connect address.
        spark_conf: Settings of Spark.
        session: A running Spark session of either kind, which is left running.

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


class EngineTable(Protocol):
    """A table that an engine has opened."""

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types, as the source has them."""


class Engine(Protocol):
    """What the rest of the program needs of an engine."""

    @property
    def storage(self) -> Storage | None:
        """How to look at files, where this program can't do so itself."""

    def read_csv(self, path: Location, header: Sequence[str], *, gzip: bool) -> EngineTable:
        """Open a CSV file with the given header, every column as text."""

    def read_lines(self, paths: Sequence[Location]) -> EngineTable:
        """Open text files: their lines in a column `line`, without line ends; empty lines are left out."""

    def read_parquet(self, paths: Sequence[Location], key: str) -> EngineTable:
        """Open Parquet files with their own types. `key` is the column of the household key."""

    def read_arrow(self, frame: pa.Table) -> EngineTable:
        """Open a frame in memory."""

    def query(self, sql: str, tables: Mapping[str, Any], schema: pa.Schema) -> EngineTable:
        """Open the result of a query, in SQL that every engine understands.

        Args:
            sql: The query, with ``{name}`` in place of a table.
            tables: The tables by name.
            schema: The columns of the result.

        """

    def fetch(self, table: Any) -> pa.Table:  # noqa: ANN401  (a table that this engine opened)
        """The rows of a small table."""

    def scan(self, tables: Mapping[str, Any], kernel: Kernel, progress: Callable[[float], None]) -> Counted:
        """Hand every row to the kernel once: all rows of a key in one partition, each partition in key order.

        Args:
            tables: Persons, units and geo.
            kernel: What to do with a partition.
            progress: Told the share of the work that is done.

        Returns:
            What the kernel counted.

        """

    def close(self) -> None:
        """Release everything, temporary files included."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...
