"""`phsafe validate`, `tabulate` and `release` as Python calls. The command line makes the same calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from phsafe.configs.config import Config
from phsafe.engines import EngineOptions, started
from phsafe.errors import Reasons
from phsafe.model.exact_numbers import Exact
from phsafe.model.spec import CatalogSource
from phsafe.pipeline.exact_counts import tidy, write_counts
from phsafe.pipeline.publish import publish
from phsafe.pipeline.release_ledger import LedgerChoice, default_ledger
from phsafe.pipeline.scan import Settings, Source, count_source, open_source, validate_source
from phsafe.pipeline.validation import ValidationReport
from phsafe.readers import DataSource
from phsafe.releases.release_folder import Release
from phsafe.system.atomic_writes import check_new_folder
from phsafe.system.progress import Progress, silent

ConfigSource = str | Path | Mapping[str, Any] | Config


def validate(
    config: ConfigSource,
    data: DataSource,
    *,
    allow_unclassified: bool = False,
    allow_empty_states: bool = False,
    examples: int = 0,
    catalog: CatalogSource | None = None,
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> ValidationReport:
    """Check the input against every validation rule. NOT PRIVATE.

    Args:
        config: A config: a JSON or TOML file, a mapping, or a loaded `Config`.
        data: A folder with the tables persons, units and geo, each as CSV or Parquet; a TOML or INI file that names
            the files of a Census Edited File; or a mapping of these three names to Polars, pandas or Arrow frames.
        allow_unclassified: Report records that fit no cell of a universe as a warning instead of an error.
        allow_empty_states: Report states of the filter without housing units, and empty tables, as a warning instead of
            an error.
        examples: How many household keys to keep for each violated rule, in `report.offenders`. Confidential.
        catalog: The tables and levels to validate for: a `Catalog`, or a JSON or TOML file of one; by default PH1–PH8
            of the 2020 Census.
        options: Which engine counts, and its settings; by default DuckDB on all cores.
        progress: Called with the current stage and the share of the work done.

    Returns:
        The findings. `report.ok` is true if there is no error.

    Raises:
        PHSafeError: The config or the data can't be read; lists every problem.

    Example:
        >>> report = validate("examples/us.json", "tests/data/small")
        >>> report.ok, len(report.of("warning"))
        (True, 5)

    """
    with _opened(config, data, catalog, options) as (loaded, source):
        return validate_source(
            loaded, source, allow_unclassified=allow_unclassified, allow_empty_states=allow_empty_states,
            examples=examples, progress=progress,
        )  # fmt: skip


def tabulate(
    config: ConfigSource,
    data: DataSource,
    out: str | Path | None = None,
    *,
    truncate: bool = True,
    allow_unclassified: bool = False,
    allow_empty_states: bool = False,
    skip_validation: bool = False,
    catalog: CatalogSource | None = None,
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> pl.DataFrame:
    """Count exactly, on the full grid, zeros included. NOT PRIVATE.

    Args:
        config: A config: a JSON or TOML file, a mapping, or a loaded `Config`.
        data: A data folder, a Census Edited File or frames, as for `validate`.
        out: A folder to write the counts to as well, in the layout of a release; it must not exist yet.
        truncate: Leave out the persons beyond the truncation thresholds, as a release does.
        allow_unclassified: Accept records that fit no cell of a universe.
        allow_empty_states: Accept states of the filter without housing units, and empty tables.
        skip_validation: Don't check the rules.
        catalog: The tables and levels to count: a `Catalog`, or a JSON or TOML file of one; by default PH1–PH8
            of the 2020 Census.
        options: Which engine counts, and its settings; by default DuckDB on all cores.
        progress: Called with the current stage and the share of the work done.

    Returns:
        One tidy frame: TABULATION, REGION_TYPE, REGION_ID, ITERATION_CODE, DATA_CELL, COUNT.

    Raises:
        PHSafeError: The config, the data or the output folder is unusable, or validation found an error.

    Example:
        >>> counts = tabulate("examples/us.json", "tests/data/small")
        >>> counts.filter(TABULATION="PH1_denom", REGION_TYPE="USA", ITERATION_CODE="*")["COUNT"].item()
        374

    """
    folder = None if out is None else Path(out)
    with _opened(config, data, catalog, options, folder) as (loaded, source):
        settings = Settings(truncate, allow_unclassified, skip_validation, allow_empty_states)
        counts = count_source(loaded, source, settings, progress)
        if folder is not None:
            write_counts(loaded, counts, folder)
    return tidy(loaded, counts)


def exact_tables(
    config: ConfigSource,
    data: DataSource,
    out: str | Path | None = None,
    *,
    truncate: bool = False,
    allow_unclassified: bool = False,
    allow_empty_states: bool = False,
    skip_validation: bool = False,
    catalog: CatalogSource | None = None,
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> dict[str, pl.DataFrame]:
    """Make finished tables from exact counts, for people who review a release. NOT PRIVATE.

    Args:
        config: A config as for `tabulate`; its budgets are ignored and may be missing, and every level is counted.
        data: A data folder, a Census Edited File or frames, as for `validate`.
        out: A folder to write the tables to as well, as `phsafe tabulate --finished` does; it must not exist yet.
        truncate: Leave out the persons beyond the truncation thresholds, as a release does.
        allow_unclassified: Accept records that fit no cell of a universe.
        allow_empty_states: Accept states of the filter without housing units, and empty tables.
        skip_validation: Don't check the rules.
        catalog: The tables and levels to count: a `Catalog`, or a JSON or TOML file of one; by default PH1–PH8
            of the 2020 Census.
        options: Which engine counts, and its settings; by default DuckDB on all cores.
        progress: Called with the current stage and the share of the work done.

    Returns:
        The tables by name, in the layout of `phsafe.estimate` without intervals. The average of a group without
        households is null.

    Raises:
        PHSafeError: The config, the data or the output folder is unusable, or validation found an error.

    Example:
        >>> tables = exact_tables("examples/us.json", "tests/data/small")
        >>> tables["PH7"].filter(REGION_TYPE="USA", ITERATION_CODE="*")["ESTIMATE"].to_list()
        [1711, 420, 444, 847]

    """
    from phsafe.pipeline.exact_tables import finished_tables, write_finished  # noqa: PLC0415  (loads SciPy)

    folder = None if out is None else Path(out)
    with _opened(config, data, catalog, options, folder, Config.at_every_level) as (loaded, source):
        settings = Settings(truncate, allow_unclassified, skip_validation, allow_empty_states)
        tables = finished_tables(loaded, count_source(loaded, source, settings, progress))
        if folder is not None:
            write_finished(tables, folder)
    return tables


def release(
    config: ConfigSource,
    data: DataSource,
    out: str | Path,
    *,
    ledger: str | Path | None = None,
    new_ledger: bool = False,
    cap: Exact | None = None,
    population: str | None = None,
    max_rho: Exact | None = None,
    sensitivity: str | None = None,
    allow_unclassified: bool = False,
    allow_empty_states: bool = False,
    skip_validation: bool = False,
    catalog: CatalogSource | None = None,
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> Release:
    """Publish noisy measurements to a new folder, after charging their privacy loss to the ledger.

    Args:
        config: A config: a JSON or TOML file, a mapping, or a loaded `Config`.
        data: A data folder, a Census Edited File or frames, as for `validate`.
        out: The release folder to write; it must not exist yet.
        ledger: The population's ledger; by default the file beside the data folder with its name and ``.ledger``. It
            must exist.
        new_ledger: Create the ledger, with its keys in ``FILE.key`` (keep it secret) and ``FILE.pub``.
        cap: The cap of a new ledger, in ρ; by default the loss of this config.
        population: Whom a new ledger is for; by default the ``population`` of the config, or its states.
        max_rho: The largest unbounded loss allowed for this release, in ρ; by default the ledger's, or 10.
        sensitivity: How one person's effect is bounded: ``published``, ``tight``, ``tight-bounded`` or
            ``structured``; by default the config's mode. All but ``published`` assume that geography is public, and
            can protect a whole household less.
        allow_unclassified: Accept records that fit no cell of a universe.
        allow_empty_states: Accept states of the filter without housing units, and empty tables.
        skip_validation: Don't check the rules.
        catalog: The tables and levels to publish: a `Catalog`, or a JSON or TOML file of one; by default PH1–PH8
            of the 2020 Census.
        options: Which engine counts, and its settings; by default DuckDB on all cores.
        progress: Called with the current stage and the share of the work done.

    Returns:
        The release, opened: ``release.table("PH3")`` is a Polars frame. `Release.open` opens it again later.

    Raises:
        PHSafeError: The release was refused or failed. The message says whether its loss was charged.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as home:
        ...     ledger = f"{home}/small.ledger"
        ...     made = release("examples/us.json", "tests/data/small", f"{home}/out", ledger=ledger, new_ledger=True)
        ...     made.tables, made.table("PH3").height
        (('PH1', 'PH2', 'PH3', 'PH4', 'PH5', 'PH6', 'PH7', 'PH8'), 3640)

    """
    loaded = Config.load(config, catalog).with_sensitivity(sensitivity)
    settings = Settings(
        allow_unclassified=allow_unclassified, skip_validation=skip_validation, allow_empty_states=allow_empty_states
    )
    path = Path(ledger) if ledger is not None else default_ledger(data)
    choice = LedgerChoice(path, new_ledger, cap, population, max_rho)
    return publish(loaded, data, Path(out), choice, settings, options, progress)


@contextmanager
def _opened(
    config: ConfigSource,
    data: DataSource,
    catalog: CatalogSource | None,
    options: EngineOptions | None,
    out: Path | None = None,
    load: Callable[[ConfigSource, CatalogSource | None], Config] = Config.load,
) -> Iterator[tuple[Config, Source]]:
    """Load the config and open the data, or raise every problem of both and of the output folder together."""
    with started(options) as running, ExitStack() as reading:
        reasons = Reasons()
        loaded = reasons.check(load, config, catalog)
        reader = loaded.reader if loaded else None
        source = reasons.check(reading.enter_context, open_source(data, running, reader))
        if out is not None:
            reasons.check(check_new_folder, out)
        reasons.settle()
        assert loaded is not None
        assert source is not None
        yield loaded, source
