"""Margins of error after joint estimation: what is left of the noise once everything that must agree is made to.

The covariance of weighted least squares depends on the variances alone, so a config is enough. Groups of a level
have equal variances and equal roles, so one cell of one group stands for its level.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from phsafe.config import Config
from phsafe.estimation.fit import fit
from phsafe.estimation.kernels import KERNELS
from phsafe.estimation.measured import Block, Measured
from phsafe.explorer.request import Key
from phsafe.privacy.accountant import plan
from phsafe.privacy.margins import gaussian_moe


def joint_moe(config: Config) -> dict[Key, float]:
    """The 90 % MOE of a basis cell of each measurement after weighted least squares over all identities."""
    blocks: dict[Key, Block] = {}
    variances, start, kind = [], 0, ""
    for event, m in zip(plan(config).events, config.measurements(), strict=True):
        groups = tuple((region, iteration.code) for region, iteration in m.level.groups(config.states))
        blocks[m.tabulation.name, m.level.key] = Block(m.tabulation, m.level, groups, start)
        size = len(groups) * len(m.tabulation.cells)
        variances.append(np.full(size, event.noise.variance))
        start, kind = start + size, event.noise.distribution
    measured = Measured(config, blocks, np.zeros(start), np.concatenate(variances), KERNELS[kind])
    first = [block.start for block in blocks.values()]
    chosen = sparse.csr_array((np.ones(len(first)), (range(len(first)), first)), shape=(len(first), start))
    posterior = fit(measured).variance(chosen)
    return {key: gaussian_moe(float(v)) for key, v in zip(blocks, posterior, strict=True)}
