"""The independent method (the 2020 model): each table, region and iteration is estimated from its own noisy counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phsafe.estimation.averages import MAX_CHUNK, Bounds, Unknowns, feasible, posterior
from phsafe.estimation.densities import TAIL, Array, Density
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.estimation.rounding import Summary, whole
from phsafe.estimation.table_lines import Ratio, basis
from phsafe.model.spec import Table

#: Steps of the convolution grid, and the probability outside it.
STEPS = 1 << 12
NEGLIGIBLE = 1e-10


@dataclass(frozen=True)
class Independent:
    """Summaries of table lines, each from its own measurements only."""

    measured: Measured

    def counts(self, table: Table, block: LevelBlock) -> Summary:
        """Whole-number estimates and 90 % intervals for all lines of a count table at a level.

        The posterior of a basis cell is its noise density restricted to values above zero. Its estimate is the rounded
        mean, its interval the 5 % and 95 % quantiles. A total is the sum of the rounded cells, with the interval of a
        sum of independent cells.
        """
        measured = self.measured
        catalog, cells = measured.config.catalog, list(block.tabulation.cells)
        positions = block.positions()
        noisy, scale = measured.counts[positions], measured.density.scale(measured.variances[positions])
        zero = -noisy / scale
        members = np.zeros((len(table.shell), len(cells)))
        for row, line in enumerate(table.shell):
            members[row, [cells.index(c) for c in basis(catalog, table, block.tabulation, line.number)]] = 1
        estimate = np.rint(noisy + scale * measured.density.mean_above(zero)) @ members.T
        low, high = (noisy + scale * tail for tail in measured.density.equal_tails(zero))
        sums = members.sum(axis=1) > 1
        lower, upper = np.empty_like(estimate), np.empty_like(estimate)
        lower[:, ~sums], upper[:, ~sums] = low @ members[~sums].T, high @ members[~sums].T
        lower[:, sums], upper[:, sums] = _sum_tails(measured.density, noisy, scale, members[sums])
        error = np.sqrt(measured.variances[positions] @ members.T)
        return whole(estimate, lower, upper, error)

    def bounds(self, ratio: Ratio, above: LevelBlock) -> Bounds:
        """The feasible range of an average, with the measurement of its numerator at a level."""
        return feasible(self.measured.config, ratio, above, truncated=True)

    def averages(self, ratio: Ratio, above: LevelBlock, below: LevelBlock) -> Summary:
        """The posterior of a ratio's lines at a level, before rounding."""
        measured = self.measured
        parts = np.stack([measured.counts[above.positions(part)].sum(axis=1) for part in ratio.parts], axis=1)
        spread = np.stack([measured.variances[above.positions(part)].sum(axis=1) for part in ratio.parts], axis=1)
        per = below.positions(ratio.per)
        unknowns = Unknowns(
            parts=parts,
            covariance=spread[:, :, None] * np.eye(parts.shape[1]),
            units=measured.counts[per].sum(axis=1),
            unit_variance=measured.variances[per].sum(axis=1),
            terms=(*(len(part) for part in ratio.parts), len(ratio.per)),
        )
        bounds = self.bounds(ratio, above)
        summary, _ = posterior(measured.density, unknowns, bounds, [line for _, line in ratio.lines])
        return summary[0], summary[1], summary[2], summary[3]


def _sum_tails(density: Density, noisy: Array, scale: Array, members: Array) -> tuple[Array, Array]:
    """The 5 % and 95 % quantiles of sums of independent, non-negative cells: densities convolved on a grid."""
    tails = np.empty((2, len(noisy), len(members)))
    zero = -noisy / scale
    low = noisy + scale * density.quantile_above(NEGLIGIBLE, zero)
    high = noisy + scale * density.quantile_above(1 - NEGLIGIBLE, zero)
    for line, member in enumerate(members.astype(bool)):
        chunk = max(1, MAX_CHUNK // (STEPS * member.sum()))
        for first in range(0, len(noisy), chunk):
            rows = slice(first, first + chunk)
            start, width = low[rows, member], (high - low)[rows, member]
            step = width.sum(axis=1) / STEPS
            edges = start[..., None] + step[:, None, None] * np.arange(STEPS + 1)
            center, spread = noisy[rows, member][..., None], scale[rows, member][..., None]
            mass = -np.diff(density.survival((edges - center) / spread, -center / spread), axis=-1)
            mass /= mass.sum(axis=-1, keepdims=True)
            # All cells together span at most STEPS steps, so the circular convolution doesn't wrap around.
            total = np.fft.irfft(np.fft.rfft(mass).prod(axis=1), STEPS)
            # Mass sits mid-step, for each cell and for their sum: half a step per cell, less half a step for the sum.
            origin = start.sum(axis=1) + step * (member.sum() - 1) / 2
            for i, share in enumerate(np.cumsum(total, axis=-1)):
                quantiles = np.interp([TAIL, 1 - TAIL], share, np.arange(1, STEPS + 1))
                tails[:, first + i, line] = origin[i] + step[i] * quantiles
    return tails[0], tails[1]
