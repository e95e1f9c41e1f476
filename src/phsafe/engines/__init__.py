"""Counting engines: this machine, with DuckDB and Arrow, or a Spark cluster. Chooses one and checks its options.

An engine reads tables and passes their rows to the kernel, partition by partition, in key order. It knows nothing about
cells, rules or noise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol, Self

from phsafe.counting.kernel import Kernel
from phsafe.counting.tallies import Counted
from phsafe.engines.duckdb_engine import DuckDB
from phsafe.errors import PHSafeError
from phsafe.readers.interfaces import ENGINES, EngineOptions, Location, Storage, TableReader
from phsafe.system.open_files import check_open_files

__all__ = ["ENGINES", "DuckDB", "Engine", "EngineOptions", "Location", "Storage", "open_engine", "started"]


class Engine(TableReader, Protocol):
    """What the rest of the program uses of an engine."""

    def scan(self, tables: Mapping[str, Any], kernel: Kernel, progress: Callable[[float], None]) -> Counted:
        """Pass every row of persons, units and geo to the kernel exactly once, and add up the results.

        All rows of a household key are in one partition, and each partition is in key order. `progress` is called with
        the share of the work that is done.
        """

    def close(self) -> None:
        """Release all resources, including temporary files."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


def open_engine(options: EngineOptions | None = None) -> Engine:
    """Open the engine named in the options (by default DuckDB)."""
    chosen = options or EngineOptions()
    _check(chosen)
    check_open_files()
    if chosen.engine == "spark":
        from phsafe.engines.spark_engine import Spark  # noqa: PLC0415  (PySpark is an extra)

        return Spark(chosen)
    return DuckDB(chosen)


@contextlib.contextmanager
def started(options: EngineOptions | None = None) -> Iterator[EngineOptions]:
    """Start the Spark session, if one is needed, and stop it at the end; yields options for engines that share it."""
    chosen = options or EngineOptions()
    _check(chosen)
    if chosen.engine == "duckdb" or chosen.session is not None:
        yield chosen
        return
    from phsafe.readers.spark_session import session_of  # noqa: PLC0415  (PySpark is an extra)

    with session_of(chosen) as session:
        yield replace(chosen, spark_master=None, spark_conf={}, session=session)


def _check(options: EngineOptions) -> None:
    """Refuse unknown engines, and options that belong to the other engine."""
    if options.engine not in ENGINES:
        raise PHSafeError(f"expected one of {', '.join(ENGINES)} as the engine, got {options.engine}")
    if options.engine == "duckdb" and (options.spark_master or options.spark_conf or options.session is not None):
        raise PHSafeError("a Spark master, session or setting needs the engine spark, got duckdb; add --engine spark")
    if options.engine == "spark" and (
        options.threads is not None or options.memory_limit is not None or options.temp_dir is not None
    ):
        raise PHSafeError(
            "threads, memory limit and temporary folder are options of the engine duckdb; "
            "configure Spark with its own settings, such as --spark-conf spark.driver.memory=4g"
        )
