"""The public grid: every population group and basis cell that a config publishes, in canonical order.

It is made from the config alone, so no row appears or disappears with the data (claim C1.4 of
docs/privacy.md). Counts travel as one vector for each measurement, in the order of `level_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phsafe.config import Config
from phsafe.levels import Level
from phsafe.spec import Derived, Tabulation

#: (tabulation, level key) → the counts of that measurement, in the order of `level_rows`.
Counts = Mapping[tuple[str, str], NDArray[np.int64]]
#: (tabulation, level key) → the distribution and variance of that measurement's noise.
NoiseOf = Mapping[tuple[str, str], tuple[str, float]]

KEYS = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "DATA_CELL")


def level_rows(config: Config, output: Tabulation | Derived, level: Level) -> list[tuple[str, str, str, int]]:
    """The grid of one output at one level: (region, region type, iteration, cell), in order."""
    return [
        (region, level.geography.region_type, iteration.code, cell)
        for region, iteration in level.groups(config.states)
        for cell in output.cells
    ]


def rows(config: Config, output: Tabulation | Derived) -> pl.DataFrame:
    """The whole grid of an output in the order of its file: geography, region, iteration, cell."""
    keys = [row for level in config.levels_of(output) for row in level_rows(config, output, level)]
    types = (pl.String, pl.String, pl.String, pl.Int64)
    columns = zip(*keys, strict=True) if keys else [()] * len(KEYS)
    return pl.DataFrame(
        [pl.Series(name, values, dtype=kind) for name, values, kind in zip(KEYS, columns, types, strict=True)]
    )


def in_file_order(config: Config, frame: pl.DataFrame) -> pl.DataFrame:
    """Sort rows by geography, region, iteration and cell, as the catalog lists them."""
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
    """An output's grid in the order of its file, with its COUNT, or with NOISE_DISTRIBUTION and VARIANCE, or both."""
    columns = {"COUNT": _counts(config, output, counts)} if counts is not None else {}
    columns |= _noise(config, output, noise) if noise is not None else {}
    return in_file_order(config, rows(config, output).with_columns(**columns))


def _counts(config: Config, output: Tabulation | Derived, counts: Counts) -> pl.Series:
    """An output's counts, computed from its source's where it is derived."""
    source = config.catalog.measured(output).name
    vectors = []
    for level in config.levels_of(output):
        vector = counts[source, level.key]
        vectors.append(derive(config, output, vector) if isinstance(output, Derived) else vector)
    # As a list: Polars loads another part of NumPy to look at an array.
    return pl.Series(np.concatenate(vectors).tolist(), dtype=pl.Int64)


def _noise(config: Config, output: Tabulation | Derived, noise: NoiseOf) -> dict[str, pl.Series]:
    """An output's distribution and variance, from those of its source at each level.

    A derived cell's variance is the sum of the variances of the independent cells it adds.
    """
    source = config.catalog.measured(output).name
    terms = [len(cells) for cells in output.cells.values()] if isinstance(output, Derived) else [1] * len(output.cells)
    labels: list[str] = []
    variances: list[float] = []
    for level in config.levels_of(output):
        distribution, variance = noise[source, level.key]
        groups = sum(1 for _ in level.groups(config.states))
        labels += [distribution] * (groups * len(terms))
        variances += [number * variance for number in terms] * groups
    return {"NOISE_DISTRIBUTION": pl.Series(labels), "VARIANCE": pl.Series(variances, dtype=pl.Float64)}


def derive(config: Config, derived: Derived, source: NDArray[np.int64]) -> NDArray[np.int64]:
    """A derived output's counts at a level, from its source's: each cell adds the cells it names.

    On noisy counts that is postprocessing (claim C11).
    """
    position = {cell: i for i, cell in enumerate(config.catalog.measured(derived).cells)}
    by_group = source.reshape(-1, len(position))
    parts = [by_group[:, [position[cell] for cell in cells]].sum(axis=1) for cells in derived.cells.values()]
    return np.stack(parts, axis=1).reshape(-1)
