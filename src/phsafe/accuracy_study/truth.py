"""The ground truth: exact counts without truncation, and truncated counts for each threshold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.engines import EngineOptions, started
from phsafe.pipeline.scan import Settings, count
from phsafe.readers import DataSource
from phsafe.system.progress import Progress, part, silent

#: The keys of a line of a finished table.
LINE_KEYS = ("REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CELL")
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
    """The regions of the config in which no one was counted."""
    total: dict[str, int] = {}
    for tabulation, level, _ in config.measurements():
        sums = untruncated[tabulation.name, level.key].reshape(-1, len(tabulation.cells)).sum(axis=1)
        for (region, _iteration), people in zip(level.groups(config.states), sums, strict=True):
            total[region] = total.get(region, 0) + int(people)
    return [region for region, people in total.items() if not people]
