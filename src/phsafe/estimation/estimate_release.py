"""Estimating finished tables from a release: chooses the method and the target, and puts the tables together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl

from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.estimation.beyond_threshold import Everybody, everybody
from phsafe.estimation.consistent_points import points
from phsafe.estimation.densities import Z_90
from phsafe.estimation.diagnostics import diagnostics
from phsafe.estimation.estimates import STD_ERROR, VALUES, Estimates, Method, Target
from phsafe.estimation.everybody_ties import tied
from phsafe.estimation.fit import CellEstimates, fit
from phsafe.estimation.independent_model import Independent
from phsafe.estimation.joint_model import Joint
from phsafe.estimation.measurement_vector import Measured, measured
from phsafe.estimation.public_shares import public_shares
from phsafe.estimation.published_lines import published_lines
from phsafe.estimation.rounding import Summary, bracketed, rounded
from phsafe.estimation.table_lines import counted, ratios
from phsafe.model.levels import Level
from phsafe.model.spec import Table
from phsafe.releases.release_folder import Release

#: A level, the line numbers estimated for it, and their summary.
Lines = tuple[Level, list[int], Summary]


def estimate(
    release: Release | str | Path, method: str = "joint", *, target: str | None = None, force: bool = False
) -> Estimates:
    """Estimate finished tables, with 90 % intervals, from a release.

    This is postprocessing: it uses only the release, so it costs no privacy. The same release always gives the same
    tables.

    Args:
        release: A release, or the path of its folder.
        method: "joint" uses all measurements together and makes the tables consistent; "independent" is the 2020
            method, which estimates every table and population group from its own measurements only.
        target: "everybody" includes the people beyond the truncation thresholds, "truncated" leaves them out. The
            default is everybody, except for the independent method, which can estimate only truncated values.
        force: Accept a folder that fails verification. Ignored if `release` is a `Release`.

    Returns:
        The finished tables. Tables that the release has too few measurements for are left out; `diagnostics` says
        which and why.

    Raises:
        PHSafeError: If the release folder is incomplete or was changed (see `Release.open`), the method is unknown, or
            no table can be estimated from the measurements.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> import phsafe
        >>> with TemporaryDirectory() as home:
        ...     release = phsafe.release(
        ...         "examples/acs-ri.json",
        ...         "tests/data/small",
        ...         f"{home}/release",
        ...         ledger=f"{home}/small.ledger",
        ...         new_ledger=True,
        ...     )
        ...     estimates = phsafe.estimate(release)
        >>> list(estimates.tables)
        ['PH1', 'PH2', 'PH3', 'PH4', 'PH5', 'PH6']
        >>> estimates.diagnostics["left_out"]["PH7"]
        'the release has no measurements of PH7'
    """
    opened = release if isinstance(release, Release) else Release.open(release, force=force)
    names = {m.tabulation.name for m in opened.config.measurements()}
    frames = {name: opened.measurements(name) for name in sorted(names)}
    estimates = estimate_frames(opened.config, frames, method, target)
    details = {"method": estimates.method, "release_id": opened.release_id, **estimates.diagnostics}
    return replace(estimates, diagnostics=details, release_id=opened.release_id)


def estimate_frames(
    config: Config, frames: Mapping[str, pl.DataFrame], method: str = "joint", target: str | None = None
) -> Estimates:
    """Estimate finished tables from a config and its noisy measurements, without a release folder.

    Args:
        config: The config of the measurements.
        frames: Tabulation name → its noisy measurements.
        method: "joint" or "independent", as for `estimate`.
        target: "everybody" or "truncated", as for `estimate`.
    """
    chosen = _chosen(method, target)
    release = measured(config, frames)
    fitted = fit(release)
    cells = tied(release, everybody(release, fitted)) if chosen == "everybody" else fitted
    model = joint(release, cells) if method == "joint" else Independent(release)
    consistent = model.points if isinstance(model, Joint) else None
    tables: dict[str, pl.DataFrame] = {}
    left_out: dict[str, str] = {}
    for table in config.catalog.tables:
        parts = [_frame(config, table, lines) for lines in _lines(release, model, table)]
        if parts:
            tables[table.name] = _in_order(config, pl.concat(parts))
        else:
            left_out[table.name] = _reason_left_out(release, table)
    if not tables:
        raise PHSafeError([f"{name}: {reason}" for name, reason in left_out.items()])
    details = {"method": method, "target": chosen, **diagnostics(release, fitted, consistent, left_out)}
    if isinstance(cells, Everybody):
        details["truncation"] = _truncation(release, cells)
    return Estimates(
        "joint" if consistent else "independent",
        config,
        tables,
        details,
        model=model if isinstance(model, Joint) else None,
    )


def _chosen(method: str, target: str | None) -> str:
    """Check the method and the target, and return the target."""
    problems = []
    if method not in get_args(Method):
        problems.append(f"method: expected one of {', '.join(get_args(Method))}, got {method}")
    if target not in (None, *get_args(Target)):
        problems.append(f"target: expected one of {', '.join(get_args(Target))}, got {target}")
    elif method == "independent" and target == "everybody":
        problems.append(
            "target: expected truncated with the independent method, which leaves truncation as is; got everybody"
        )
    if problems:
        raise PHSafeError(problems)
    return target or ("truncated" if method == "independent" else "everybody")


def _truncation(release: Measured, cells: Everybody) -> dict[str, Any]:
    """How the people beyond the thresholds were estimated, and how many they are."""
    return {
        "people": _people_beyond(release, cells),
        "measured": [tabulation.name for tabulation in cells.measured],
        "public_shares": public_shares().source,
        "about": cells.about,
        "without_shares": list(cells.unknown),
    }


def _people_beyond(release: Measured, cells: Everybody) -> dict[str, dict[str, int]]:
    """Tabulation → the people beyond its threshold in all regions together, with a 90 % interval."""
    found: dict[str, dict[str, int]] = {}
    for block in cells.known(release.blocks.values()):
        name = block.tabulation.name
        if not block.tabulation.is_truncated or name in found or not block.level.iteration_level.covers:
            continue
        number, variance = cells.dropped(block)
        margin = float(Z_90 * np.sqrt(variance))
        found[name] = {
            "estimate": round(max(number, 0)),
            "lower": int(np.floor(max(number - margin, 0))),
            "upper": int(np.ceil(max(number + margin, 0))),
        }
    return found


def joint(release: Measured, cells: CellEstimates) -> Joint:
    """Build the joint model: consistent points, and a standard deviation for every published line."""
    lines = published_lines(release)
    scale = np.sqrt(cells.variance(lines.sums))
    # Points move only because noise makes counts negative or inconsistent. Uncertainty about the people beyond the
    # thresholds hardly does.
    noise = np.sqrt(cells.fit.variance(lines.sums)) if isinstance(cells, Everybody) else scale
    consistent = points(release, cells, lines, np.minimum(scale, noise))
    return Joint(release, cells, lines, scale, consistent, truncated=not isinstance(cells, Everybody))


def _lines(release: Measured, model: Independent | Joint, table: Table) -> Iterator[Lines]:
    """Yield the lines of every level of a table that the release has measurements for."""
    if (tabulation := counted(table)) is not None:
        for block in release.of([tabulation]):
            yield block.level, [line.number for line in table.shell], model.counts(table, block)
    of_table = ratios(release.config.catalog, table)
    for denominator in release.of([ratio.denominator for ratio in of_table]):
        numerator = release.block(of_table[0].numerator, denominator.level)
        if numerator is None:
            continue
        summaries = [
            rounded(ratio, model.bounds(ratio, numerator), model.averages(ratio, numerator, denominator))
            for ratio in of_table
        ]
        if isinstance(model, Joint):
            summaries = bracketed(of_table, summaries)
        for ratio, summary in zip(of_table, summaries, strict=True):
            yield denominator.level, [number for number, _ in ratio.lines], summary


def _frame(config: Config, table: Table, lines: Lines) -> pl.DataFrame:
    level, numbers, summary = lines
    groups = list(level.groups(config.states))
    labels = {line.number: line.label for line in table.shell}
    dtype = pl.Int64 if table.average is None else pl.Float64
    values = {
        name: pl.Series(np.asarray(array).ravel()).cast(pl.Float64 if name == STD_ERROR else dtype)
        for name, array in zip(VALUES, summary, strict=True)
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


def _reason_left_out(release: Measured, table: Table) -> str:
    """Say why a table can't be estimated from a release."""
    if (tabulation := counted(table)) is not None:
        return f"the release has no measurements of {tabulation.name}"
    needed = dict.fromkeys(t for r in ratios(release.config.catalog, table) for t in (r.numerator, r.denominator))
    missing = [t.name for t in needed if not release.of([t])]
    if missing:
        return f"the release has no measurements of {' and '.join(missing)}"
    return f"the release has no level with both {' and '.join(t.name for t in needed)}"
