"""The public grid: every group and cell that a config publishes, in canonical order; derived counts and variances.

The grid depends on the config alone, so no row appears or disappears with the data (claim C1.4 of docs/privacy.md).
Counts are passed around as one vector per measurement, in the order of `level_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phsafe.configs.config import Config
from phsafe.model.levels import Level
from phsafe.model.spec import Derived, Tabulation

#: (tabulation, level key) → the counts of that measurement, in the order of `level_rows`.
Counts = Mapping[tuple[str, str], NDArray[np.int64]]
#: (tabulation, level key) → cell → the distribution and variance of its noise.
NoiseOf = Mapping[tuple[str, str], Mapping[int, tuple[str, float]]]

KEYS = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "DATA_CELL")


def level_rows(config: Config, output: Tabulation | Derived, level: Level) -> list[tuple[str, str, str, int]]:
    """The grid of one output at one level, as (region, region type, iteration, cell) in canonical order."""
    return [
        (region, level.geography.region_type, iteration.code, cell)
        for region, iteration in level.groups(config.states)
        for cell in output.cells
    ]


def size(config: Config, output: Tabulation | Derived) -> int:
    """The number of rows of an output's grid, without making them."""
    return sum(
        len(level.geography.within(config.states)) * len(level.iteration_level.iterations) * len(output.cells)
        for level in config.levels_of(output)
    )


def rows(config: Config, output: Tabulation | Derived) -> pl.DataFrame:
    """The whole grid of an output, level by level."""
    keys = [row for level in config.levels_of(output) for row in level_rows(config, output, level)]
    types = (pl.String, pl.String, pl.String, pl.Int64)
    columns = zip(*keys, strict=True) if keys else [()] * len(KEYS)
    return pl.DataFrame(
        [pl.Series(name, values, dtype=dtype) for name, values, dtype in zip(KEYS, columns, types, strict=True)]
    )


def in_file_order(config: Config, frame: pl.DataFrame) -> pl.DataFrame:
    """Sort rows as in the output files: by geography, region, iteration and cell, in catalog order."""
    types = {level.geography.region_type: i for i, level in reversed([*enumerate(config.catalog.levels)])}
    codes: dict[str, int] = {}
    for level in config.catalog.levels:
        for iteration in level.iteration_level.iterations:
            codes.setdefault(iteration.code, len(codes))
    return frame.sort(
        pl.col("REGION_TYPE").replace_strict(types, return_dtype=pl.Int64),
        "REGION_ID",
        pl.col("ITERATION_CODE").replace_strict(codes, return_dtype=pl.Int64),
        "DATA_CELL",
    )


def output_frame(
    config: Config, output: Tabulation | Derived, counts: Counts | None = None, noise: NoiseOf | None = None
) -> pl.DataFrame:
    """The grid of an output in file order, with its counts, its noise, or both.

    Args:
        config: The config that defines the grid.
        output: A measured or derived tabulation.
        counts: Adds the column COUNT.
        noise: Adds the columns NOISE_DISTRIBUTION and VARIANCE.
    """
    columns = {"COUNT": _counts(config, output, counts)} if counts is not None else {}
    columns |= _noise(config, output, noise) if noise is not None else {}
    return in_file_order(config, rows(config, output).with_columns(**columns))


def _counts(config: Config, output: Tabulation | Derived, counts: Counts) -> pl.Series:
    """The counts of an output; those of a derived output are computed from its source."""
    source = config.catalog.measured(output).name
    vectors = []
    for level in config.levels_of(output):
        vector = counts[source, level.key]
        vectors.append(derive(config, output, vector) if isinstance(output, Derived) else vector)
    # As a list, because Polars imports more of NumPy to convert an array.
    return pl.Series(np.concatenate(vectors).tolist(), dtype=pl.Int64)


def _noise(config: Config, output: Tabulation | Derived, noise: NoiseOf) -> dict[str, pl.Series]:
    """The noise distribution and variance of each row of an output.

    The variance of a derived cell is the sum of the variances of the independent cells it adds.
    """
    source = config.catalog.measured(output).name
    terms = output.cells.values() if isinstance(output, Derived) else [(cell,) for cell in output.cells]
    labels: list[str] = []
    variances: list[float] = []
    for level in config.levels_of(output):
        of_cell = noise[source, level.key]
        groups = sum(1 for _ in level.groups(config.states))
        labels += [of_cell[cells[0]][0] for cells in terms] * groups
        variances += [sum(of_cell[cell][1] for cell in cells) for cells in terms] * groups
    return {"NOISE_DISTRIBUTION": pl.Series(labels), "VARIANCE": pl.Series(variances, dtype=pl.Float64)}


def derive(config: Config, derived: Derived, source: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute the counts of a derived output at a level from those of its source.

    Applied to noisy counts, this is postprocessing (claim C11).
    """
    position = {cell: i for i, cell in enumerate(config.catalog.measured(derived).cells)}
    by_group = source.reshape(-1, len(position))
    parts = [by_group[:, [position[cell] for cell in cells]].sum(axis=1) for cells in derived.cells.values()]
    return np.stack(parts, axis=1).reshape(-1)
