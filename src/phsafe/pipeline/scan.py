"""One scan of a data source, with its settings: open, count and check it in one pass (validate, tabulate, release)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from phsafe.configs.config import Config
from phsafe.configs.grid import Counts
from phsafe.counting.plan import Plan
from phsafe.counting.vectorize import Tabulated
from phsafe.engines import Engine, EngineOptions, open_engine
from phsafe.errors import DataError
from phsafe.pipeline.validation import ValidationReport, report
from phsafe.readers import DataSource, Tables, prepare
from phsafe.readers.duckdb_errors import MalformedTextError
from phsafe.system.progress import Progress, silent


@dataclass(frozen=True)
class Settings:
    """How to count. A release records these in the ledger only, because most of them reveal something about the data.

    Attributes:
        truncate: Leave out the persons beyond the truncation thresholds.
        allow_unclassified: Accept records that fit no cell of a universe.
        skip_validation: Don't check the rules.
        allow_empty_states: Accept states of the filter without housing units, and empty tables.

    """

    truncate: bool = True
    allow_unclassified: bool = False
    skip_validation: bool = False
    allow_empty_states: bool = False


@dataclass(frozen=True)
class Source:
    """A data source with its files and columns checked, and the engine that reads it."""

    engine: Engine
    #: Opens the tables; raises a `DataError` for problems that only reading them shows.
    tables: Callable[[], Tables]


@contextmanager
def open_source(data: DataSource, options: EngineOptions | None = None, reader: str | None = None) -> Iterator[Source]:
    """Open a data source.

    Args:
        data: A data folder, a Census Edited File or frames.
        options: The engine to open; by default DuckDB.
        reader: The config's reader; without one, the format is recognised from the source.

    Raises:
        DataError: The files, columns or types are wrong; lists every problem visible without counting.

    """
    with open_engine(options) as engine:
        yield Source(engine, prepare(data, engine, reader))


def scan_tables(
    tables: Tables,
    config: Config,
    engine: Engine,
    *,
    validates: bool = True,
    examples: int = 0,
    progress: Progress = silent,
) -> Tabulated:
    """Count and check every row of the input tables in one pass.

    Args:
        tables: The input.
        config: What to count.
        engine: The engine that opened the tables.
        validates: Whether to check the rules. Counts don't depend on it.
        examples: How many household keys to keep for each violated rule.
        progress: Called with the current stage and the share of the work done.

    Raises:
        DataError: A column that a level needs is missing.

    """
    plan = Plan(config)
    plan.check_columns(tables.tables["geo"].schema.names)
    kernel = plan.kernel(examples, validates=validates)
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
    """Count every measurement of a config exactly. Not private.

    Raises:
        DataError: The input can't be read, or violates a rule. The error names no rule, because that would reveal
            something about the data; `phsafe validate` does.

    """
    with open_source(data, options, config.reader) as source:
        return count_source(config, source, settings, progress)


def count_source(config: Config, source: Source, settings: Settings, progress: Progress = silent) -> Counts:
    """Count an open source, like `count`."""
    tables = source.tables()
    validates = not settings.skip_validation
    tabulated = scan_tables(tables, config, source.engine, validates=validates, progress=progress)
    if validates:
        found = report(
            tabulated, tables.extra, allow_unclassified=settings.allow_unclassified,
            allow_empty_states=settings.allow_empty_states,
        )  # fmt: skip
        if not found.ok:
            raise DataError("the input failed validation; run phsafe validate to see which rules are violated")
    return tabulated.counts(truncate=settings.truncate)


def validate_source(
    config: Config,
    source: Source,
    *,
    allow_unclassified: bool = False,
    allow_empty_states: bool = False,
    examples: int = 0,
    progress: Progress = silent,
) -> ValidationReport:
    """Check an open source against every rule. Unlike the errors of `count_source`, these name a malformed line."""
    try:
        tables = source.tables()
        tabulated = scan_tables(tables, config, source.engine, examples=examples, progress=progress)
    except MalformedTextError as error:
        raise error.located() from None
    return report(tabulated, tables.extra, allow_unclassified=allow_unclassified, allow_empty_states=allow_empty_states)
