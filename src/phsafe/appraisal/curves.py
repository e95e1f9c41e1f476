"""Error against the threshold: as τ grows, truncation takes less away and noise adds more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from phsafe.appraisal.run import Accuracy
from phsafe.levels import Level


@dataclass(frozen=True)
class Point:
    """Roots of mean squared errors at a threshold: `total` and `noise` by the stated variance, `seen` as measured."""

    tau: int
    total: float
    noise: float
    truncation: float
    seen: float


@dataclass(frozen=True)
class Curve:
    """A tabulation at a level with its budget times `scale`."""

    tabulation: str
    level: Level
    scale: float
    points: tuple[Point, ...]

    @property
    def best(self) -> Point:
        """The threshold with the least total error; of equals, the smallest."""
        return min(self.points, key=lambda point: point.total)

    @property
    def least(self) -> str:
        """Where total error is least. At the end of what was tried it may be less beyond: ≥ or ≤ says so.

        >>> from phsafe.levels import LEVELS
        >>> points = [Point(tau, total, 0.0, 0.0, 0.0) for tau, total in ((6, 3.0), (8, 1.0), (10, 2.0))]
        >>> [Curve("PH2", LEVELS[0], 1.0, tuple(some)).least for some in (points, points[1:], points[:2])]
        ['τ = 8', 'τ ≤ 8', 'τ ≥ 8']
        """
        at = {self.points[-1].tau: "≥", self.points[0].tau: "≤"} if len(self.points) > 1 else {}
        return f"τ {at.get(self.best.tau, '=')} {self.best.tau}"


def curves(accuracy: Accuracy) -> dict[tuple[str, str], list[Curve]]:
    """(tabulation, level) → a curve for each scale, for every measurement of persons for which several τ were tried."""
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
