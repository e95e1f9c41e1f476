"""Ties: sums that are equal once the people beyond the thresholds are included, although the truncated ones differ.

**Blind counts.** A cell that is counted blind, from persons and public geography alone, counts everybody. Where a
truncated measurement counts the same people up to the threshold, their difference is the number of dropped people.
Conditioning the estimates on these equalities makes all three more precise: blind counts, truncated tables and the
model of dropped people. The equality requires every person of the universe to live in a housing unit that counts;
validation refuses data in which some don't (`phsafe.pipeline.validation.WITHOUT_HOUSING`).

**The same people in two universes.** Tables with different filters, such as children and own children, may have cells
for the same people, truncated differently: the more precise table improves the other. These ties are loose. If public
shares predict the dropped persons of both tables and are wrong, they are wrong for both alike, although the model
treats their errors as independent. A loose tie may be violated, in proportion to the uncertainty of the dropped
persons, so two such predictions don't make a much more precise one. Where the release measures dropped persons well,
the tie is nearly exact. Least is known about the distribution of dropped persons over cells, so ties of parts are
looser than the tie of their total. Tables show these estimates. Expressions and draws of both tables need sums that are
really equal (`agreeing_tables.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from phsafe.estimation.beyond_threshold import Everybody
from phsafe.estimation.densities import Array
from phsafe.estimation.fit import NormalDraws
from phsafe.estimation.identities import (
    Identity,
    common_group,
    counts_the_same,
    gather_groups,
    matrix,
    same_people,
    universe,
    untruncated_cells,
)
from phsafe.estimation.measurement_vector import LevelBlock, Measured, Positions
from phsafe.estimation.published_lines import sum_rows

#: Ties that others imply add nothing: directions with less than this share of the largest variance are left out, after
#: each tie is divided by its standard deviation.
NEGLIGIBLE = 1e-9
#: How far ties of the same people may be violated, in standard deviations of the dropped people: ties of totals, and of
#: their parts. In expanded samples, a few households decide how both tables distribute dropped people over cells.
TOTAL_LOOSE, PART_LOOSE = 0.5, 3.0
#: The most numbers in the covariance of all cells with the ties of two universes; this bounds memory.
MOST = 1 << 25


@dataclass(frozen=True)
class TiedEverybody(Everybody):
    """Estimates of everybody, given sums that must be equal.

    Attributes:
        ties: For each tie (row), +1 for the cells of one side and −1 for those of the other.
        tie_loads: How much each effect changes the difference in dropped people.
        gaps: By how much the estimates without ties violate each one.
        loose: How far each tie may be violated, in standard deviations of the dropped people.
        universes: The number of the universe of every cell.
    """

    ties: sparse.csr_array = field(kw_only=True, repr=False)
    tie_loads: sparse.csr_array = field(kw_only=True, repr=False)
    gaps: Array = field(kw_only=True, repr=False)
    loose: Array = field(kw_only=True, repr=False)
    universes: NDArray[np.int64] = field(kw_only=True, repr=False)

    @cached_property
    def _whitened(self) -> tuple[Array, Array, Array]:
        """A matrix that makes gaps independent with variance 1, and their covariance with cells and effects then."""
        in_fit = self.fit.projection.covariance_with(self.ties)
        in_effects = self.effects.covariance_with(self.tie_loads)
        dropped = self.tie_loads @ in_effects
        # Ties that are equally loose are violated together, as their dropped people vary; others independently.
        violated = np.where(np.equal.outer(self.loose, self.loose), np.square(self.loose), 0.0) * dropped
        covariance = self.ties @ in_fit + dropped + violated
        scale = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(float).tiny))
        values, vectors = linalg.eigh(covariance / np.outer(scale, scale))
        kept = values > NEGLIGIBLE * values.max()
        root = vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None]
        return root, np.asarray((in_fit + self.loadings @ in_effects) @ root), np.asarray(in_effects @ root)

    @property
    def estimates(self) -> Array:
        """The estimate of every cell, everybody counted."""
        root, shared, _ = self._whitened
        return np.asarray(self.fit.estimates + self.beyond - shared @ (self.gaps @ root))

    def variance(self, sums: sparse.csr_array) -> Array:
        """Return the variance of linear combinations of the estimates, one per row."""
        removed = np.square(sums @ self._whitened[1]).sum(axis=1)
        return np.asarray(np.maximum(super().variance(sums) - removed, 0.0))

    def covariance(self, sums: sparse.csr_array) -> Array:
        """Return the covariance matrix of a few linear combinations of the estimates, one per row."""
        shared = sums @ self._whitened[1]
        return np.asarray(super().covariance(sums) - shared @ shared.T)

    def dropped_of(self, effects: sparse.csr_array, expected: float) -> tuple[float, float]:
        """Return the mean and the variance of dropped people, with the effects on them and their expected number."""
        root, _, in_effects = self._whitened
        mean, variance = super().dropped_of(effects, expected)
        removed = (effects @ in_effects)[0]
        return mean - float(removed @ (self.gaps @ root)), max(variance - float(removed @ removed), 0.0)

    def draws(self, standard: NormalDraws) -> Array:
        """Return draws of the true counts given the estimates, positions × draws."""
        effects, cells = self.effects.draws(standard), self.fit.errors(standard)
        gaps = self.ties @ cells + self.tie_loads @ effects
        for loose in set(self.loose[self.loose > 0]):
            gaps += np.where(self.loose == loose, loose, 0.0)[:, None] * (self.tie_loads @ self.effects.draws(standard))
        root, shared, _ = self._whitened
        return np.asarray(self.estimates[:, None] + cells + self.loadings @ effects - shared @ (root.T @ gaps))


def tied(measured: Measured, untied: Everybody) -> Everybody:
    """Condition estimates of everybody on sums that must be equal; unchanged if there are none."""
    rows: list[Identity] = []
    means, loads = [], []
    for block, mean, load in untied.blind:
        for plus, minus in _blind_ties(measured, block):
            chosen = sum_rows([minus - block.start], len(mean))
            rows.append((plus, minus))
            means.append(chosen @ mean)
            loads.append((chosen @ load).tocsr())
    pairs, loose = _pairs(measured, untied)
    rows += pairs
    if not rows:
        return untied
    same = matrix(pairs, len(measured.counts))
    means.append(same @ untied.beyond)
    loads.append((same @ untied.loadings).tocsr())
    ties, tie_loads = matrix(rows, len(measured.counts)), sparse.vstack(loads, format="csr")
    gaps = ties @ untied.fit.estimates + np.concatenate(means)
    known = dict(vars(untied))
    if len(rows) > len(pairs):
        known["about"] += " Counts without a threshold include the same people and make these estimates more precise."
    exact = [0.0] * (len(rows) - len(pairs))
    numbers: dict[object, int] = {}
    universes = np.zeros(len(measured.counts), np.int64)
    for block in measured.blocks.values():
        universes[block.positions()] = numbers.setdefault(universe(measured.config, block.tabulation), len(numbers))
    return TiedEverybody(
        **known,
        ties=ties,
        tie_loads=tie_loads,
        gaps=np.asarray(gaps),
        loose=np.array(exact + loose),
        universes=universes,
    )


def _pairs(measured: Measured, untied: Everybody) -> tuple[list[Identity], list[float]]:
    """Sums of the same people in two universes, and how loosely they are tied.

    Levels with too many groups for the memory are left out.
    """
    by_level: dict[str, list[tuple[Identity, float]]] = {}
    for level, parts in same_people(measured.config, untied.known(measured.blocks.values())):
        plus, minus = (np.concatenate(side) for side in zip(*parts, strict=True))
        ties = by_level.setdefault(level.key, [])
        ties.append(((plus, minus), TOTAL_LOOSE))
        ties += [(part, PART_LOOSE) for part in parts if len(parts) > 1]
    found: list[tuple[Identity, float]] = []
    for ties in sorted(by_level.values(), key=len):
        if (len(found) + len(ties)) * len(measured.counts) <= MOST:
            found += ties
    return [pair for pair, _ in found], [loose for _, loose in found]


def _blind_ties(measured: Measured, blind: LevelBlock) -> Iterator[Identity]:
    """Yield, for each group and tied cells, the truncated and the blind positions."""
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
    for pairs in found.values():  # Cells that are tied one by one may imply a total, which then adds nothing.
        yield from pairs
