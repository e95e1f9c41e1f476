"""Total error as a function of the threshold: as τ grows, truncation removes less and noise adds more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from phsafe.accuracy_study.study import Accuracy
from phsafe.model.levels import Level


@dataclass(frozen=True)
class Point:
    """Root mean squared errors at a threshold: `total` and `noise` use the stated variance, `measured` is empirical."""

    tau: int
    total: float
    noise: float
    truncation: float
    measured: float


@dataclass(frozen=True)
class Curve:
    """The errors of a tabulation at a level, with its budget multiplied by `scale`."""

    tabulation: str
    level: Level
    scale: float
    points: tuple[Point, ...]

    @property
    def best(self) -> Point:
        """The point with the lowest total error; if several have it, the one with the smallest threshold."""
        return min(self.points, key=lambda point: point.total)

    @property
    def best_tau(self) -> str:
        """The threshold with the lowest total error, with ≤ or ≥ if it is at either end of the range tried.

        >>> from phsafe.model.levels import LEVELS
        >>> points = [Point(tau, total, 0.0, 0.0, 0.0) for tau, total in ((6, 3.0), (8, 1.0), (10, 2.0))]
        >>> [Curve("PH2", LEVELS[0], 1.0, tuple(some)).best_tau for some in (points, points[1:], points[:2])]
        ['τ = 8', 'τ ≤ 8', 'τ ≥ 8']
        """
        at = {self.points[-1].tau: "≥", self.points[0].tau: "≤"} if len(self.points) > 1 else {}
        return f"τ {at.get(self.best.tau, '=')} {self.best.tau}"


def curves(accuracy: Accuracy) -> dict[tuple[str, str], list[Curve]]:
    """(tabulation, level) → one curve per scale, for every measurement of persons with several thresholds."""
    found: dict[tuple[str, str], list[Curve]] = {}
    for tabulation, level, _ in accuracy.config.measurements():
        rows = accuracy.tabulations.filter(TABULATION=tabulation.name, LEVEL=level.key)
        if rows["TAU"].drop_nulls().n_unique() > 1:
            found[tabulation.name, level.key] = [
                Curve(tabulation.name, level, scale, tuple(_points(rows.filter(SCALE=scale))))
                for scale in rows["SCALE"].unique(maintain_order=True)
            ]
    return found


def _points(rows: pl.DataFrame) -> Iterator[Point]:
    for row in rows.unique("TAU", keep="first", maintain_order=True).sort("TAU").iter_rows(named=True):
        noise = (row["RMSE_EXPECTED"] ** 2 - row["TRUNCATION_RMSE"] ** 2) ** 0.5
        yield Point(row["TAU"], row["RMSE_EXPECTED"], noise, row["TRUNCATION_RMSE"], row["RMSE"])
