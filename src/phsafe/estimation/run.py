"""From a release to finished tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import polars as pl

from phsafe import grid
from phsafe.config import Config
from phsafe.errors import PHSafeError
from phsafe.estimation.averages import Bounds
from phsafe.estimation.diagnostics import diagnostics
from phsafe.estimation.fit import fit
from phsafe.estimation.independent import Independent
from phsafe.estimation.joint import Joint
from phsafe.estimation.lines import counted, ratios
from phsafe.estimation.measured import Measured, measured
from phsafe.estimation.points import points
from phsafe.estimation.result import COLUMNS, Estimates, Method
from phsafe.estimation.rounding import Summary, rounded
from phsafe.folder import Release
from phsafe.levels import Level
from phsafe.spec import Table

#: A level, the numbers of some lines, and their summary.
Lines = tuple[Level, list[int], Summary]


def estimate(release: Release | str | Path, method: str = "joint", *, force: bool = False) -> Estimates:
    """Finished tables from a release folder alone; the same release gives the same tables.

    `independent` fits every table and group on its own, as in 2020; `joint` uses everything that must add up.
    """
    opened = release if isinstance(release, Release) else Release.open(release, force=force)
    names = {m.tabulation.name for m in opened.config.measurements()}
    frames = {name: opened.measurements(name) for name in sorted(names)}
    made = estimate_frames(opened.config, frames, method)
    about = {"method": made.method, "release_id": opened.release_id, **made.diagnostics}
    return replace(made, diagnostics=about, release_id=opened.release_id)


def estimate_frames(config: Config, frames: Mapping[str, pl.DataFrame], method: str = "joint") -> Estimates:
    """The same from a config and the frames of its measured tabulations."""
    if method not in get_args(Method):
        raise PHSafeError(f"method: expected one of {', '.join(get_args(Method))}, got {method}")
    release = measured(config, frames)
    fitted = fit(release)
    agreed = points(release, fitted) if method == "joint" else None
    model = Independent(release) if agreed is None else Joint(release, fitted, agreed)
    tables: dict[str, pl.DataFrame] = {}
    left_out: dict[str, str] = {}
    for table in config.catalog.tables:
        parts = [_frame(config, table, lines) for lines in _lines(release, model, table)]
        if parts:
            tables[table.name] = _in_order(config, pl.concat(parts))
        else:
            left_out[table.name] = _why(release, table)
    if not tables:
        raise PHSafeError([f"{name}: {why}" for name, why in left_out.items()])
    about = diagnostics(release, fitted, agreed, left_out)
    return Estimates("joint" if agreed else "independent", config, tables, {"method": method, **about})


def _lines(release: Measured, model: Independent | Joint, table: Table) -> Iterator[Lines]:
    """Every level of a table that the release can make, with its lines."""
    if (tabulation := counted(table)) is not None:
        for block in release.of([tabulation]):
            yield block.level, [line.number for line in table.shell], model.counts(table, block)
    for ratio in ratios(release.config.catalog, table):
        bounds = Bounds(ratio.at_least, release.config.tau[ratio.numerator.name])
        for below in release.of([ratio.denominator]):
            above = release.block(ratio.numerator, below.level)
            if above is not None:
                summary = rounded(ratio, bounds, model.averages(ratio, above, below))
                yield below.level, [number for number, _ in ratio.lines], summary


def _frame(config: Config, table: Table, lines: Lines) -> pl.DataFrame:
    level, numbers, summary = lines
    groups = list(level.groups(config.states))
    labels = {line.number: line.label for line in table.shell}
    kind = pl.Int64 if table.average is None else pl.Float64
    values = {
        name: pl.Series(np.asarray(array).ravel()).cast(kind) for name, array in zip(COLUMNS[5:], summary, strict=True)
    }
    return pl.DataFrame(
        {
            "REGION_TYPE": [level.geography.region_type] * (len(groups) * len(numbers)),
            "REGION_ID": [region for region, _ in groups for _ in numbers],
            "ITERATION_CODE": [iteration.code for _, iteration in groups for _ in numbers],
            "CELL": pl.Series(numbers * len(groups), dtype=pl.Int64),
            "LABEL": [labels[number] for number in numbers] * len(groups),
            **values,
        }
    )


def _in_order(config: Config, frame: pl.DataFrame) -> pl.DataFrame:
    return grid.in_file_order(config, frame.rename({"CELL": "DATA_CELL"})).rename({"DATA_CELL": "CELL"})


def _why(release: Measured, table: Table) -> str:
    """Why a table can't be made from a release."""
    if (tabulation := counted(table)) is not None:
        return f"the release has no measurements of {tabulation.name}"
    needed = dict.fromkeys(t for r in ratios(release.config.catalog, table) for t in (r.numerator, r.denominator))
    missing = [t.name for t in needed if not release.of([t])]
    if missing:
        return f"the release has no measurements of {' and '.join(missing)}"
    return f"the release has no level with both {' and '.join(t.name for t in needed)}"
