"""How to open an engine, and what readers need of it: to open tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa

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
    """A table that an engine has opened: its columns have the types of the source."""

    @property
    def schema(self) -> pa.Schema: ...  # noqa: D102


class TableReader(Protocol):
    """What opens tables, for readers of each format: an engine."""

    @property
    def storage(self) -> Storage | None:
        """How to look at files, where this program can't do so itself."""

    def read_csv(self, path: Location, header: Sequence[str], *, gzip: bool) -> EngineTable:
        """Open a CSV file with the given header, every column as text."""

    def read_lines(self, paths: Sequence[Location]) -> EngineTable:
        """Open text files: their lines in a column `line`, without line ends; empty lines are left out."""

    def read_parquet(self, paths: Sequence[Location]) -> EngineTable:
        """Open Parquet files with their own types."""

    def read_arrow(self, frame: pa.Table) -> EngineTable:
        """Open a frame in memory."""

    def query(self, sql: str, tables: Mapping[str, Any], schema: pa.Schema) -> EngineTable:
        """Open the result of a query, in SQL that all engines understand, with ``{name}`` in place of a table."""

    def fetch(self, table: Any) -> pa.Table:  # noqa: ANN401  (a table that this engine opened)
        """The rows of a small table."""
