"""From a data source to exact counts: open an engine, read, validate, tabulate. What tabulate and release share."""

from __future__ import annotations

from dataclasses import dataclass

from phsafe.config import Config
from phsafe.engine import EngineOptions
from phsafe.errors import DataError
from phsafe.grid import Counts
from phsafe.progress import Progress, silent
from phsafe.source import DataSource, Source, open_source
from phsafe.tabulation import tabulate_tables
from phsafe.validation import validate_and_tabulate


@dataclass(frozen=True)
class Settings:
    """How to count. All but the first say something about the data, so a release keeps them in the ledger only."""

    truncate: bool = True
    allow_unclassified: bool = False
    skip_validation: bool = False


def count(
    config: Config,
    data: DataSource,
    settings: Settings,
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> Counts:
    """The exact counts of every measurement of a config. Not private.

    An input that breaks a rule is refused without a word about how: `phsafe validate` is for those who may know.
    """
    with open_source(data, options, config.reader) as source:
        return count_source(config, source, settings, progress)


def count_source(config: Config, source: Source, settings: Settings, progress: Progress = silent) -> Counts:
    """The same over a source that is open."""
    tables, engine = source.tables(), source.engine
    if settings.skip_validation:
        counted = tabulate_tables(tables, config, engine, truncate=settings.truncate, progress=progress)
    else:
        report, counted = validate_and_tabulate(
            tables, config, engine,
            truncate=settings.truncate, allow_unclassified=settings.allow_unclassified, progress=progress,
        )  # fmt: skip
        if not report.ok:
            raise DataError("the input did not pass validation; phsafe validate says what is wrong")
    return counted.counts(truncate=settings.truncate)
