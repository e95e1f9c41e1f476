"""Errors of finished tables, and the coverage of their 90 % intervals.

The joint method estimates everybody, the independent method what the thresholds leave. So coverage is measured twice:
of the untruncated truth and of the truncated value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phsafe.accuracy_study.count_errors import Row, moments
from phsafe.accuracy_study.truth import LINE_KEYS
from phsafe.accuracy_study.variants import Variant
from phsafe.estimation import Method

Array = NDArray[np.float64]
#: Tolerance for values on a bound, because bounds are rounded numbers.
TOLERANCE = 1e-9
VALUES = ("ESTIMATE", "LOWER_90", "UPPER_90")


@dataclass(frozen=True)
class Finished:
    """One table by one method.

    `keys`, `truth` and `truncated` have one entry for each line that has a true value; the other arrays are releases ×
    lines.
    """

    variant: Variant
    table: str
    method: Method
    keys: pl.DataFrame = field(repr=False)
    truth: Array = field(repr=False)
    truncated: Array = field(repr=False)
    estimates: Array = field(repr=False)
    lower: Array = field(repr=False)
    upper: Array = field(repr=False)

    @cached_property
    def covered(self) -> NDArray[np.bool_]:
        """Whether each interval contains the untruncated truth."""
        return self._contains(self.truth)

    @cached_property
    def covered_truncated(self) -> NDArray[np.bool_]:
        """Whether each interval contains the truncated value."""
        return self._contains(self.truncated)

    def _contains(self, values: Array) -> NDArray[np.bool_]:
        return (self.lower - TOLERANCE <= values) & (values <= self.upper + TOLERANCE)


def finished(
    variant: Variant,
    truth: Mapping[str, pl.DataFrame],
    truncated: Mapping[str, pl.DataFrame],
    releases: Sequence[Mapping[Method, Mapping[str, pl.DataFrame]]],
) -> Iterator[Finished]:
    """Compare every table by every method with the truth; averages over no households are undefined and left out."""
    for method in releases[0] if releases else ():
        for name, first in releases[0][method].items():
            keys = first.select(*LINE_KEYS, "LABEL")
            for column, values in (("TRUTH", truth[name]), ("TRUNCATED", truncated[name])):
                both = values.rename({"VALUE": column})
                wanted = both if column == "TRUTH" else both.drop("LEVEL")
                keys = keys.join(wanted, on=LINE_KEYS, how="left", maintain_order="left", validate="1:1")
            known = keys["TRUTH"].is_not_nan().to_numpy()
            stacked = np.stack([release[method][name].select(VALUES).to_numpy() for release in releases])
            estimates, lower, upper = (stacked[:, known, i].astype(np.float64) for i in range(3))
            keys = keys.filter(known)
            yield Finished(
                variant, name, method, keys,
                keys["TRUTH"].to_numpy(), keys["TRUNCATED"].to_numpy(), estimates, lower, upper,
            )  # fmt: skip


def rows_of(one: Finished) -> Iterator[Row]:
    """One row for each level; lines share noise, so the standard error of coverage is computed between releases."""
    for level in one.keys["LEVEL"].unique(maintain_order=True):
        chosen = (one.keys["LEVEL"] == level).to_numpy()
        truth, truncated, estimates = one.truth[chosen], one.truncated[chosen], one.estimates[:, chosen]
        shares = one.covered[:, chosen].mean(axis=1)
        yield {
            "TABLE": one.table,
            "LEVEL": level,
            "METHOD": one.method,
            "THRESHOLDS": one.variant.thresholds,
            "SCALE": float(one.variant.scale),
            "LINES": int(chosen.sum()),
            "RELEASES": len(estimates),
            **moments(estimates - truth),
            **moments(estimates - truncated, "NOISE_"),
            **moments(truncated - truth, "TRUNCATION_"),
            "WIDTH": float((one.upper - one.lower)[:, chosen].mean()),
            "COVERAGE": float(shares.mean()),
            "COVERAGE_TRUNCATED": float(one.covered_truncated[:, chosen].mean()),
            "COVERAGE_ERROR": float(shares.std(ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else None,
        }


def lines_of(one: Finished) -> pl.DataFrame:
    """One row for each line: the truth, the effect of truncation, the mean estimate, its error and coverage."""
    return one.keys.select(
        TABLE=pl.lit(one.table),
        METHOD=pl.lit(one.method),
        THRESHOLDS=pl.lit(one.variant.thresholds),
        SCALE=pl.lit(float(one.variant.scale)),
        LEVEL="LEVEL",
    ).hstack(
        one.keys.select(
            *LINE_KEYS,
            "LABEL",
            "TRUTH",
            TRUNCATION=pl.col("TRUNCATED") - pl.col("TRUTH"),
            ESTIMATE=one.estimates.mean(axis=0),
            RMSE=np.sqrt(np.square(one.estimates - one.truth).mean(axis=0)),
            COVERAGE=one.covered.mean(axis=0),
            COVERAGE_TRUNCATED=one.covered_truncated.mean(axis=0),
        )
    )


def plain_lines(
    variant: Variant, truth: Mapping[str, pl.DataFrame], releases: Sequence[Mapping[str, Mapping[str, pl.DataFrame]]]
) -> Iterator[pl.DataFrame]:
    """The columns of `lines_of` for lines without intervals: raw counts and least squares, before any constraint."""
    for method in releases[0] if releases else ():
        for name, first in releases[0][method].items():
            values = np.stack([release[method][name]["VALUE"].to_numpy() for release in releases])
            keys = first.select(*LINE_KEYS).join(truth[name], on=LINE_KEYS, how="left", maintain_order="left")
            exact = keys["VALUE"].to_numpy()
            yield keys.select(
                TABLE=pl.lit(name),
                METHOD=pl.lit(method),
                THRESHOLDS=pl.lit(variant.thresholds),
                SCALE=pl.lit(float(variant.scale)),
                LEVEL="LEVEL",
            ).hstack(
                keys.select(
                    *LINE_KEYS,
                    TRUTH="VALUE",
                    ESTIMATE=values.mean(axis=0),
                    RMSE=np.sqrt(np.square(values - exact).mean(axis=0)),
                )
            )
