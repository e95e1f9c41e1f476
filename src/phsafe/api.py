"""The commands as Python calls. Each takes what its command takes, or objects in place of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from phsafe.config import Config
from phsafe.engines import EngineOptions
from phsafe.exact_counts import tidy
from phsafe.folder import Release
from phsafe.progress import Progress, silent
from phsafe.readers import DataSource
from phsafe.releasing import default_ledger, release_tables
from phsafe.scan import Settings, count, open_source, validate_source
from phsafe.spec import Catalog
from phsafe.tables import CENSUS_2020
from phsafe.validation.report import Report

ConfigSource = str | Path | Mapping[str, Any] | Config


def validate(
    config: ConfigSource,
    data: DataSource,
    *,
    allow_unclassified: bool = False,
    catalog: Catalog = CENSUS_2020,
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> Report:
    """Check every rule of the input; `report.ok` says whether there is no error. NOT PRIVATE.

    >>> report = validate("examples/us.json", "tests/data/small")
    >>> report.ok, len(report.of("warning"))
    (True, 5)
    """
    loaded = Config.load(config, catalog)
    with open_source(data, options, loaded.reader) as source:
        report, _ = validate_source(loaded, source, allow_unclassified=allow_unclassified, progress=progress)
        return report


def tabulate(
    config: ConfigSource,
    data: DataSource,
    *,
    truncate: bool = True,
    allow_unclassified: bool = False,
    skip_validation: bool = False,
    catalog: Catalog = CENSUS_2020,
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> pl.DataFrame:
    """Exact counts on the full grid, zeros included, in one tidy frame. NOT PRIVATE.

    `data` is a folder, or frames named persons, units and geo. A `catalog` brings your own tables and levels.

    >>> counts = tabulate("examples/us.json", "tests/data/small")
    >>> counts.filter(TABULATION="PH1_denom", REGION_TYPE="USA", ITERATION_CODE="*")["COUNT"].item()
    374
    """
    loaded = Config.load(config, catalog)
    settings = Settings(truncate, allow_unclassified, skip_validation)
    return tidy(loaded, count(loaded, data, settings, options, progress))


def release(
    config: ConfigSource,
    data: DataSource,
    out: str | Path,
    *,
    ledger: str | Path | None = None,
    sensitivity: str | None = None,
    allow_unclassified: bool = False,
    skip_validation: bool = False,
    catalog: Catalog = CENSUS_2020,
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> Release:
    """Publish noisy measurements to a new folder, charging the ledger first (default: the one beside the data).

    The result opens the folder: ``.table("PH3")`` is a Polars frame. `Release.open` reads one later.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as home:
    ...     made = release("examples/us.json", "tests/data/small", f"{home}/release", ledger=f"{home}/small.ledger")
    ...     made.tables, made.table("PH3").height
    (('PH1', 'PH2', 'PH3', 'PH4', 'PH5', 'PH6', 'PH7', 'PH8'), 3640)
    """
    loaded = Config.load(config, catalog).with_sensitivity(sensitivity)
    settings = Settings(allow_unclassified=allow_unclassified, skip_validation=skip_validation)
    path = Path(ledger) if ledger is not None else default_ledger(data)
    made, _ = release_tables(loaded, data, Path(out), path, settings, options, progress)
    return made
