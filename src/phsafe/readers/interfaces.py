"""Engine options, and the interfaces through which readers open tables with an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa

EngineName = Literal["duckdb", "spark"]
ENGINES: tuple[EngineName, ...] = ("duckdb", "spark")
#: The end of a hidden name that the engine finds but can't tell.
UNKNOWN = "[._]*"
#: A file or folder: a path on this machine, or an address such as ``hdfs://…`` that Spark reads.
Location = str | Path


@dataclass(frozen=True)
class EngineOptions:
    """Where and how `validate`, `tabulate` and `release` count.

    `threads`, `memory_limit` and `temp_dir` apply to the engine ``duckdb``; `spark_master`, `spark_conf` and `session`
    apply to ``spark``. An option of the other engine is refused when the engine is opened.

    Args:
        engine: ``duckdb`` counts on this machine, ``spark`` on a Spark cluster.
        threads: The number of DuckDB threads and of worker processes; None for one per core.
        memory_limit: How much memory DuckDB may use, such as ``4GB``; None for DuckDB's default. It doesn't limit the
            worker processes, each of which holds one partition.
        temp_dir: The folder for temporary files, which contain confidential records; None for the system's. The files
            are readable by their owner only, and removed at the end.
        spark_master: A Spark master such as ``local[4]``, ``spark://HOST:7077`` or ``yarn``, or a Spark Connect address
            such as ``sc://HOST:15002``. None uses the session that runs in this process, ``SPARK_REMOTE`` or Spark's
            own configuration.
        spark_conf: Spark settings for the new session, which take precedence over ``spark-defaults.conf``.
        session: A running Spark session, classic or Spark Connect, to use instead of a new one. It is left running, and
            its settings are restored.

    Example:
        >>> EngineOptions(threads=2, memory_limit="4GB").engine
        'duckdb'
        >>> EngineOptions("spark", spark_master="local[4]", spark_conf={"spark.driver.memory": "4g"}).spark_master
        'local[4]'

    """

    engine: EngineName = "duckdb"
    threads: int | None = None
    memory_limit: str | None = None
    temp_dir: Path | None = None
    spark_master: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    session: Any = None


class Storage(Protocol):
    """Access to files that only the engine may be able to see."""

    def address(self, data: Location) -> str:
        """The full address of a file or folder; a path without a scheme is local."""

    def files(self, folder: str) -> dict[str, int]:
        """The names and sizes of all files below a folder, except hidden ones (starting with ``.`` or ``_``)."""

    def hidden(self, folder: str, depth: int) -> list[str]:
        """The names below a folder that `files` leaves out, except markers; one ends in `UNKNOWN` if they are unknown.

        Folders are known to be nested at least `depth` times.
        """

    def first_line(self, file: str) -> bytes:
        """The first line of a text file, without its line end."""


class EngineTable(Protocol):
    """A table that an engine has opened. Its columns have the types of the source."""

    @property
    def schema(self) -> pa.Schema: ...  # noqa: D102


class TableReader(Protocol):
    """The part of an engine that opens tables, as the readers of each format use it."""

    @property
    def storage(self) -> Storage | None:
        """Access to files through the engine; None if this process reads files itself."""

    def read_csv(self, path: Location, header: Sequence[str], *, gzip: bool) -> EngineTable:
        """Open a CSV file with the given header, every column as text."""

    def read_lines(self, paths: Sequence[Location]) -> EngineTable:
        """Open text files as a table with one column, `line`, without line ends and empty lines."""

    def read_parquet(self, paths: Sequence[Location]) -> EngineTable:
        """Open Parquet files with their own types."""

    def read_arrow(self, frame: pa.Table) -> EngineTable:
        """Open a frame in memory."""

    def query(self, sql: str, tables: Mapping[str, Any], schema: pa.Schema) -> EngineTable:
        """Open the result of a query in SQL that all engines support; ``{name}`` refers to a table."""

    def fetch(self, table: Any) -> pa.Table:  # noqa: ANN401  (a table that this engine opened)
        """The rows of a small table."""
