"""Tables that agree: estimates of everybody in which sums of the same people are equal, for expressions and draws.

Ties of the same people in two universes are loose (`everybody_ties.py`), so a difference is left. Here, the universe
that knows these sums best keeps its estimates. The others take over its sums, and their cells move as their own
covariance implies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from phsafe.configs.config import Config
from phsafe.estimation.densities import Array
from phsafe.estimation.everybody_ties import NEGLIGIBLE, TiedEverybody
from phsafe.estimation.fit import CellEstimates, NormalDraws
from phsafe.estimation.identities import Identity
from phsafe.estimation.measurement_vector import LevelBlock

#: Keeps a variance above zero.
TINY = 1e-12


@dataclass(frozen=True)
class AgreeingEverybody(TiedEverybody):
    """Estimates of everybody in which sums of the same people are equal."""

    @cached_property
    def _pairs(self) -> sparse.csr_array:
        """The ties of the same people."""
        return self.ties[self.loose > 0]

    @cached_property
    def _moves(self) -> list[tuple[sparse.csr_array, Array]]:
        """For each universe that moves, in order: ties with those before it, and the move of every cell per gap."""
        sides = [self._pairs.maximum(0).tocsr(), (-self._pairs).maximum(0).tocsr()]
        universes = np.array([self.universes[side.indices[side.indptr[:-1]]] for side in sides])
        variances = np.array([np.maximum(super(AgreeingEverybody, self).variance(side), TINY) for side in sides])
        ordered = _by_variance(universes, variances)
        moves = []
        for number, universe in enumerate(ordered):
            is_own, is_before = universes == universe, np.isin(universes, ordered[:number])
            pairs = self._pairs[(is_own & is_before[::-1]).any(axis=0)]
            if pairs.shape[0]:
                moves.append((pairs, self._gain(pairs.multiply(self.universes == universe).tocsr())))
        return moves

    def _gain(self, sums: sparse.csr_array) -> Array:
        """The expected change of every cell per change of some sums, before ties."""
        in_effects = self.effects.covariance_with((sums @ self.loadings).tocsr())
        shared = self.fit.projection.covariance_with(sums) + self.loadings @ in_effects
        covariance = sums @ shared
        scale = np.sqrt(np.diagonal(covariance))
        inverse = linalg.pinvh(covariance / np.outer(scale, scale), rtol=NEGLIGIBLE) / np.outer(scale, scale)
        return np.asarray(shared @ inverse)

    def _agreed(self, cells: Array) -> Array:
        for pairs, gain in self._moves:
            cells = cells - gain @ (pairs @ cells)
        return cells

    def _before(self, sums: sparse.csr_array) -> sparse.csr_array:
        """Sums of cells before they move that equal some sums of cells afterwards."""
        for pairs, gain in reversed(self._moves):
            sums = (sums - sparse.csr_array(sums @ gain) @ pairs).tocsr()
        return sums

    @cached_property
    def estimates(self) -> Array:
        """The estimate of every cell, everybody counted."""
        return self._agreed(super().estimates)

    def same_people(self, config: Config, blocks: Iterable[LevelBlock]) -> list[Identity]:
        """Sums in different universes that count the same people, of the levels that are tied."""
        tied = self._pairs.indices
        return [pair for pair in super().same_people(config, blocks) if np.isin(np.concatenate(pair), tied).all()]

    def variance(self, sums: sparse.csr_array) -> Array:
        """Return the variance of linear combinations of the estimates, one per row."""
        return super().variance(self._before(sums))

    def covariance(self, sums: sparse.csr_array) -> Array:
        """Return the covariance matrix of a few linear combinations of the estimates, one per row."""
        return super().covariance(self._before(sums))

    def draws(self, standard: NormalDraws) -> Array:
        """Return draws of the true counts given the estimates, positions × draws."""
        return self._agreed(super().draws(standard))


def agreeing(cells: CellEstimates) -> CellEstimates:
    """Estimates in which sums of the same people are equal; unchanged if there are none."""
    if isinstance(cells, TiedEverybody) and np.any(cells.loose > 0):
        return AgreeingEverybody(**{own.name: getattr(cells, own.name) for own in fields(cells)})
    return cells


def _by_variance(universes: NDArray[np.int64], variances: Array) -> list[int]:
    """Universes in order of how well they know the sums that they share with others, the best first.

    Args:
        universes: The universe of both sides of every tie, sides × ties.
        variances: The variance of both sides.
    """
    ratios = np.log(variances / variances[::-1])
    return sorted(np.unique(universes).tolist(), key=lambda one: float(np.median(ratios[universes == one])))
