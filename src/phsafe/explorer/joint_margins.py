"""Margins of error after joint estimation, from a config alone.

Joint estimation makes the measurements agree wherever they must, which removes some of their noise. The covariance of
its weighted least squares fit depends only on the noise variances, so it can be computed before any release. All
groups of a level have the same variances and identities, so one cell of one group represents its level.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.estimation.densities import DENSITIES
from phsafe.estimation.fit import fit
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.explorer.page_requests import Key
from phsafe.privacy.accountant import plan
from phsafe.privacy.budgets import Budget
from phsafe.privacy.mode_comparison import Comparison
from phsafe.privacy_math.margins import gaussian_moe


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


def joint_moe(config: Config) -> dict[Key, float]:
    """Return the 90 % MOE of a basis cell after joint estimation, by tabulation and level; of the noisiest block."""
    blocks: dict[Key, LevelBlock] = {}
    variances, start, distribution, cells = [], 0, "", []
    for event, m in zip(plan(config).events, config.measurements(), strict=True):
        groups = tuple((region, iteration.code) for region, iteration in m.level.groups(config.states))
        blocks[m.tabulation.name, m.level.key] = LevelBlock(m.tabulation, m.level, groups, start)
        cells.append(start + list(m.tabulation.cells).index(event.noisiest.block.cells[0]))
        of_cell = {cell: one.noise.variance for one in event.blocks for cell in one.block.cells}
        variances.append(np.tile([of_cell[cell] for cell in m.tabulation.cells], len(groups)))
        start, distribution = start + len(variances[-1]), event.noise.distribution
    measured = Measured(config, blocks, np.zeros(start), np.concatenate(variances), DENSITIES[distribution])
    chosen = sparse.csr_array((np.ones(len(cells)), (range(len(cells)), cells)), shape=(len(cells), start))
    posterior = fit(measured).variance(chosen)
    return {key: gaussian_moe(float(v)) for key, v in zip(blocks, posterior, strict=True)}
