"""The accuracy study: count public data exactly (other data are refused), release it in memory many times, compare."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from phsafe.accuracy_study import count_errors, table_errors, truth
from phsafe.accuracy_study.count_errors import NoiseTest, Row
from phsafe.accuracy_study.trials import Trial, batches, make
from phsafe.accuracy_study.truncation_shares import shares
from phsafe.accuracy_study.variants import Variant, variants
from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.engines import EngineOptions
from phsafe.errors import DataError, PHSafeError, Reasons
from phsafe.model.spec import CatalogSource
from phsafe.pipeline.exact_tables import exact_lines
from phsafe.pipeline.scan import Settings, open_source
from phsafe.readers import DataSource
from phsafe.synthetic import MARK
from phsafe.system.atomic_writes import check_new_folder
from phsafe.system.progress import Progress, part, silent
from phsafe.system.workers import cores, in_order

TRIALS = 100
ESTIMATED = 10
#: The probability that a study reports correct noise as not as stated.
FALSE_ALARM = 0.001
MAX_JOBS = 8


@dataclass(frozen=True, repr=False)
class Accuracy:
    """The results of an accuracy study: errors as tidy Polars frames.

    In every frame, the columns THRESHOLDS (``config`` or the threshold tried) and SCALE (the factor of the budgets)
    identify the variant. The page on `phsafe accuracy` in the documentation explains the other columns.

    Attributes:
        config: The config under study.
        source: The data folder, or ``frames in memory``.
        variants: The variants of the config, starting with its own thresholds.
        tabulations: Errors of noisy counts, one row for each tabulation, level and variant.
        cells: The same for every published count.
        tables: Errors of finished tables, one row for each table, level, method and variant.
        lines: The same for every line of a table.
        tests: The pooled noise test of each variant.
        shares: Tabulation → threshold → percentage of people dropped by truncation.
        trials: Number of releases for each variant.
        estimated: Number of these releases that were finished into tables.
        false_alarm: The probability that correct noise fails any test of the study.
        empty_regions: Regions of the config in which the data have no people.
    """

    config: Config = field(repr=False)
    source: str
    variants: Sequence[Variant] = field(repr=False)
    tabulations: pl.DataFrame = field(repr=False)
    cells: pl.DataFrame = field(repr=False)
    tables: pl.DataFrame = field(repr=False)
    lines: pl.DataFrame = field(repr=False)
    tests: Sequence[NoiseTest] = field(repr=False)
    shares: Mapping[str, Mapping[int, float]] = field(repr=False)
    trials: int
    estimated: int
    false_alarm: float
    empty_regions: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"Accuracy({self.source!r}, {self.trials} trials, {len(self.variants)} variants)"

    @property
    def as_stated(self) -> bool:
        """Whether all noise is as large as stated, up to sampling error."""
        return bool(self.tabulations["AS_STATED"].all()) and all(test.as_stated for test in self.tests)

    def base(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Select the rows of the first variant: the config's own thresholds, with the first budget scale.

        Args:
            frame: `tabulations`, `cells`, `tables` or `lines`.

        Returns:
            The rows of the frame that belong to the first variant.
        """
        first = self.variants[0]
        return frame.filter(THRESHOLDS=first.thresholds, SCALE=float(first.scale))

    def write(self, out: str | Path) -> Path:
        """Write the study to a new folder: a report page, the frames, the threshold plot and the shares.

        The folder appears under its name only when it is complete.

        Args:
            out: The folder; it must not exist yet.

        Returns:
            The path of the folder.

        Raises:
            PHSafeError: If `out` exists or can't be written.
        """
        from phsafe.accuracy_study.study_output import write  # noqa: PLC0415

        return write(self, Path(out))


def accuracy(
    config: str | Path | Mapping[str, Any] | Config,
    data: DataSource,
    out: str | Path | None = None,
    *,
    trials: int = TRIALS,
    estimate_trials: int | None = None,
    tau: Sequence[int] = (),
    scale: Sequence[Decimal | float | str] = (),
    sensitivity: str | None = None,
    public: bool = False,
    false_alarm: float = FALSE_ALARM,
    allow_unclassified: bool = False,
    skip_validation: bool = False,
    catalog: CatalogSource | None = None,
    options: EngineOptions | None = None,
    jobs: int | None = None,
    progress: Progress = silent,
) -> Accuracy:
    """Measure the errors of a release by repeating it in memory on public data. NOT PRIVATE.

    Each variant of the config (every threshold with every budget scale) is released `trials` times and compared with
    exact counts. No ledger is charged, so the data must be public.

    Args:
        config: A config, its file, or its document as a mapping.
        data: A data folder, or a mapping of frames named persons, units and geo.
        out: Folder to write the report to; it must not exist yet. By default nothing is written.
        trials: Number of releases for each variant, at least 2.
        estimate_trials: Number of these releases to finish into tables by both methods (default: at most 10).
        tau: Thresholds to try in addition to the config's own; each applies to all tabulations of persons.
        scale: Factors to multiply all budgets by (default: 1).
        sensitivity: Sensitivity mode to use instead of the config's own.
        public: Confirm that the data are public. Not needed for a folder that contains the file PUBLIC, which
            `phsafe.synth` and `phsafe.pums` write.
        false_alarm: The probability that correct noise fails any test of the study.
        allow_unclassified: Count records even if no iteration of a level applies to them.
        skip_validation: Count without validating the data first.
        catalog: The tables and levels to count: a `Catalog`, or a JSON or TOML file of one.
        options: Engine and its settings.
        jobs: Number of worker processes (default: one per core, at most 8).
        progress: Called with a description and the share of the work that is done.

    Returns:
        The errors, as tidy frames.

    Raises:
        PHSafeError: If the config, the data or an argument is invalid, if the data are not known to be public, or if
            `out` exists.

    Example:
        >>> import phsafe
        >>> study = phsafe.accuracy(
        ...     "examples/acs-ri.json", "tests/data/small", trials=2, estimate_trials=0, tau=[2, 4], public=True, jobs=1
        ... )
        >>> study.shares["PH2"]  # percentage of people dropped at each threshold
        {2: 60.0, 4: 31.42857, 10: 0.0}
        >>> rows = study.tabulations.filter(TABULATION="PH2", LEVEL="state_*")
        >>> rows.select("THRESHOLDS", "TAU", "TRUNCATION_BIAS").rows()
        [('config', 10, 0.0), ('2', 2, -2.625), ('4', 4, -1.375)]
    """
    reasons = Reasons()
    loaded = reasons.check(lambda: Config.load(config, catalog).with_sensitivity(sensitivity))
    reasons.check(check_public, data, public)
    with ExitStack() as stack:
        reader = loaded.reader if loaded else None
        reasons.check(stack.enter_context, open_source(data, options, reader))
    if out is not None:
        reasons.check(check_new_folder, Path(out))
    estimated = min(ESTIMATED, trials) if estimate_trials is None else estimate_trials
    reasons.check(_check_trials, trials, estimated)
    plan = reasons.check(variants, loaded, tau, scale) if loaded is not None else None
    reasons.settle()
    assert loaded is not None
    assert plan is not None
    # Public microdata often cover only a few states of a config, and nothing is released.
    settings = Settings(allow_unclassified=allow_unclassified, skip_validation=skip_validation, allow_empty_states=True)
    untruncated, truncated = truth.exact_counts(
        [one.config for one in plan], data, settings, options, part(progress, 0.0, 0.2)
    )
    if not exact_lines(loaded, untruncated):
        estimated = 0
    cut = [truncated[truth.thresholds(one.config)] for one in plan]
    alpha = false_alarm / (len(plan) * count_errors.tests_of(loaded))
    releases = _releases(plan, cut, trials, estimated, jobs, part(progress, 0.2, 1.0))
    parts = [
        _measure(one, untruncated, counts, made, alpha) for one, counts, made in zip(plan, cut, releases, strict=True)
    ]
    progress("writing", 1.0)
    study = Accuracy(
        config=loaded, source=source_of(data), variants=plan,
        tabulations=_frame([row for one in parts for row in one.tabulations]),
        cells=pl.concat([frame for one in parts for frame in one.cells]),
        tables=_frame([row for one in parts for row in one.tables]),
        lines=pl.concat([pl.DataFrame(), *(frame for one in parts for frame in one.lines)], how="diagonal"),
        tests=[one.test for one in parts], shares=shares(plan, untruncated, truncated),
        trials=trials, estimated=estimated, false_alarm=false_alarm,
        empty_regions=truth.empty_regions(loaded, untruncated),
    )  # fmt: skip
    if out is not None:
        study.write(out)
    return study


def check_public(data: DataSource, public: bool) -> None:
    """Raise DataError unless the data are known to be public: a study shows exact errors and charges no ledger."""
    marked = not isinstance(data, Mapping) and (Path(data) / MARK).is_file()
    if not (marked or public):
        raise DataError(
            f"{source_of(data)}: expected public data, marked by a file {MARK} as written by phsafe synth and phsafe "
            "pums, because exact errors are not private; for other public data add --i-know-this-is-public"
        )


def source_of(data: DataSource) -> str:
    """The name of the data in reports and messages."""
    return "frames in memory" if isinstance(data, Mapping) else os.fspath(data)


def _check_trials(trials: int, estimated: int) -> None:
    if trials < 2:
        raise PHSafeError(f"trials: expected 2 or more, got {trials}")
    if not 0 <= estimated <= trials:
        raise PHSafeError(f"estimate-trials: expected 0 to {trials} (all trials), got {estimated}")


def _releases(
    plan: Sequence[Variant],
    counts: Sequence[grid.Counts],
    trials: int,
    estimated: int,
    jobs: int | None,
    progress: Progress,
) -> Iterator[list[Trial]]:
    """Yield the releases of each variant in turn; workers continue with the next while this process measures errors."""
    work = [list(batches(one.config, cut, trials, estimated)) for one, cut in zip(plan, counts, strict=True)]
    results = in_order(make, itertools.chain(*work), jobs or min(cores(), MAX_JOBS))
    for i, (one, own) in enumerate(zip(plan, work, strict=True)):
        made = []
        for j in range(len(own)):
            progress(f"releasing in memory: {one.name}", (i + j / len(own)) / len(plan))
            made.append(next(results))
        yield made


@dataclass(frozen=True)
class _VariantErrors:
    """The errors of one variant."""

    tabulations: list[Row]
    cells: list[pl.DataFrame]
    tables: list[Row]
    lines: list[pl.DataFrame]
    test: NoiseTest


def _measure(
    variant: Variant, untruncated: grid.Counts, truncated: grid.Counts, made: Sequence[Trial], alpha: float
) -> _VariantErrors:
    noisy = {key: np.concatenate([one.noisy[key] for one in made]) for key in made[0].noisy}
    exact = exact_lines(variant.config, untruncated)
    plain = table_errors.plain_lines(variant, exact, [release for one in made for release in one.plain])
    found = list(count_errors.errors(variant, untruncated, truncated, noisy))
    tables = list(
        table_errors.finished(
            variant,
            exact,
            exact_lines(variant.config, truncated),
            [release for one in made for release in one.finished],
        )
    )
    order = [output.name for output, _ in variant.config.outputs()]
    rows = [row for one in found for row in count_errors.rows_of(one, alpha)]
    return _VariantErrors(
        tabulations=sorted(rows, key=lambda row: (order.index(row["TABULATION"]), row["TERMS"])),
        cells=[count_errors.cells_of(one) for one in found],
        tables=[row for one in tables for row in table_errors.rows_of(one)],
        lines=[*(table_errors.lines_of(one) for one in tables), *plain],
        test=count_errors.pooled(variant, found, alpha),
    )


#: Types of columns that may contain only nulls.
_TYPES = {"TAU": pl.Int64, "COVERAGE_ERROR": pl.Float64}


def _frame(rows: Sequence[Row]) -> pl.DataFrame:
    types = {name: dtype for name, dtype in _TYPES.items() if rows and name in rows[0]}
    return pl.DataFrame(rows, schema_overrides=types, infer_schema_length=None)
