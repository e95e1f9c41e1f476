"""The ground truth: exact counts without truncation, truncated counts for each threshold, and table lines from both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.engines import EngineOptions, started
from phsafe.estimation.table_lines import basis, counted, ratios
from phsafe.model.levels import Level
from phsafe.model.spec import Table, Tabulation
from phsafe.pipeline.scan import Settings, count
from phsafe.readers import DataSource
from phsafe.system.progress import Progress, part, silent

#: The keys of a line of a finished table.
LINE_KEYS = ("REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CELL")
Array = NDArray[np.float64]
#: The truncation threshold of each tabulation, as a dictionary key.
Thresholds = tuple[tuple[str, int], ...]


def thresholds(config: Config) -> Thresholds:
    """The thresholds of a config. Configs with the same thresholds have the same truncated counts."""
    return tuple(sorted(config.tau.items()))


def exact_counts(
    configs: Iterable[Config],
    data: DataSource,
    settings: Settings,
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> tuple[grid.Counts, Mapping[Thresholds, grid.Counts]]:
    """Untruncated counts, and truncated counts for each set of thresholds; the input is validated only once."""
    distinct = {thresholds(config): config for config in configs}
    first = next(iter(distinct.values()))
    share = 1 / (len(distinct) + 1)
    with started(options) as running:
        untruncated = count(first, data, replace(settings, truncate=False), running, part(progress, 0.0, share))
        validated = replace(settings, truncate=True, skip_validation=True)
        truncated = {
            key: count(config, data, validated, running, part(progress, i * share, (i + 1) * share))
            for i, (key, config) in enumerate(distinct.items(), start=1)
        }
    return untruncated, truncated


def empty_regions(config: Config, untruncated: grid.Counts) -> list[str]:
    """The regions of the config in which nobody was counted."""
    total: dict[str, int] = {}
    for tabulation, level, _ in config.measurements():
        sums = untruncated[tabulation.name, level.key].reshape(-1, len(tabulation.cells)).sum(axis=1)
        for (region, _iteration), people in zip(level.groups(config.states), sums, strict=True):
            total[region] = total.get(region, 0) + int(people)
    return [region for region, people in total.items() if not people]


def lines(config: Config, counts: grid.Counts) -> dict[str, pl.DataFrame]:
    """The value of every line of every table that can be computed from the counts.

    Columns are LINE_KEYS, LEVEL and VALUE, which is NaN for an average over no households.
    """
    frames = {table.name: list(_lines(config, table, counts)) for table in config.catalog.tables}
    return {name: pl.concat(parts) for name, parts in frames.items() if parts}


def _lines(config: Config, table: Table, counts: grid.Counts) -> Iterable[pl.DataFrame]:
    catalog = config.catalog
    if (tabulation := counted(table)) is not None:
        for level in config.levels_of(tabulation):
            for line in table.shell:
                cells = basis(catalog, table, tabulation, line.number)
                yield _frame(config, level, line.number, _sums(counts, tabulation, level, cells))
    for ratio in ratios(catalog, table):
        numerator_levels = {level.key for level in config.levels_of(ratio.numerator)}
        for level in config.levels_of(ratio.denominator):
            if level.key not in numerator_levels:
                continue
            units = _sums(counts, ratio.denominator, level, ratio.per)
            for number, indices in ratio.lines:
                cells = tuple(cell for i in indices for cell in ratio.parts[i])
                people = _sums(counts, ratio.numerator, level, cells)
                average = np.divide(people, units, out=np.full(len(units), np.nan), where=units > 0)
                yield _frame(config, level, number, average)


def _sums(counts: grid.Counts, tabulation: Tabulation, level: Level, cells: Iterable[int]) -> Array:
    """The sum of the given cells in every group of a level."""
    names = list(tabulation.cells)
    by_group = counts[tabulation.name, level.key].reshape(-1, len(names))
    sums: Array = by_group[:, [names.index(cell) for cell in cells]].sum(axis=1).astype(np.float64)
    return sums


def _frame(config: Config, level: Level, number: int, values: Array) -> pl.DataFrame:
    groups = list(level.groups(config.states))
    return pl.DataFrame(
        {
            "REGION_TYPE": [level.geography.region_type] * len(groups),
            "REGION_ID": [region for region, _ in groups],
            "ITERATION_CODE": [iteration.code for _, iteration in groups],
            "CELL": pl.Series([number] * len(groups), dtype=pl.Int64),
            "LEVEL": [level.key] * len(groups),
            "VALUE": values,
        }
    )
