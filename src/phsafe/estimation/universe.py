"""One universe of a release: its model, the likelihood of what the release measures of it, and probable sizes.

A size says how many people are probably beyond the threshold in a group: variances are in proportion to it, because a
sum over many large households varies more than a sum over few. Public shares may be wrong about how many there are
(Hawaii has nine times as many as other states suggest), so the release's own measurements decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import sparse

from phsafe.estimation.densities import NORMAL, Array
from phsafe.estimation.effects import Effects, Leaves, Rows, Spread, posterior, stacked, widened
from phsafe.estimation.fit import Fit
from phsafe.estimation.learned_spread import log_likelihood
from phsafe.estimation.measurement_vector import Measured
from phsafe.estimation.public_shares import PublicShares
from phsafe.estimation.universe_model import UniverseModel

#: Added to variances, since a group that public shares give nobody has none.
TINY = 1e-12


class Universe:
    """One universe of a release.

    Attributes:
        effects: The effects of all its models.
        models: The model of each kind of smallest groups, first of those that cover everybody.
    """

    def __init__(self, measured: Measured, fit: Fit, shares: PublicShares, leaves: Sequence[Leaves]) -> None:
        self._given = measured, fit, shares
        self.effects = Effects()
        self.models = [UniverseModel(measured, fit, shares, some, self.effects) for some in leaves]
        self._likelihoods: dict[tuple[bool, Spread], float] = {}

    @cached_property
    def observations(self) -> list[Rows]:
        """What the release measures of it."""
        return [row for model in self.models for row in model.observations(model.beyond)]

    @cached_property
    def _stacked(self) -> dict[bool, tuple[Array, sparse.csr_array, Array] | None]:
        """The measurements of groups that cover everybody, stacked: those of all groups, and those of everyone."""
        model = self.models[0]
        everyone = [block for block in model.beyond if block.level.iteration_level.is_total]
        chosen = {True: model.observations(model.beyond), False: model.observations(everyone)}
        return {groups: stacked(rows, self.effects.count) if rows else None for groups, rows in chosen.items()}

    def likelihood(self, groups: bool, spread: Spread) -> float:
        """Return the logarithm of the likelihood of the measurements of everyone, or of all groups (slower)."""
        key = (groups, spread)
        if key not in self._likelihoods:
            rows = self._stacked[groups]
            if rows is None:
                return 0.0
            prior = self.effects.variances(spread)[: rows[1].shape[1]]
            self._likelihoods[key] = log_likelihood(prior, *rows)
        return self._likelihoods[key]

    def resized(self, *, cells: bool = False) -> Universe:
        """Return the universe with probable sizes of its smallest groups, and on request of their cells.

        A size is the mean of what measurements say, given that it isn't negative; their variances follow from the sizes
        so far. Without measurements, sizes remain what public shares predict.
        """
        if not self.observations:
            return self
        splits = [{b.tabulation.name: model.split(b.tabulation) for b in model.leaves.blocks} for model in self.models]
        projection, shift = posterior(self.effects.variances(Spread()), self.observations)

        def probable(expected: Array, load: sparse.csr_array) -> Array:
            load = widened(load, len(shift))
            mean, scale = expected + load @ shift, np.sqrt(projection.variance(load) + TINY)
            return np.asarray(mean + scale * NORMAL.mean_above(-mean / scale))

        leaves = [
            replace(
                model.leaves,
                size=probable(model.leaves.expected, model.load),
                cell_sizes={name: probable(split.expected, split.load) for name, split in by_name.items() if cells},
            )
            for model, by_name in zip(self.models, splits, strict=True)
        ]
        return Universe(*self._given, leaves)
