"""The joint model: what all measurements together say about every line, and points that agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse, special

from phsafe.estimation.averages import Bounds, Factor, Rows, Unknowns, posterior
from phsafe.estimation.constraints import nesting
from phsafe.estimation.fit import Fit
from phsafe.estimation.identities import universe
from phsafe.estimation.kernels import NORMAL, Array
from phsafe.estimation.lines import Ratio, basis
from phsafe.estimation.measured import Block, Measured, Positions
from phsafe.estimation.points import Points
from phsafe.estimation.rounding import Summary, whole
from phsafe.spec import Table

#: Where noise outweighs a group, the mean of N/D (0) is too high for families and that by units (1) too low for
#: households; halfway is better than the 2020 mean for all. Larger groups don't notice (docs/estimation.md).
POWER = 0.5


@dataclass
class Joint:
    """Summaries from the least-squares fit. The error of a weighted sum of many noises is taken as normal."""

    measured: Measured
    fit: Fit
    points: Points
    #: Averages of a whole universe, by level and universes: shown in several tables, computed once.
    _totals: dict[object, Array] = field(default_factory=dict)

    def counts(self, table: Table, block: Block) -> Summary:
        """The agreed counts, with the shortest 90 % intervals of the fit cut at zero."""
        catalog = self.measured.config.catalog
        places = [block.positions(basis(catalog, table, block.tabulation, line.number)) for line in table.shell]
        center, scale = self._normal(places)
        low, high = NORMAL.shortest(-center / scale)
        estimate = np.stack([self.points.counts[place].sum(axis=1) for place in places], axis=1)
        return whole(estimate.astype(float), center + scale * low, center + scale * high)

    def averages(self, ratio: Ratio, above: Block, below: Block) -> Summary:
        """The posterior of a ratio's lines at a level, given the fit; not yet rounded."""
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

    def _normal(self, places: Sequence[Positions]) -> tuple[Array, Array]:
        """Means and standard deviations of sums of cells: groups × sums, each sum given as groups × cells."""
        groups = len(places[0])
        ends = np.cumsum([0, *(place.shape[1] for place in places for _ in range(groups))])
        columns = np.concatenate([place.ravel() for place in places])
        sums = sparse.csr_array((np.ones(len(columns)), columns, ends), shape=(len(ends) - 1, len(self.fit.estimates)))
        shape = (len(places), groups)
        means, spreads = sums @ self.fit.estimates, np.sqrt(self.fit.variance(sums))
        return means.reshape(shape).T, spreads.reshape(shape).T

    def _nested(self, above: Block, below: Block) -> Factor:
        """What smaller and larger universes (families, households) say about people and units of a whole universe."""
        config = self.measured.config
        mine = (above.tabulation, below.tabulation)
        found: dict[object, tuple[int, int, Array, Array]] = {}
        for block in self.measured.blocks.values():
            if block.level.key != below.level.key:
                continue
            for which, tabulation in enumerate(mine):
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
