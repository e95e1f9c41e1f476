"""The joint method: every line is estimated from all measurements together, with consistent point estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
from scipy import sparse, special

from phsafe.estimation.agreeing_tables import agreeing
from phsafe.estimation.averages import Bounds, Factor, Rows, Unknowns, feasible, posterior
from phsafe.estimation.consistent_points import Points
from phsafe.estimation.constraints import nesting
from phsafe.estimation.densities import NORMAL, Array
from phsafe.estimation.fit import CellEstimates
from phsafe.estimation.identities import universe, untruncated_cells
from phsafe.estimation.measurement_vector import LevelBlock, Measured, Positions
from phsafe.estimation.published_lines import PublishedLines, sum_rows
from phsafe.estimation.rounding import Summary, whole
from phsafe.estimation.table_lines import Ratio
from phsafe.model.spec import Table

#: The exponent of the point estimate of averages (`Unknowns.power`). For groups smaller than the noise, the mean of N/D
#: (0) is too high for families and the mean weighted by units (1) is too low for households; 0.5 is a compromise that
#: beats the 2020 mean for both. For larger groups the choice makes no difference (docs/explanation/estimation.md).
POWER = 0.5


def count_intervals(cells: CellEstimates, sums: sparse.csr_array, scale: Array) -> tuple[Array, Array]:
    """The 90 % intervals of sums of counts, before rounding: the shortest ones without negative values.

    Args:
        cells: The estimate of every cell.
        sums: One sum per row.
        scale: Their standard deviations.
    """
    center = sums @ cells.estimates
    low, high = (center + scale * end for end in NORMAL.shortest(-center / scale))
    return low, high


@dataclass
class Joint:
    """Summaries from the least-squares fit. Its errors, weighted sums of many noise terms, are treated as normal.

    Attributes:
        measured: The measurements of the release.
        cells: The estimate of every cell, with its covariance.
        lines: The published lines of count tables.
        scale: The standard deviation of every published line.
        points: Consistent whole counts.
        truncated: Whether people beyond the thresholds are left out.
    """

    measured: Measured
    cells: CellEstimates
    lines: PublishedLines
    scale: Array
    points: Points
    truncated: bool = False
    #: Quantiles of averages by numerator, denominator, cells of the denominator and level: groups × lines × levels.
    _quantiles: dict[tuple[str, str, tuple[int, ...], str], Array] = field(default_factory=dict)
    #: Averages of a whole universe, by level and universes: computed once, though several tables show them.
    _totals: dict[object, tuple[Array, Array]] = field(default_factory=dict)

    def counts(self, table: Table, block: LevelBlock) -> Summary:
        """The consistent counts, with the shortest 90 % intervals of the fit restricted to possible values."""
        rows = self.lines.where[block.tabulation.name, block.level.key].T
        estimate = (self.lines.sums @ self.points.counts)[rows]
        return whole(estimate.astype(float), *self.intervals(rows), self.scale[rows])

    def intervals(self, rows: Rows) -> tuple[Array, Array]:
        """The 90 % intervals of published lines, before rounding."""
        low, high = self._ends
        return low[rows], high[rows]

    @cached_property
    def agreeing(self) -> CellEstimates:
        """The estimate of every cell where sums of the same people are equal: for expressions and draws."""
        return agreeing(self.cells)

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        return count_intervals(self.cells, self.lines.sums, self.scale)

    def bounds(self, ratio: Ratio, above: LevelBlock) -> Bounds:
        """The feasible range of an average, with the measurement of its numerator at a level."""
        return feasible(self.measured.config, ratio, above, truncated=self.truncated)

    def quantiles(self, ratio: Ratio, above: LevelBlock, below: LevelBlock) -> Array:
        """The quantiles of a ratio's lines at a level (`averages.LEVELS`), groups × lines × levels."""
        place = _place(ratio, above)
        if place not in self._quantiles:
            self.averages(ratio, above, below)
        return self._quantiles[place]

    def averages(self, ratio: Ratio, above: LevelBlock, below: LevelBlock) -> Summary:
        """The posterior of a ratio's lines at a level, given the fit and before rounding."""
        config = self.measured.config
        people = {cell for part in ratio.parts for cell in part} == set(above.tabulation.cells)
        everyone = people and set(ratio.per) == set(below.tabulation.cells)
        whole = self.truncated and bool(set(untruncated_cells(config, above)))
        key = (above.level.key, universe(config, ratio.numerator), universe(config, ratio.denominator), whole)
        place = _place(ratio, above)
        if everyone and len(ratio.lines) == 1 and key in self._totals:
            known, self._quantiles[place] = self._totals[key][0][:, :, None], self._totals[key][1][:, None]
            return known[0], known[1], known[2], known[3]
        unknowns = self._unknowns(ratio, above, below, self._nested(above, below) if everyone else None)
        bounds = self.bounds(ratio, above)
        summary, quantiles = posterior(NORMAL, unknowns, bounds, [line for _, line in ratio.lines])
        self._quantiles[place] = quantiles
        if everyone:
            total = next(i for i, (_, line) in enumerate(ratio.lines) if len(line) == len(ratio.parts))
            known, grid = self._totals.setdefault(key, (summary[:, :, total].copy(), quantiles[:, total].copy()))
            summary[:, :, total], quantiles[:, total] = known, grid
        return summary[0], summary[1], summary[2], summary[3]

    def _unknowns(self, ratio: Ratio, above: LevelBlock, below: LevelBlock, factor: Factor | None) -> Unknowns:
        parts = [above.positions(part) for part in ratio.parts]
        count = len(parts)
        pairs = [(i, j) for i in range(count) for j in range(i)]
        both = [np.concatenate([parts[i], parts[j]], axis=1) for i, j in pairs]
        center, scale = self._normal([*parts, below.positions(ratio.per), *both])
        variance = np.square(scale)
        covariance = variance[:, :count, None] * np.eye(count)
        for (i, j), of_sum in zip(pairs, variance[:, count + 1 :].T, strict=True):
            shared = (of_sum - variance[:, i] - variance[:, j]) / 2
            covariance[:, i, j] = covariance[:, j, i] = shared
        return Unknowns(
            parts=center[:, :count],
            covariance=covariance,
            units=center[:, count],
            unit_variance=variance[:, count],
            terms=(1,) * (count + 1),
            power=POWER,
            log_factor=factor,
            shortest=True,
        )

    def _normal(self, positions: Sequence[Positions]) -> tuple[Array, Array]:
        """Means and standard deviations of sums of cells, groups × sums.

        Args:
            positions: For each sum, the positions of its cells, groups × cells.
        """
        sums = sum_rows([row for cells in positions for row in cells], len(self.cells.estimates))
        shape = (len(positions), len(positions[0]))
        means, spreads = sums @ self.cells.estimates, np.sqrt(self.cells.variance(sums))
        return means.reshape(shape).T, spreads.reshape(shape).T

    def _nested(self, above: LevelBlock, below: LevelBlock) -> Factor:
        """The evidence from smaller and larger universes (families, households) about people and units of this one."""
        config = self.measured.config
        found: dict[object, tuple[int, int, Array, Array]] = {}
        at_level = [block for block in self.measured.blocks.values() if block.level.key == below.level.key]
        for alike, (which, mine) in product(self.cells.alike(at_level), enumerate((above, below))):
            for block in alike if mine in alike else ():
                if sign := nesting(config, block.level, block.tabulation, mine.tabulation):
                    center, scale = self._normal([block.positions()])
                    key = (which, universe(config, block.tabulation))
                    found.setdefault(key, (which, sign, center, scale))

        def log_factor(people: Array, units: Array, rows: Rows) -> Array:
            logs = [
                special.log_ndtr(sign * ((people, units)[which] - center[rows]) / scale[rows])
                for which, sign, center, scale in found.values()
            ]
            return np.sum(logs, axis=0) if logs else np.zeros_like(units)

        return log_factor


def _place(ratio: Ratio, above: LevelBlock) -> tuple[str, str, tuple[int, ...], str]:
    return ratio.numerator.name, ratio.denominator.name, ratio.per, above.level.key
