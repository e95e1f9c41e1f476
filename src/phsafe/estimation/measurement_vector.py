"""All noisy counts of a release in one vector, indexed by tabulation, level, group and cell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.estimation.densities import DENSITIES, Array, Density
from phsafe.model.levels import Level
from phsafe.model.spec import Tabulation

Positions = NDArray[np.int64]
#: The largest noisy count that can be one of people; far larger ones exceed the precision of the fit.
MOST = 10_000_000_000


@dataclass(frozen=True)
class LevelBlock:
    """One measurement, a tabulation at a level: rows are groups, columns are basis cells."""

    tabulation: Tabulation
    level: Level
    #: (region, iteration code) of every row.
    groups: tuple[tuple[str, str], ...]
    #: The position of the first cell of the first group in the vector.
    start: int

    def positions(self, cells: Iterable[int] | None = None) -> Positions:
        """Positions of the given cells in the vector, one row per group. The default is all cells."""
        names = list(self.tabulation.cells)
        columns = [names.index(cell) for cell in (names if cells is None else cells)]
        rows = np.arange(len(self.groups), dtype=np.int64) * len(names)
        return self.start + rows[:, None] + np.array(columns, np.int64)


@dataclass(frozen=True)
class Measured:
    """All measured noisy counts of a release, with their variances."""

    config: Config
    blocks: Mapping[tuple[str, str], LevelBlock] = field(repr=False)
    counts: Array = field(repr=False)
    variances: Array = field(repr=False)
    density: Density = field(repr=False)

    def block(self, tabulation: Tabulation, level: Level) -> LevelBlock | None:
        """The measurement of a tabulation at a level, or None if the release has none."""
        return self.blocks.get((tabulation.name, level.key))

    def of(self, tabulations: Collection[Tabulation]) -> list[LevelBlock]:
        """The measurements of the given tabulations, in config order."""
        return [block for block in self.blocks.values() if block.tabulation in tabulations]


def measured(config: Config, frames: Mapping[str, pl.DataFrame]) -> Measured:
    """Arrange the measurements of a release as one vector.

    Args:
        config: The config of the release.
        frames: Tabulation name → its noisy measurements.

    Raises:
        PHSafeError: If the frames don't match the grid of the config, with all problems found.
    """
    blocks: dict[tuple[str, str], LevelBlock] = {}
    problems: list[str] = []
    counts, variances, noises = [], [], set()
    start = 0
    for tabulation, level, _ in config.measurements():
        if tabulation.name not in frames:
            problems.append(f"{tabulation.name}: the release has no measurements of it")
            continue
        rows = _rows(config, frames[tabulation.name], tabulation, level)
        problems += _problems(tabulation, level, rows)
        blocks[tabulation.name, level.key] = LevelBlock(
            tabulation, level, tuple((r, i.code) for r, i in level.groups(config.states)), start
        )
        start += len(rows)
        counts.append(rows["COUNT"].cast(pl.Float64).to_numpy())
        variances.append(rows["VARIANCE"].cast(pl.Float64).to_numpy())
        noises |= set(rows["NOISE_DISTRIBUTION"].drop_nulls().unique())
    if not blocks and not problems:
        problems.append("the release has no measurements: every budget is 0")
    if not problems and (len(noises) > 1 or not noises <= set(DENSITIES)):
        problems.append(
            f"expected one of {', '.join(DENSITIES)} as NOISE_DISTRIBUTION, got {', '.join(sorted(noises))}"
        )
    if problems:
        raise PHSafeError(list(dict.fromkeys(problems)))
    density = DENSITIES[noises.pop()]
    return Measured(config, blocks, np.concatenate(counts), np.concatenate(variances), density)


def _rows(config: Config, frame: pl.DataFrame, tabulation: Tabulation, level: Level) -> pl.DataFrame:
    keys = pl.DataFrame(
        grid.level_rows(config, tabulation, level),
        schema={"REGION_ID": pl.String, "REGION_TYPE": pl.String, "ITERATION_CODE": pl.String, "DATA_CELL": pl.Int64},
        orient="row",
    )  # fmt: skip
    return keys.join(frame, on=list(grid.KEYS), how="left", maintain_order="left")


def _problems(tabulation: Tabulation, level: Level, rows: pl.DataFrame) -> Iterable[str]:
    where = f"{tabulation.name} {level.label}"
    missing = rows.select(pl.any_horizontal(pl.col("COUNT", "VARIANCE").is_null()).sum()).item()
    if missing:
        yield f"{where}: {missing} of {len(rows)} noisy counts are missing"
    if len(rows) > len(rows.unique(list(grid.KEYS))):
        yield f"{where}: expected one noisy count per cell, but some cells have several"
    variance = pl.col("VARIANCE").cast(pl.Float64)
    bad = rows.select((~(variance.is_finite() & (variance > 0))).sum()).item()
    if bad:
        yield f"{where}: expected positive variances, but {bad} are not"
    count = pl.col("COUNT").cast(pl.Float64)
    large = rows.select((~(count.is_finite() & (count.abs() <= MOST))).sum()).item()
    if large:
        yield f"{where}: expected noisy counts of at most {MOST:,} people, but {large} are larger or not numbers"
