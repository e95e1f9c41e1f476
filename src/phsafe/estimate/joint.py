"""The joint model: what all measurements together say about every line, and points that agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse, special

from phsafe.estimate.averages import Bounds, Rows, Unknowns, posterior
from phsafe.estimate.constraints import is_within
from phsafe.estimate.fit import Fit
from phsafe.estimate.identities import universe
from phsafe.estimate.independent import Summary, whole
from phsafe.estimate.kernels import NORMAL, Array
from phsafe.estimate.lines import Ratio, basis
from phsafe.estimate.measured import Block, Measured, Positions
from phsafe.estimate.points import Points
from phsafe.spec import Table


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
            log_factor=self._other_units(ratio, below),
        )
        config = self.measured.config
        bounds = Bounds(ratio.at_least, config.tau[ratio.numerator.name])
        summary = np.array(posterior(NORMAL, unknowns, bounds, [line for _, line in ratio.lines]))
        if set(ratio.per) == set(below.tabulation.cells):
            key = (above.level.key, universe(config, ratio.numerator), universe(config, ratio.denominator))
            for i, (_, line) in enumerate(ratio.lines):
                cells = {cell for part in line for cell in ratio.parts[part]}
                if cells == set(above.tabulation.cells):
                    summary[:, :, i] = self._totals.setdefault(key, summary[:, :, i].copy())
        return summary[0], summary[1], summary[2]

    def _normal(self, places: Sequence[Positions]) -> tuple[Array, Array]:
        """Means and standard deviations of sums of cells: groups × sums, each sum given as groups × cells."""
        groups = len(places[0])
        ends = np.cumsum([0, *(place.shape[1] for place in places for _ in range(groups))])
        columns = np.concatenate([place.ravel() for place in places])
        sums = sparse.csr_array(
            (np.ones(len(columns)), columns, ends), shape=(len(ends) - 1, len(self.fit.estimates))
        )
        shape = (len(places), groups)
        means, spreads = sums @ self.fit.estimates, np.sqrt(self.fit.variance(sums))
        return means.reshape(shape).T, spreads.reshape(shape).T

    def _other_units(self, ratio: Ratio, below: Block) -> Callable[[Array, Rows], Array] | None:
        """What smaller and larger universes of units (families, households) say about a denominator."""
        if set(ratio.per) != set(below.tabulation.cells):
            return None
        config = self.measured.config
        found: dict[object, tuple[int, Array, Array]] = {}
        for block in self.measured.blocks.values():
            if block.level.key != below.level.key or block.tabulation.counts_persons:
                continue
            smaller = is_within(config, block.tabulation, below.tabulation)
            if smaller or is_within(config, below.tabulation, block.tabulation):
                who = universe(config, block.tabulation)
                found.setdefault(who, (1 if smaller else -1, *(a[:, 0] for a in self._normal([block.positions()]))))
        if not found:
            return None

        def log_factor(units: Array, rows: Rows) -> Array:
            logs = [
                special.log_ndtr(sign * (units - center[rows][:, None]) / scale[rows][:, None])
                for sign, center, scale in found.values()
            ]
            return np.sum(logs, axis=0)

        return log_factor
