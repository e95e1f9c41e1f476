"""A release's noisy counts as one vector, with the place of every tabulation, level, group and cell in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phsafe import grid
from phsafe.config import Config
from phsafe.errors import PHSafeError
from phsafe.estimation.kernels import KERNELS, Array, Kernel
from phsafe.levels import Level
from phsafe.spec import Tabulation

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """One measurement, a tabulation at a level: rows are groups, columns are basis cells."""

    tabulation: Tabulation
    level: Level
    #: (region, iteration code) of every row.
    groups: tuple[tuple[str, str], ...]
    #: Where the first cell of the first group stands in the vector.
    start: int

    def positions(self, cells: Iterable[int] | None = None) -> Positions:
        """Places in the vector, one row for each group, of the given cells (all of them unless told)."""
        names = list(self.tabulation.cells)
        columns = [names.index(cell) for cell in (names if cells is None else cells)]
        rows = np.arange(len(self.groups), dtype=np.int64) * len(names)
        return self.start + rows[:, None] + np.array(columns, np.int64)


@dataclass(frozen=True)
class Measured:
    """All measured noisy counts of a release, with their variances."""

    config: Config
    blocks: Mapping[tuple[str, str], Block] = field(repr=False)
    counts: Array = field(repr=False)
    variances: Array = field(repr=False)
    kernel: Kernel = field(repr=False)

    def block(self, tabulation: Tabulation, level: Level) -> Block | None:
        """A measurement, or None where the release has none."""
        return self.blocks.get((tabulation.name, level.key))

    def of(self, tabulations: Collection[Tabulation]) -> list[Block]:
        """The measurements of some tabulations, in the config's order."""
        return [block for block in self.blocks.values() if block.tabulation in tabulations]


def measured(config: Config, frames: Mapping[str, pl.DataFrame]) -> Measured:
    """Line up a release's frames (by tabulation) with the config's grid; PHSafeError where they don't fit."""
    blocks: dict[tuple[str, str], Block] = {}
    problems: list[str] = []
    counts, variances, noises = [], [], set()
    start = 0
    for tabulation, level, _ in config.measurements():
        if tabulation.name not in frames:
            problems.append(f"{tabulation.name}: the release has no measurements of it")
            continue
        rows = _rows(config, frames[tabulation.name], tabulation, level)
        problems += _problems(tabulation, level, rows)
        blocks[tabulation.name, level.key] = Block(
            tabulation, level, tuple((r, i.code) for r, i in level.groups(config.states)), start
        )
        start += len(rows)
        counts.append(rows["COUNT"].cast(pl.Float64).to_numpy())
        variances.append(rows["VARIANCE"].cast(pl.Float64).to_numpy())
        noises |= set(rows["NOISE_DISTRIBUTION"].drop_nulls().unique())
    if not blocks and not problems:
        problems.append("the release holds no measurements: every budget is 0")
    if not problems and (len(noises) > 1 or not noises <= set(KERNELS)):
        problems.append(f"expected one of {', '.join(KERNELS)} as NOISE_DISTRIBUTION, got {', '.join(sorted(noises))}")
    if problems:
        raise PHSafeError(list(dict.fromkeys(problems)))
    kernel = KERNELS[noises.pop()]
    return Measured(config, blocks, np.concatenate(counts), np.concatenate(variances), kernel)


def _rows(config: Config, frame: pl.DataFrame, tabulation: Tabulation, level: Level) -> pl.DataFrame:
    keys = pl.DataFrame(
        grid.level_rows(config, tabulation, level),
        schema={"REGION_ID": pl.String, "REGION_TYPE": pl.String, "ITERATION_CODE": pl.String, "DATA_CELL": pl.Int64},
        orient="row",
    )  # fmt: skip
    return keys.join(frame, on=list(grid.KEYS), how="left", maintain_order="left")


def _problems(tabulation: Tabulation, level: Level, rows: pl.DataFrame) -> Iterable[str]:
    place = f"{tabulation.name} {level.label}"
    missing = rows.select(pl.any_horizontal(pl.col("COUNT", "VARIANCE").is_null()).sum()).item()
    if missing:
        yield f"{place}: {missing} of {len(rows)} noisy counts are missing"
    if len(rows) > len(rows.unique(list(grid.KEYS))):
        yield f"{place}: some noisy counts stand more than once"
    variance = pl.col("VARIANCE").cast(pl.Float64)
    bad = rows.select((~(variance.is_finite() & (variance > 0))).sum()).item()
    if bad:
        yield f"{place}: expected variances above zero, got {bad} that are not"
