"""Errors of noisy counts, split into noise and truncation, and a test of whether the noise is as stated.

An error is (noisy − true) = (noisy − truncated) + (truncated − true): the first term is noise, the second truncation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from phsafe.accuracy_study.expected_magnitude import Magnitude, magnitude, sample_moe
from phsafe.accuracy_study.variants import Variant
from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.model.levels import Level
from phsafe.model.spec import Derived, Tabulation
from phsafe.privacy.accountant import BlockEvent, Event, plan

Integers = NDArray[np.int64]
Row = dict[str, Any]
#: (tabulation, level) → noisy counts of all releases: releases × rows.
Noisy = Mapping[tuple[str, str], Integers]


@dataclass(frozen=True)
class Errors:
    """The errors of one output at one level: `noise` is releases × rows, the other arrays have one value per row.

    Cells that are measured apart, with noise of their own, are in separate objects.
    """

    variant: Variant
    output: Tabulation | Derived
    level: Level
    event: Event
    block: BlockEvent
    #: The cells of the output whose noise is that of the block.
    cells: tuple[int, ...]
    truth: Integers = field(repr=False)
    truncation: Integers = field(repr=False)
    noise: Integers = field(repr=False)

    def keys(self) -> Row:
        """The key columns of a row in the tables of errors."""
        return {
            "TABULATION": self.output.name,
            "LEVEL": self.level.key,
            "THRESHOLDS": self.variant.thresholds,
            "SCALE": float(self.variant.scale),
            "TAU": self.event.tau,
        }

    def magnitude(self, terms: int) -> Magnitude:
        """The expected magnitude of the noise in a row that sums `terms` noisy counts."""
        return magnitude(self.variant.config.privacy, self.block.noise, terms)


def errors(variant: Variant, untruncated: grid.Counts, truncated: grid.Counts, noisy: Noisy) -> Iterator[Errors]:
    """The errors of every output and level."""
    config = variant.config
    events = {(event.tabulation, event.level): event for event in plan(config).events}
    for output, levels in config.outputs():
        for level in levels:
            measured = config.catalog.measured(output)
            key = (measured.name, level.key)
            # What a threshold drops is itself the truth, and differs between thresholds.
            whole = untruncated[key] if measured.beyond is None else truncated[key]
            parts = (whole, truncated[key] - whole, noisy[key] - truncated[key])
            published = [_published(config, output, part) for part in parts]
            for block in events[key].blocks:
                cells = _cells_within(output, block.block.cells)
                chosen = np.tile(np.isin(list(output.cells), cells), published[0].size // len(output.cells))
                if cells:
                    errors_of = (part[..., chosen] for part in published)
                    yield Errors(variant, output, level, events[key], block, cells, *errors_of)


def _cells_within(output: Tabulation | Derived, block: tuple[int, ...]) -> tuple[int, ...]:
    """The cells of an output that are measured in a block, or computed from its cells alone."""
    sources = output.cells if isinstance(output, Derived) else {cell: (cell,) for cell in output.cells}
    return tuple(cell for cell, of in sources.items() if set(of) <= set(block))


def _published(config: Config, output: Tabulation | Derived, counts: Integers) -> Integers:
    """The counts of an output, computed from those of its source; releases, if any, are the first axis."""
    if isinstance(output, Tabulation):
        return counts
    return grid.derive(config, output, counts.ravel()).reshape(*counts.shape[:-1], -1)


def terms_of(output: Tabulation | Derived) -> dict[int, int]:
    """The number of noisy counts that each cell sums: one, unless it is derived."""
    if isinstance(output, Derived):
        return {cell: len(sources) for cell, sources in output.cells.items()}
    return dict.fromkeys(output.cells, 1)


def tests_of(config: Config) -> int:
    """The number of noise tests for a variant: one for each row of `rows_of`, and the pooled one."""
    measured = config.catalog.measured
    return 1 + sum(
        len(set(terms_of(output).values())) * len(config.blocks(measured(output), level))
        for output, levels in config.outputs()
        for level in levels
    )


def moments(errors: NDArray[Any], prefix: str = "") -> Row:
    """Mean absolute error, root mean squared error and bias (the mean error)."""
    values = errors.astype(np.float64)
    return {
        f"{prefix}MAE": float(np.abs(values).mean()),
        f"{prefix}RMSE": float(np.sqrt(np.square(values).mean())),
        f"{prefix}BIAS": float(values.mean()),
    }


def rows_of(one: Errors, false_alarm: float) -> Iterator[Row]:
    """One row for each number of terms that cells sum, since that number determines the MOE.

    Correct noise falls outside its MOE band with probability at most `false_alarm`.
    """
    each = [terms_of(one.output)[cell] for cell in one.cells]
    all_terms = np.tile(each, len(one.truth) // len(each))
    for terms in sorted(set(each)):
        chosen = all_terms == terms
        noise, truncation = one.noise[:, chosen], one.truncation[chosen]
        expected = one.magnitude(terms)
        moe = sample_moe(noise)
        p_value = expected.p_value(moe, noise.size)
        low, high = expected.band(noise.size, false_alarm)
        variance = terms * one.block.noise.variance
        yield {
            **one.keys(),
            "TERMS": terms,
            "CELLS": int(chosen.sum()),
            "RELEASES": len(noise),
            **moments(noise + truncation),
            "RMSE_EXPECTED": float(np.sqrt(np.square(truncation.astype(float)).mean() + variance)),
            **moments(noise, "NOISE_"),
            **moments(truncation, "TRUNCATION_"),
            "MOE_EXPECTED": expected.moe,
            "MOE": moe,
            "MOE_LOWEST": low,
            "MOE_HIGHEST": high,
            "WITHIN": float((np.abs(noise) <= expected.moe).mean()),
            "WITHIN_EXPECTED": expected.within(expected.moe),
            "P_VALUE": p_value,
            "AS_STATED": p_value >= false_alarm,
        }


def cells_of(one: Errors) -> pl.DataFrame:
    """One row for each published count: the truth, the effect of truncation, and the errors over all releases."""
    config = one.variant.config
    grid_rows = pl.DataFrame(
        grid.level_rows(config, one.output, one.level),
        schema={name: pl.Int64 if name == "DATA_CELL" else pl.String for name in grid.KEYS},
        orient="row",
    )
    grid_rows = grid_rows.filter(pl.col("DATA_CELL").is_in(one.cells))
    total, noise = (errors.astype(np.float64) for errors in (one.noise + one.truncation, one.noise))
    return grid_rows.select(
        *(pl.lit(value, pl.Int64 if name == "TAU" else None).alias(name) for name, value in one.keys().items()),
        *grid.KEYS,
        TRUTH=one.truth,
        TRUNCATION=one.truncation,
        BIAS=total.mean(axis=0),
        RMSE=np.sqrt(np.square(total).mean(axis=0)),
        NOISE_BIAS=noise.mean(axis=0),
        NOISE_RMSE=np.sqrt(np.square(noise).mean(axis=0)),
    )


@dataclass(frozen=True)
class NoiseTest:
    """A pooled test of all noise in a variant: the share of noisy counts within their exact MOE."""

    variant: Variant
    counts: int
    within: float
    expected: float
    p_value: float
    as_stated: bool


def pooled(variant: Variant, all_errors: Iterable[Errors], false_alarm: float) -> NoiseTest:
    """Test all measured counts of a variant together; derived counts contain no further noise.

    Because noise is discrete, each MOE covers a slightly different share, so the number of counts within their MOE is a
    sum of unequal Bernoulli variables. Its tails are lighter than those of a binomial with the same mean (Hoeffding
    1956), so the binomial p-value is conservative.
    """
    within = counts = 0
    mean = 0.0
    for one in all_errors:
        if isinstance(one.output, Tabulation):
            expected = one.magnitude(1)
            within += int((np.abs(one.noise) <= expected.moe).sum())
            counts += one.noise.size
            mean += one.noise.size * expected.within(expected.moe)
    share = mean / counts
    tails = stats.binom.cdf(within, counts, share), stats.binom.sf(within - 1, counts, share)
    p_value = float(min(1.0, 2 * min(tails)))
    return NoiseTest(variant, counts, within / counts, share, p_value, p_value >= false_alarm)
