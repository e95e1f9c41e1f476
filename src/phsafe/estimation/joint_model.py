"""The joint method: every line is estimated from all measurements together, with consistent point estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse, special

from phsafe.estimation.averages import Bounds, Factor, Rows, Unknowns, posterior
from phsafe.estimation.consistent_points import Points
from phsafe.estimation.constraints import nesting
from phsafe.estimation.densities import NORMAL, Array
from phsafe.estimation.fit import Fit
from phsafe.estimation.identities import universe
from phsafe.estimation.measurement_vector import LevelBlock, Measured, Positions
from phsafe.estimation.rounding import Summary, whole
from phsafe.estimation.table_lines import Ratio, basis
from phsafe.model.spec import Table

#: The exponent of the point estimate of averages (`Unknowns.power`). For groups smaller than the noise, the mean of N/D
#: (0) is too high for families and the mean weighted by units (1) is too low for households; 0.5 beats the 2020 mean
#: for both. For larger groups the choice makes no difference (docs/estimation.md).
POWER = 0.5


@dataclass
class Joint:
    """Summaries from the least-squares fit. Its errors, weighted sums of many noise terms, are treated as normal."""

    measured: Measured
    fit: Fit
    points: Points
    #: Averages of a whole universe, by level and universes: computed once, though several tables show them.
    _totals: dict[object, Array] = field(default_factory=dict)

    def counts(self, table: Table, block: LevelBlock) -> Summary:
        """The consistent counts, with the shortest 90 % intervals of the fit restricted to non-negative values."""
        catalog = self.measured.config.catalog
        positions = [block.positions(basis(catalog, table, block.tabulation, line.number)) for line in table.shell]
        center, scale = self._normal(positions)
        low, high = NORMAL.shortest(-center / scale)
        estimate = np.stack([self.points.counts[cells].sum(axis=1) for cells in positions], axis=1)
        return whole(estimate.astype(float), center + scale * low, center + scale * high)

    def averages(self, ratio: Ratio, above: LevelBlock, below: LevelBlock) -> Summary:
        """The posterior of a ratio's lines at a level, given the fit and before rounding."""
        config = self.measured.config
        people = {cell for part in ratio.parts for cell in part} == set(above.tabulation.cells)
        everyone = people and set(ratio.per) == set(below.tabulation.cells)
        key = (above.level.key, universe(config, ratio.numerator), universe(config, ratio.denominator))
        if everyone and len(ratio.lines) == 1 and key in self._totals:
            known = self._totals[key]
            return known[0, :, None], known[1, :, None], known[2, :, None]
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
        unknowns = Unknowns(
            parts=center[:, :count],
            covariance=covariance,
            units=center[:, count],
            unit_variance=variance[:, count],
            terms=(1,) * (count + 1),
            power=POWER,
            log_factor=self._nested(above, below) if everyone else None,
        )
        bounds = Bounds(ratio.at_least, config.tau[ratio.numerator.name])
        summary = np.array(posterior(NORMAL, unknowns, bounds, [line for _, line in ratio.lines]))
        if everyone:
            total = next(i for i, (_, line) in enumerate(ratio.lines) if len(line) == count)
            summary[:, :, total] = self._totals.setdefault(key, summary[:, :, total].copy())
        return summary[0], summary[1], summary[2]

    def _normal(self, positions: Sequence[Positions]) -> tuple[Array, Array]:
        """Means and standard deviations of sums of cells, groups × sums.

        Args:
            positions: For each sum, the positions of its cells, groups × cells.
        """
        groups = len(positions[0])
        ends = np.cumsum([0, *(cells.shape[1] for cells in positions for _ in range(groups))])
        columns = np.concatenate([cells.ravel() for cells in positions])
        sums = sparse.csr_array((np.ones(len(columns)), columns, ends), shape=(len(ends) - 1, len(self.fit.estimates)))
        shape = (len(positions), groups)
        means, spreads = sums @ self.fit.estimates, np.sqrt(self.fit.variance(sums))
        return means.reshape(shape).T, spreads.reshape(shape).T

    def _nested(self, above: LevelBlock, below: LevelBlock) -> Factor:
        """The evidence from smaller and larger universes (families, households) about people and units of this one."""
        config = self.measured.config
        own = (above.tabulation, below.tabulation)
        found: dict[object, tuple[int, int, Array, Array]] = {}
        for block in self.measured.blocks.values():
            if block.level.key != below.level.key:
                continue
            for which, tabulation in enumerate(own):
                sign = nesting(config, block.level, block.tabulation, tabulation)
                if sign:
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
