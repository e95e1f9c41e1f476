"""From a config and public data to a report of errors: count, release in memory, compare."""

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

from phsafe import grid
from phsafe.appraisal import errors, finished, truth
from phsafe.appraisal.errors import NoiseTest, Row
from phsafe.appraisal.scenarios import Scenario, scenarios
from phsafe.appraisal.shares import shares
from phsafe.appraisal.trials import Made, batches, make
from phsafe.config import Config
from phsafe.engines import EngineOptions
from phsafe.errors import DataError, PHSafeError, Reasons
from phsafe.files import check_absent
from phsafe.progress import Progress, part, silent
from phsafe.readers import DataSource
from phsafe.scan import Settings, open_source
from phsafe.spec import Catalog
from phsafe.synthesis import MARK
from phsafe.tables import CENSUS_2020
from phsafe.workers import cores, in_order

TRIALS = 100
ESTIMATED = 10
#: The chance that a report says that sound noise is not as stated, anywhere in it.
FALSE_ALARM = 0.001
MOST_JOBS = 8


@dataclass(frozen=True)
class Accuracy:
    """Errors, as tidy frames. `write` makes a folder of them, with a page for people.

    `tabulations` (noisy counts) and `tables` (finished ones) have a row for each level and scenario, `cells` and
    `lines` one for each published number. `shares` are the people lost at each threshold, in percent.
    """

    config: Config = field(repr=False)
    source: str
    scenarios: Sequence[Scenario] = field(repr=False)
    tabulations: pl.DataFrame = field(repr=False)
    cells: pl.DataFrame = field(repr=False)
    tables: pl.DataFrame = field(repr=False)
    lines: pl.DataFrame = field(repr=False)
    tests: Sequence[NoiseTest] = field(repr=False)
    shares: Mapping[str, Mapping[int, float]] = field(repr=False)
    trials: int
    estimated: int
    false_alarm: float
    #: Regions of the config in which the data have nobody.
    nowhere: Sequence[str] = ()

    @property
    def as_stated(self) -> bool:
        """Whether all noise is as large as stated, within sampling error."""
        return bool(self.tabulations["AS_STATED"].all()) and all(test.as_stated for test in self.tests)

    def base(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of the first scenario: the config's thresholds, with the first of the budgets."""
        first = self.scenarios[0]
        return frame.filter(THRESHOLDS=first.thresholds, SCALE=float(first.scale))

    def write(self, out: str | Path) -> Path:
        """Write the page, the frames, the plot and the shares to a new folder: whole, or not at all."""
        from phsafe.appraisal.output import write  # noqa: PLC0415

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
    catalog: Catalog = CENSUS_2020,
    options: EngineOptions | None = None,
    jobs: int | None = None,
    progress: Progress = silent,
) -> Accuracy:
    """Release `trials` times in memory and compare with the truth, under each threshold and budget. NOT PRIVATE.

    The data must be public: a folder with the marker that `synth` and `pums` write, or your word (`public=True`).
    The first `estimate_trials` releases (default: 10) are finished too. `jobs` processes share the work. The report
    is written to the folder `out`, if one is named.
    """
    reasons = Reasons()
    loaded = reasons.check(lambda: Config.load(config, catalog).with_sensitivity(sensitivity))
    reasons.check(check_public, data, public)
    with ExitStack() as looking:
        reader = loaded.reader if loaded else None
        reasons.check(looking.enter_context, open_source(data, options, reader))
    if out is not None:
        reasons.check(check_absent, Path(out))
    estimated = min(ESTIMATED, trials) if estimate_trials is None else estimate_trials
    reasons.check(_check_trials, trials, estimated)
    plan = reasons.check(scenarios, loaded, tau, scale) if loaded is not None else None
    reasons.settle()
    assert loaded is not None
    assert plan is not None
    settings = Settings(allow_unclassified=allow_unclassified, skip_validation=skip_validation)
    everybody, truncated = truth.exact_counts(
        [one.config for one in plan], data, settings, options, part(progress, 0.0, 0.2)
    )
    if not truth.lines(loaded, everybody):
        estimated = 0
    cut = [truncated[truth.thresholds(one.config)] for one in plan]
    alpha = false_alarm / (len(plan) * errors.tests_of(loaded))
    releases = _releases(plan, cut, trials, estimated, jobs, part(progress, 0.2, 1.0))
    parts = [
        _appraise(one, everybody, counts, made, alpha) for one, counts, made in zip(plan, cut, releases, strict=True)
    ]
    progress("writing", 1.0)
    report = Accuracy(
        config=loaded, source=source_of(data), scenarios=plan,
        tabulations=_frame([row for one in parts for row in one.tabulations]),
        cells=pl.concat([frame for one in parts for frame in one.cells]),
        tables=_frame([row for one in parts for row in one.tables]),
        lines=pl.concat([pl.DataFrame(), *(frame for one in parts for frame in one.lines)], how="diagonal"),
        tests=[one.test for one in parts], shares=shares(plan, everybody, truncated),
        trials=trials, estimated=estimated, false_alarm=false_alarm, nowhere=truth.nowhere(loaded, everybody),
    )  # fmt: skip
    if out is not None:
        report.write(out)
    return report


def check_public(data: DataSource, public: bool) -> None:
    """Refuse data that nobody has called public: these are exact errors of exact counts, and no ledger is charged."""
    marked = not isinstance(data, Mapping) and (Path(data) / MARK).is_file()
    if not (marked or public):
        raise DataError(
            f"{source_of(data)}: expected public data, with a file {MARK} as phsafe synth and phsafe pums write it, "
            "because exact errors are not private; for other public data say --i-know-this-is-public"
        )


def source_of(data: DataSource) -> str:
    """What to call the data."""
    return "frames in memory" if isinstance(data, Mapping) else os.fspath(data)


def _check_trials(trials: int, estimated: int) -> None:
    if trials < 2:
        raise PHSafeError(f"trials: expected 2 or more, got {trials}")
    if not 0 <= estimated <= trials:
        raise PHSafeError(f"estimate-trials: expected 0 to {trials} (all trials), got {estimated}")


def _releases(
    plan: Sequence[Scenario],
    counts: Sequence[grid.Counts],
    trials: int,
    estimated: int,
    jobs: int | None,
    progress: Progress,
) -> Iterator[list[Made]]:
    """The releases of one scenario after another, by processes that go on while this one appraises."""
    work = [list(batches(one.config, cut, trials, estimated)) for one, cut in zip(plan, counts, strict=True)]
    results = in_order(make, itertools.chain(*work), jobs or min(cores(), MOST_JOBS))
    for i, (one, own) in enumerate(zip(plan, work, strict=True)):
        made = []
        for j in range(len(own)):
            progress(f"releasing in memory: {one.name}", (i + j / len(own)) / len(plan))
            made.append(next(results))
        yield made


@dataclass(frozen=True)
class _Part:
    """What one scenario adds to the report."""

    tabulations: list[Row]
    cells: list[pl.DataFrame]
    tables: list[Row]
    lines: list[pl.DataFrame]
    test: NoiseTest


def _appraise(
    scenario: Scenario, everybody: grid.Counts, truncated: grid.Counts, made: Sequence[Made], alpha: float
) -> _Part:
    noisy = {key: np.concatenate([one.noisy[key] for one in made]) for key in made[0].noisy}
    found = list(errors.errors(scenario, everybody, truncated, noisy))
    tables = list(
        finished.finished(
            scenario,
            truth.lines(scenario.config, everybody),
            truth.lines(scenario.config, truncated),
            [release for one in made for release in one.finished],
        )
    )
    order = [output.name for output, _ in scenario.config.outputs()]
    rows = [row for one in found for row in errors.rows_of(one, alpha)]
    return _Part(
        tabulations=sorted(rows, key=lambda row: (order.index(row["TABULATION"]), row["TERMS"])),
        cells=[errors.cells_of(one) for one in found],
        tables=[row for one in tables for row in finished.rows_of(one)],
        lines=[finished.lines_of(one) for one in tables],
        test=errors.pooled(scenario, found, alpha),
    )


#: Columns that may hold nothing at all.
_TYPES = {"TAU": pl.Int64, "COVERAGE_ERROR": pl.Float64}


def _frame(rows: Sequence[Row]) -> pl.DataFrame:
    types = {name: kind for name, kind in _TYPES.items() if rows and name in rows[0]}
    return pl.DataFrame(rows, schema_overrides=types, infer_schema_length=None)
