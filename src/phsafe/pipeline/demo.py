"""The demo: every step on two synthetic states, in seconds."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.estimation import Estimates, estimate
from phsafe.model import exact_numbers
from phsafe.model.spec import Table
from phsafe.pipeline.exact_tables import finished_tables
from phsafe.pipeline.publish import publish
from phsafe.pipeline.release_ledger import LedgerChoice
from phsafe.pipeline.scan import Settings, count
from phsafe.releases.release_folder import Release
from phsafe.reports import report
from phsafe.synthetic import synth
from phsafe.system.atomic_writes import check_new_folder
from phsafe.system.progress import Progress, part, silent

#: One large and one small state.
STATES = ("06", "56")
HOUSEHOLDS = 100_000
SEED = 2020


@dataclass(frozen=True)
class Demo:
    """The results of the demo, and the folder that holds them."""

    folder: Path
    config: Config
    release: Release
    estimates: Estimates
    truth: Mapping[str, pl.DataFrame]

    def against_truth(self, table: Table, region: str) -> Iterator[tuple[str, float, float, float, float]]:
        """Yield the lines of a table for everyone in a region: label, truth, estimate, lower and upper bound."""
        frame, exact = (
            tables[table.name].filter(REGION_ID=region, ITERATION_CODE="*")
            for tables in (self.estimates.tables, self.truth)
        )
        for line, row, true in zip(table.shell, frame.iter_rows(named=True), exact["ESTIMATE"], strict=True):
            label = f"{'  ' * line.indent}{line.label}"
            yield label, true, row["ESTIMATE"], row["LOWER_90"], row["UPPER_90"]


def run(out: Path, progress: Progress = silent) -> Demo:
    """Make data, validate, release, estimate and report, all in the new folder `out`."""
    check_new_folder(out)
    out.mkdir()
    try:
        return _run(out, progress)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise


def free_name(folder: Path) -> Path:
    """Return the folder's name, or, if that is taken, the name with the first free number appended."""
    names = (folder if i == 1 else folder.with_name(f"{folder.name}-{i}") for i in itertools.count(1))
    return next(name for name in names if not os.path.lexists(name))


def _run(out: Path, progress: Progress) -> Demo:
    data, file = out / "data", out / "config.json"
    made = part(progress, 0.0, 0.3)
    synth(
        data,
        HOUSEHOLDS,
        ",".join(STATES),
        SEED,
        progress=lambda done, total: made("making data", done / total),
    )
    file.write_text(exact_numbers.dumps(parameters_2020() | {"state_filter": list(STATES)}) + "\n")
    config = Config.load(file)
    release = publish(
        config,
        data,
        out / "release",
        LedgerChoice(out / "population.ledger", is_new=True, population="Two made-up states"),
        Settings(),
        progress=part(progress, 0.3, 0.7),
    )
    progress("estimating", 0.7)
    estimates = estimate(release)
    estimates.write(out / "estimates")
    report(release, out / "report.html", estimates=estimates, title="Two synthetic states")
    # Only the truth of synthetic data may be shown beside a release.
    truth = finished_tables(config, count(config, data, Settings(truncate=False, skip_validation=True)))
    progress("done", 1.0)
    return Demo(out, config, release, estimates, truth)
