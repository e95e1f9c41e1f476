"""One scan of a data source: open, read, count and check. What validate, tabulate and release share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from phsafe.config import Config
from phsafe.counting.plan import Plan
from phsafe.counting.vectorize import Tabulated
from phsafe.engines import Engine, EngineOptions, open_engine
from phsafe.errors import DataError
from phsafe.grid import Counts
from phsafe.progress import Progress, silent
from phsafe.readers import DataSource, Tables, prepare
from phsafe.validation.report import Report, report


@dataclass(frozen=True)
class Settings:
    """How to count. All but the first say something about the data, so a release keeps them in the ledger only.

    Attributes:
        truncate: Whether to leave out the persons beyond the thresholds.
        allow_unclassified: Whether a row that fits no cell is a warning rather than an error.
        skip_validation: Whether to ignore what the rules find.

    """

    truncate: bool = True
    allow_unclassified: bool = False
    skip_validation: bool = False


@dataclass(frozen=True)
class Source:
    """A data source whose files and columns have been checked, and the engine that reads it."""

    engine: Engine
    #: Opens the tables, or raises a `DataError` with what only reading them shows.
    tables: Callable[[], Tables]


@contextmanager
def open_source(data: DataSource, options: EngineOptions | None = None, reader: str | None = None) -> Iterator[Source]:
    """Open a data source.

    Args:
        data: A folder, or frames.
        options: The engine to open; by default DuckDB.
        reader: The config's reader; without one, a source is read as what it looks like.

    Raises:
        DataError: Every problem that can be seen without counting: files, columns and types.

    """
    with open_engine(options) as engine:
        yield Source(engine, prepare(data, engine, reader))


def scan_tables(
    tables: Tables, config: Config, engine: Engine, *, examples: int = 0, progress: Progress = silent
) -> Tabulated:
    """Count and check every row of the input tables once.

    Args:
        tables: The input.
        config: What to count.
        engine: The engine that opened the tables.
        examples: How many keys of offenders to keep for each rule.
        progress: Told how far the scan is.

    Raises:
        DataError: A column that a level needs is missing.

    """
    plan = Plan(config)
    plan.check_columns(tables.tables["geo"].schema.names)
    kernel = plan.kernel(examples)
    progress("counting", 0.0)
    counted = engine.scan(tables.tables, kernel, lambda done: progress("counting", done))
    progress("counted", 1.0)
    return Tabulated(plan, counted)


def count(
    config: Config,
    data: DataSource,
    settings: Settings,
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> Counts:
    """The exact counts of every measurement of a config. Not private.

    Raises:
        DataError: The input can't be read, or breaks a rule. How it does is for `phsafe validate` to say, to those who
            may know.

    """
    with open_source(data, options, config.reader) as source:
        return count_source(config, source, settings, progress)


def count_source(config: Config, source: Source, settings: Settings, progress: Progress = silent) -> Counts:
    """The same over a source that is open."""
    tables = source.tables()
    tabulated = scan_tables(tables, config, source.engine, progress=progress)
    if not settings.skip_validation:
        found = report(tabulated, tables.extra, allow_unclassified=settings.allow_unclassified)
        if not found.ok:
            raise DataError("the input did not pass validation; phsafe validate says what is wrong")
    return tabulated.counts(truncate=settings.truncate)


def validate_source(
    config: Config,
    source: Source,
    *,
    allow_unclassified: bool = False,
    examples: int = 0,
    progress: Progress = silent,
) -> tuple[Report, Tabulated]:
    """Check every rule of a source that is open."""
    tables = source.tables()
    tabulated = scan_tables(tables, config, source.engine, examples=examples, progress=progress)
    return report(tabulated, tables.extra, allow_unclassified=allow_unclassified), tabulated
