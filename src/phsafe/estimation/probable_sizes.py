"""How many people are probably beyond the thresholds of every group: what variances are in proportion to.

A sum over many large households varies more than a sum over few. Public shares may be wrong about how many there are
(Hawaii has nine times as many as other states suggest), so the release's own measurements decide first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from phsafe.estimation.densities import NORMAL, Array
from phsafe.estimation.effects import Effects, Leaves, posterior, widened
from phsafe.estimation.fit import Fit
from phsafe.estimation.learned_spread import Spread
from phsafe.estimation.measurement_vector import Measured
from phsafe.estimation.public_shares import PublicShares
from phsafe.estimation.universe_model import UniverseModel

#: Added to variances, since a group that public shares give nobody has none.
TINY = 1e-12


def probable_sizes(
    measured: Measured, fit: Fit, shares: PublicShares, universe: Sequence[Leaves], *, cells: bool = False
) -> list[Leaves]:
    """Return the smallest groups of a universe with their probable sizes, and on request those of their cells.

    A size is the mean of what measurements say, given that it isn't negative; their variances follow from the sizes so
    far. Without measurements, sizes remain what public shares predict.
    """
    effects = Effects()
    models = [UniverseModel(measured, fit, shares, leaves, effects, Spread()) for leaves in universe]
    rows = [row for model in models for row in model.observations(model.beyond)]
    if not rows:
        return [model.leaves for model in models]
    splits = [{b.tabulation.name: model.split(b.tabulation) for b in model.leaves.blocks} for model in models]
    projection, shift = posterior(effects, rows)

    def probable(expected: Array, load: sparse.csr_array) -> Array:
        load = widened(load, len(shift))
        mean, scale = expected + load @ shift, np.sqrt(projection.variance(load) + TINY)
        return np.asarray(mean + scale * NORMAL.mean_above(-mean / scale))

    return [
        replace(
            model.leaves,
            size=probable(model.leaves.expected, model.load),
            cell_sizes={name: probable(split.expected, split.load) for name, split in by_name.items() if cells},
        )
        for model, by_name in zip(models, splits, strict=True)
    ]
