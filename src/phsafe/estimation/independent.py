"""The 2020 model: every table, region and group on its own, from its own noisy counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phsafe.estimation.averages import AT_ONCE, Bounds, Unknowns, posterior
from phsafe.estimation.kernels import TAIL, Array, Kernel
from phsafe.estimation.lines import Ratio, basis
from phsafe.estimation.measured import Block, Measured
from phsafe.estimation.rounding import Summary, whole
from phsafe.spec import Table

#: Steps of a grid, and the probability that is left outside it.
STEPS = 1 << 12
NEGLIGIBLE = 1e-10


@dataclass(frozen=True)
class Independent:
    """Summaries of the lines of tables from their own measurements only."""

    measured: Measured

    def counts(self, table: Table, block: Block) -> Summary:
        """Whole-number estimates and 90 % intervals for all lines of a count table at a level.

        Each basis cell is its noise cut at zero: its mean, rounded, with the 5 % and 95 % quantiles. A total is the
        sum of the rounded cells; its interval is that of the sum of independent cells.
        """
        measured = self.measured
        catalog, cells = measured.config.catalog, list(block.tabulation.cells)
        place = block.positions()
        noisy, scale = measured.counts[place], measured.kernel.scale(measured.variances[place])
        zero = -noisy / scale
        members = np.zeros((len(table.shell), len(cells)))
        for row, line in enumerate(table.shell):
            members[row, [cells.index(c) for c in basis(catalog, table, block.tabulation, line.number)]] = 1
        estimate = np.rint(noisy + scale * measured.kernel.mean_above(zero)) @ members.T
        low, high = (noisy + scale * tail for tail in measured.kernel.equal_tails(zero))
        sums = members.sum(axis=1) > 1
        lower, upper = np.empty_like(estimate), np.empty_like(estimate)
        lower[:, ~sums], upper[:, ~sums] = low @ members[~sums].T, high @ members[~sums].T
        lower[:, sums], upper[:, sums] = _sum_tails(measured.kernel, noisy, scale, members[sums])
        return whole(estimate, lower, upper)

    def averages(self, ratio: Ratio, above: Block, below: Block) -> Summary:
        """The 2020 posterior of the lines of a ratio at a level, not yet rounded."""
        measured = self.measured
        parts = np.stack([measured.counts[above.positions(part)].sum(axis=1) for part in ratio.parts], axis=1)
        spread = np.stack([measured.variances[above.positions(part)].sum(axis=1) for part in ratio.parts], axis=1)
        place = below.positions(ratio.per)
        unknowns = Unknowns(
            parts=parts,
            covariance=spread[:, :, None] * np.eye(parts.shape[1]),
            units=measured.counts[place].sum(axis=1),
            unit_variance=measured.variances[place].sum(axis=1),
            terms=(*(len(part) for part in ratio.parts), len(ratio.per)),
        )
        bounds = Bounds(ratio.at_least, measured.config.tau[ratio.numerator.name])
        return posterior(measured.kernel, unknowns, bounds, [line for _, line in ratio.lines])


def _sum_tails(kernel: Kernel, noisy: Array, scale: Array, members: Array) -> tuple[Array, Array]:
    """The 5 % and 95 % quantiles of sums of independent cells, each cut at zero: densities convolved on a grid."""
    tails = np.empty((2, len(noisy), len(members)))
    zero = -noisy / scale
    low = noisy + scale * kernel.draw(NEGLIGIBLE, zero)
    high = noisy + scale * kernel.draw(1 - NEGLIGIBLE, zero)
    for line, member in enumerate(members.astype(bool)):
        at_once = max(1, AT_ONCE // (STEPS * member.sum()))
        for first in range(0, len(noisy), at_once):
            rows = slice(first, first + at_once)
            start, width = low[rows, member], (high - low)[rows, member]
            step = width.sum(axis=1) / STEPS
            edges = start[..., None] + step[:, None, None] * np.arange(STEPS + 1)
            center, spread = noisy[rows, member][..., None], scale[rows, member][..., None]
            mass = -np.diff(kernel.above((edges - center) / spread, -center / spread), axis=-1)
            mass /= mass.sum(axis=-1, keepdims=True)
            # All cells together span no more than STEPS steps, so the circular convolution doesn't wrap around.
            total = np.fft.irfft(np.fft.rfft(mass).prod(axis=1), STEPS)
            # Each cell's mass stands at the middle of its step, and so does half of the sum's.
            origin = start.sum(axis=1) + step * (member.sum() - 1) / 2
            for i, share in enumerate(np.cumsum(total, axis=-1)):
                place = np.interp([TAIL, 1 - TAIL], share, np.arange(1, STEPS + 1))
                tails[:, first + i, line] = origin[i] + step[i] * place
    return tails[0], tails[1]
