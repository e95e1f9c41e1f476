"""Margins of error after joint estimation, from a config alone.

Joint estimation makes the measurements agree wherever they must, which removes some of their noise. The covariance of
its weighted least squares fit depends only on the noise variances, so it can be computed before any release. All
groups of a level have the same variances and identities, so one cell of one group represents its level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import sparse

from phsafe.configs.config import Config
from phsafe.configs.line_sums import CellSum
from phsafe.errors import PHSafeError
from phsafe.estimation.densities import DENSITIES
from phsafe.estimation.fit import Projection, project
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.explorer.page_requests import Key
from phsafe.model.levels import STATE
from phsafe.privacy.accountant import plan
from phsafe.privacy.budgets import Budget
from phsafe.privacy.mode_comparison import Comparison
from phsafe.privacy_math.margins import gaussian_moe

#: How many fits are kept. One takes about two megabytes.
KEPT_FITS = 32


def with_finished_margins(comparison: Comparison | Budget) -> Comparison:
    """Add the margins after joint estimation to a comparison of modes.

    Raises:
        PHSafeError: It is the budget of a single mode, or under pure DP, for which they are not known exactly.
    """
    if not isinstance(comparison, Comparison):
        raise PHSafeError("--finished: expected --compare too, which compares the sensitivity modes")
    if comparison.published.definition != "zcdp":
        raise PHSafeError("--finished: margins after joint estimation are known for zcdp only; leave out --finished")
    return replace(comparison, finished={b.config.sensitivity: joint_moe(b.config) for b in comparison.budgets})


@dataclass(frozen=True)
class JointFit:
    """The least-squares fit of a config's measurements. The first group of each block represents its level."""

    blocks: Mapping[Key, LevelBlock]
    projection: Projection

    def rows(self, parts: Sequence[tuple[CellSum, str]]) -> sparse.csr_array:
        """Return sums of basis cells of the representative group, each with its level, as rows for `projection`."""
        where = [self.blocks[part.tabulation, level].positions(part.basis)[0] for part, level in parts]
        ends = np.cumsum([0, *map(len, where)])
        positions = np.concatenate([np.empty(0, np.int64), *where])
        return sparse.csr_array(
            (np.ones(len(positions)), positions, ends), shape=(len(parts), len(self.projection.variances))
        )

    def variances(self, parts: Sequence[tuple[CellSum, str]]) -> list[float]:
        """Return the variance after joint estimation of sums of basis cells, each with its level."""
        return [float(v) for v in self.projection.variance(self.rows(parts))]

    def difference(self, count: CellSum, per: CellSum, ratio: float, level: str) -> float:
        """Return the variance of a count minus `ratio` times another, after joint estimation."""
        rows = self.rows([(count, level), (per, level)])
        return float(self.projection.variance(sparse.csr_array([[1.0, -ratio]]) @ rows)[0])


@lru_cache(maxsize=KEPT_FITS)
def joint_fit(config: Config) -> JointFit:
    """Return the fit of all measurements of a config, by what the variances alone determine.

    Where regions are states, two represent all: the first, and the second with the summed variance of all others. The
    others have the same variances and identities, so they matter to the first only through their sum.
    """
    others = max(1, len(config.states) - 1)
    small = replace(config, states=config.states[:2]) if _by_state(config) else config
    blocks: dict[Key, LevelBlock] = {}
    variances, start, distribution = [], 0, ""
    for event, m in zip(plan(config).events, config.measurements(), strict=True):
        groups = tuple((region, iteration.code) for region, iteration in m.level.groups(small.states))
        blocks[m.tabulation.name, m.level.key] = LevelBlock(m.tabulation, m.level, groups, start)
        of_cell = {cell: one.noise.variance for one in event.blocks for cell in one.block.cells}
        regions = [others if small is not config and region in small.states[1:] else 1 for region, _ in groups]
        variances.append(np.outer(regions, [of_cell[cell] for cell in m.tabulation.cells]).ravel())
        start, distribution = start + len(variances[-1]), event.noise.distribution
    measured = Measured(small, blocks, np.zeros(start), np.concatenate(variances), DENSITIES[distribution])
    return JointFit(blocks, project(measured))


def joint_moe(config: Config) -> dict[Key, float]:
    """Return the 90 % MOE of a basis cell after joint estimation, by tabulation and level; of the noisiest block."""
    fitted = joint_fit(config)
    cells = [
        (CellSum(event.tabulation, (event.noisiest.block.cells[0],)), event.level) for event in plan(config).events
    ]
    posterior = fitted.variances(cells)
    return {key: gaussian_moe(v) for key, v in zip(fitted.blocks, posterior, strict=True)}


def _by_state(config: Config) -> bool:
    """Whether every level is for the nation or for each state."""
    geographies = [m.level.geography for m in config.measurements()]
    return all(not g.columns or (g.columns == STATE.columns and g.covers) for g in geographies)
