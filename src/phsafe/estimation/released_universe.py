"""One universe of a release: its model, the likelihood of what the release measures of it, and probable sizes.

A size is the probable number of people beyond the threshold in a group. Variances are proportional to it, because a sum
over many large households varies more than a sum over few. Public shares may be wrong about how many there are (Hawaii
has nine times as many as other states suggest), so the release's own measurements decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import sparse

from phsafe.estimation.densities import NORMAL, Array
from phsafe.estimation.effects import Effects, Leaves, Spread
from phsafe.estimation.effects_posterior import EffectsPosterior, Measurements, Observation, widened
from phsafe.estimation.fit import Fit
from phsafe.estimation.measurement_vector import Measured
from phsafe.estimation.public_shares import PublicShares
from phsafe.estimation.universe_model import UniverseModel

#: Keeps standard deviations above zero in groups where public shares predict nobody beyond the threshold.
TINY = 1e-12


class ReleasedUniverse:
    """One universe of a release.

    Attributes:
        effects: The effects of all its models.
        models: One model per kind of smallest groups; the one whose iterations cover everybody, if any, comes first.
    """

    def __init__(self, measured: Measured, fit: Fit, shares: PublicShares, leaves: Sequence[Leaves]) -> None:
        self._given = measured, fit, shares
        self.effects = Effects()
        self.models = [UniverseModel(measured, fit, shares, some, self.effects) for some in leaves]
        self._likelihoods: dict[tuple[bool, Spread], float] = {}

    @cached_property
    def observations(self) -> list[Observation]:
        """What the release measures of it."""
        return [observation for model in self.models for observation in model.observations(model.beyond)]

    def posterior(self, spread: Spread) -> EffectsPosterior:
        """Return the posterior of the effects, given all measurements."""
        observations = self.observations  # Arranging them may add effects.
        return EffectsPosterior(self.effects.variances(spread), Measurements(observations, self.effects.count))

    @cached_property
    def _measurements(self) -> dict[bool, Measurements]:
        """The measurements of the first kind of smallest groups: those of all groups, and those of everyone."""
        model = self.models[0]
        everyone = [block for block in model.beyond if block.level.iteration_level.is_total]
        chosen = {True: model.observations(model.beyond), False: model.observations(everyone)}
        return {groups: Measurements(found, self.effects.count) for groups, found in chosen.items()}

    def likelihood(self, all_groups: bool, spread: Spread) -> float:
        """Return the logarithm of the likelihood of the measurements of everyone, or of all groups (slower)."""
        key = (all_groups, spread)
        if key not in self._likelihoods:
            given = self._measurements[all_groups]
            prior = self.effects.variances(spread)[: given.loads.shape[1]]
            self._likelihoods[key] = EffectsPosterior(prior, given).log_likelihood
        return self._likelihoods[key]

    def resized(self, *, cells: bool = False) -> ReleasedUniverse:
        """Return the universe with probable sizes of its smallest groups, and on request of their cells.

        A size is the mean of what measurements say, given that it isn't negative; prior variances are based on the
        current sizes. The mean of what can't be negative exceeds the mean without this bound, the more so the less is
        known. Sizes are therefore scaled so that they add up to the mean of their sum. Without measurements, they
        remain what public shares predict.
        """
        if not self.observations:
            return self
        # Dividing groups over cells adds effects, so it comes before the posterior.
        tabulations = [dict.fromkeys(b.tabulation for b in model.leaves.blocks if cells) for model in self.models]
        splits = [{t.name: model.split(t) for t in own} for model, own in zip(self.models, tabulations, strict=True)]
        posterior = self.posterior(Spread())
        shift = posterior.mean

        def probable(expected: Array, load: sparse.csr_array) -> Array:
            load = widened(load, len(shift))
            mean, scale = expected + load @ shift, np.sqrt(posterior.variance(load) + TINY)
            above = np.maximum(mean + scale * NORMAL.mean_above(-mean / scale), 0.0)
            return np.asarray(above * min(1.0, max(mean.sum(), 0.0) / max(above.sum(), TINY)))

        leaves = [
            replace(
                model.leaves,
                size=probable(model.leaves.expected, model.load),
                cell_sizes={name: probable(split.expected, split.load) for name, split in by_name.items()},
            )
            for model, by_name in zip(self.models, splits, strict=True)
        ]
        return ReleasedUniverse(*self._given, leaves)
