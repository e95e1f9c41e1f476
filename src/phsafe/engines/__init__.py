"""Where the counting runs: on this machine with DuckDB and Arrow, or on a Spark cluster.

An engine reads tables and hands their rows to the kernel, partition by partition in key order. It knows nothing of
cells, rules or noise.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from dataclasses import replace

from phsafe.engines.duckdb import DuckDB
from phsafe.engines.engine import Engine
from phsafe.errors import PHSafeError
from phsafe.readers.options import ENGINES, EngineOptions, Location, Storage

__all__ = ["ENGINES", "DuckDB", "Engine", "EngineOptions", "Location", "Storage", "open_engine", "started"]

#: How many files a run may have open at once, with room to spare.
MOST_FILES = 64


def open_engine(options: EngineOptions | None = None) -> Engine:
    """Open the engine that the options name."""
    chosen = options or EngineOptions()
    _check(chosen)
    _check_open_files()
    if chosen.engine == "spark":
        from phsafe.engines.spark import Spark  # noqa: PLC0415  (PySpark is an extra)

        return Spark(chosen)
    return DuckDB(chosen)


@contextlib.contextmanager
def started(options: EngineOptions | None = None) -> Iterator[EngineOptions]:
    """Options under which engines open at once: what takes long to start is started once, and stopped at the end."""
    chosen = options or EngineOptions()
    _check(chosen)
    if chosen.engine == "duckdb" or chosen.session is not None:
        yield chosen
        return
    from phsafe.readers.spark_session import session_of  # noqa: PLC0415  (PySpark is an extra)

    with session_of(chosen) as session:
        yield replace(chosen, spark_master=None, spark_conf={}, session=session)


def _check(options: EngineOptions) -> None:
    """Refuse an engine that there isn't, and settings of the other one."""
    if options.engine not in ENGINES:
        raise PHSafeError(f"expected one of {', '.join(ENGINES)} as the engine, got {options.engine}")
    if options.engine == "duckdb" and (options.spark_master or options.spark_conf or options.session is not None):
        raise PHSafeError("a Spark master, session or settings need the engine spark, got duckdb")
    if options.engine == "spark" and (
        options.threads is not None or options.memory_limit is not None or options.temp_dir is not None
    ):
        raise PHSafeError(
            "threads, memory limit and temp folder are settings of DuckDB; "
            "Spark takes its own, such as --spark-conf spark.driver.memory=4g"
        )


def _check_open_files() -> None:
    """Refuse a limit on open files that libraries would break at in the middle, in words that nobody understands."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if MOST_FILES <= soft or soft == resource.RLIM_INFINITY:
        return
    if hard != resource.RLIM_INFINITY and hard < MOST_FILES:
        raise PHSafeError(
            f"expected a limit of {MOST_FILES} open files at least, got {hard}; raise it (ulimit -n 1024)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, hard))
