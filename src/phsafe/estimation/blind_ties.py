"""Ties between counts with and without truncation: everyone is either within the threshold of a household or beyond it.

A cell that is counted blind, from persons and public geography alone, counts everybody. Where a truncated measurement
counts the same people up to the threshold, their difference is the number of dropped people. Conditioning the estimates
on these equalities sharpens all three: what a blind count knows well, the truncated tables and the model of dropped
people learn too. The equality needs every person of the universe to live in a housing unit that counts; validation
refuses data in which some don't (`phsafe.pipeline.validation.WITHOUT_HOUSING`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from phsafe.estimation.beyond_threshold import Everybody
from phsafe.estimation.densities import Array
from phsafe.estimation.effects_posterior import widened
from phsafe.estimation.fit import NormalDraws
from phsafe.estimation.identities import common_group, counts_the_same, gather_groups, untruncated_cells
from phsafe.estimation.measurement_vector import LevelBlock, Measured, Positions

#: Ties that others imply add nothing: directions with less than this share of the largest variance are left out.
NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class TiedEverybody(Everybody):
    """Estimates of everybody, given that truncated and dropped people add up to blind counts.

    Attributes:
        ties: For each tie (row), +1 for its truncated cells and −1 for its blind ones.
        tie_loads: How much each effect changes the dropped people of each tie.
        gaps: By how much the estimates without ties violate each one.
    """

    ties: sparse.csr_array = field(kw_only=True, repr=False)
    tie_loads: sparse.csr_array = field(kw_only=True, repr=False)
    gaps: Array = field(kw_only=True, repr=False)

    @cached_property
    def _whitened(self) -> tuple[Array, Array]:
        """What makes gaps independent with variance 1, and their covariance with all cells then."""
        in_fit = self.fit.projection.apply(self.fit.projection.variances[:, None] * self.ties.T.toarray())
        in_effects = self.effects.covariance_with(self.tie_loads)
        values, vectors = linalg.eigh(self.ties @ in_fit + self.tie_loads @ in_effects)
        kept = values > NEGLIGIBLE * values.max()
        root = vectors[:, kept] / np.sqrt(values[kept])
        return root, np.asarray((in_fit + self.loadings @ in_effects) @ root)

    @property
    def estimates(self) -> Array:
        """The estimate of every cell, everybody counted."""
        root, shared = self._whitened
        return np.asarray(self.fit.estimates + self.beyond - shared @ (self.gaps @ root))

    def variance(self, sums: sparse.csr_array) -> Array:
        """Return the variance of linear combinations of the estimates, one per row."""
        removed = np.square(sums @ self._whitened[1]).sum(axis=1)
        return np.asarray(np.maximum(super().variance(sums) - removed, 0.0))

    def covariance(self, sums: sparse.csr_array) -> Array:
        """Return the covariance matrix of a few linear combinations of the estimates, one per row."""
        shared = sums @ self._whitened[1]
        return np.asarray(super().covariance(sums) - shared @ shared.T)

    def draws(self, standard: NormalDraws) -> Array:
        """Return draws of the true counts given the estimates, positions × draws."""
        effects, cells = self.effects.draws(standard), self.fit.errors(standard)
        gaps = self.ties @ cells + self.tie_loads @ effects
        root, shared = self._whitened
        return np.asarray(self.estimates[:, None] + cells + self.loadings @ effects - shared @ (root.T @ gaps))


def tied(measured: Measured, untied: Everybody) -> Everybody:
    """Condition estimates of everybody on the ties of their blind counts; unchanged if there are none."""
    signs, means, loads = [], [], []
    for block, mean, load in untied.blind:
        for plus, minus, rows in _ties(measured, block):
            row, values = np.concatenate([plus, minus]), np.repeat([1.0, -1.0], [len(plus), len(minus)])
            signs.append(sparse.csr_array((values, ([0] * len(row), row)), shape=(1, len(measured.counts))))
            chosen = sparse.csr_array((np.ones(len(rows)), ([0] * len(rows), rows)), shape=(1, len(mean)))
            means.append(chosen @ mean)
            loads.append(widened((chosen @ load).tocsr(), len(untied.effects.mean)))
    if not signs:
        return untied
    ties, tie_loads = sparse.vstack(signs, format="csr"), sparse.vstack(loads, format="csr")
    gaps = ties @ untied.fit.estimates + np.concatenate(means) + tie_loads @ untied.effects.mean
    known = {field.name: getattr(untied, field.name) for field in fields(untied)}
    return TiedEverybody(**known, ties=ties, tie_loads=tie_loads, gaps=np.asarray(gaps))


def _ties(measured: Measured, blind: LevelBlock) -> Iterator[tuple[Positions, Positions, Positions]]:
    """Yield, for each group and tied cells, the truncated and the blind positions, and the latter within the block."""
    config, whole = measured.config, set(untruncated_cells(measured.config, blind))
    cells = list(blind.tabulation.cells)
    found: dict[tuple[int, ...], list[tuple[Positions, Positions]]] = {}
    for other in measured.blocks.values():
        same = other.tabulation is blind.tabulation
        cut = set(other.tabulation.cells) - set(untruncated_cells(config, other))
        key = common_group(blind, other)
        if key is None or not counts_the_same(config, other.tabulation, blind.tabulation):
            continue
        choices: list[tuple[tuple[int, ...], tuple[int, ...]]]
        choices = [((cell,), (cell,)) for cell in cells if same and cell in whole & cut]
        if not same and whole == set(cells) and cut == set(other.tabulation.cells):
            choices = [(tuple(cells), tuple(other.tabulation.cells))]
        for mine, theirs in choices:
            left, right = gather_groups(blind, key, mine), gather_groups(other, key, theirs)
            pairs = [(np.concatenate(right[group]), np.concatenate(left[group])) for group in left]
            if len(pairs) > len(found.get(mine, ())):
                found[mine] = pairs
    by_cell = any(len(mine) == 1 for mine in found)
    for mine, pairs in found.items():
        if len(mine) == 1 or not by_cell:  # Cells tied one by one imply their total.
            yield from ((plus, minus, minus - blind.start) for plus, minus in pairs)
