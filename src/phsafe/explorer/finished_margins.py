"""Margins of error of finished tables, from a config alone, and how they depend on each budget.

Joint estimation makes measurements agree wherever they must, which removes some of their noise. Its estimate of a
count is a weighted sum of noisy counts whose weights depend only on the noise variances. Its variance is therefore
known before any release: Σ a/ρ over tabulations and levels, where a depends on the weights.

All groups of a level have the same variances and identities, so one of them represents its level. Where regions are
states, two represent all: the first, and the second with the summed variance of all others, which matter to the first
only through their sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as splinalg

from phsafe.configs.config import Config
from phsafe.estimation.densities import NORMAL, Array
from phsafe.estimation.fit import DENSE
from phsafe.estimation.identities import identities, independent
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.explorer.page_requests import Key
from phsafe.explorer.solver_groups import CellCombination, Group, combination
from phsafe.model.levels import STATE
from phsafe.privacy_math.margins import gaussian_moe, geometric_variance
from phsafe.privacy_math.sensitivity import Definition


@dataclass(frozen=True)
class FinishedModel:
    """What the margins of finished tables depend on. Create one with `finished_model`.

    Attributes:
        keys: The tabulations and levels that are measured.
        definition: The privacy definition.
        blocks: Where the cells of each of them are.
        components: The sets of identities that share no cell with others: their cells, and identities × cells.
        level_of: The index in `keys` of every cell.
        factors: The noise factor of every cell.
        regions: How many regions every cell represents.
    """

    keys: tuple[Key, ...]
    definition: Definition
    blocks: Mapping[Key, LevelBlock]
    components: tuple[tuple[NDArray[np.intp], Array | sparse.csr_array], ...]
    level_of: NDArray[np.intp]
    factors: Array
    regions: Array

    def coefficients(self, budgets: Array, terms: Sequence[CellCombination]) -> Array:
        """Return the coefficient a of each combination (row) and level (column): the finished variance is Σ a/ρ.

        The weights of the estimates are the best ones for `budgets`. Under zCDP, Σ a/ρ with other budgets is the
        variance of the estimate with these weights, which is never below that of the best estimate.
        """
        scales = self.factors / budgets[self.level_of]
        noise = scales if self.definition == "zcdp" else np.array([geometric_variance(b) for b in scales])
        variances = self.regions * noise
        squares = self._weights(variances, self._matrix(terms)) ** 2 * variances
        sums = [np.bincount(self.level_of, row, len(self.keys)) for row in squares]
        return np.asarray(sums).reshape(len(terms), len(self.keys)) * budgets

    def variances(self, budgets: Array, terms: Sequence[CellCombination]) -> Array:
        """Return the finished variance of each combination."""
        return np.asarray(self.coefficients(budgets, terms) @ (1 / budgets))

    def budgets(self, config: Config) -> Array:
        """Return the budgets of a config, in the order of `keys`."""
        return np.array([float(config.budgets[name][level]) for name, level in self.keys])

    def _matrix(self, terms: Sequence[CellCombination]) -> Array:
        """Return combinations in the first group of their level as rows over all cells."""
        found = np.zeros((len(terms), len(self.level_of)))
        for i, term in enumerate(terms):
            for (name, cell), value in term.cells.items():
                found[i, self.blocks[name, term.level].positions([cell])[0, 0]] = value
        return found

    def _weights(self, variances: Array, sums: Array) -> Array:
        """Return the weight of every noisy count in the estimates of some sums, one row per sum: c − Bᵀ M⁻¹ B V c."""
        weights = sums.copy()
        for cells, b in self.components:
            rows = np.flatnonzero(sums[:, cells].any(axis=1))
            if len(rows):
                inverse = _solved(b, variances[cells], sums[np.ix_(rows, cells)].T)
                weights[np.ix_(rows, cells)] -= (b.T @ inverse).T
        return weights


def finished_model(config: Config) -> FinishedModel:
    """Return the model of a config's finished margins. Budgets only matter in whether they are 0."""
    budgets = {name: {key: Decimal(b > 0) for key, b in levels.items()} for name, levels in config.budgets.items()}
    return _model(replace(config, budgets=budgets, control_totals={}, population=None))


def finished_margins(config: Config, groups: Sequence[Group]) -> list[float | None]:
    """Return the finished 90 % margin of each group; None if the config doesn't publish it.

    Under pure DP, they are approximations: 1.645 standard deviations of noise that isn't Gaussian.

    Args:
        config: The config.
        groups: The groups.
    """
    model = finished_model(config)
    terms = [combination(config, group) for group in groups]
    shown = [term for term in terms if term is not None]
    found = iter(model.variances(model.budgets(config), shown)) if shown else iter(())
    return [None if term is None else gaussian_moe(float(next(found))) for term in terms]


@lru_cache(maxsize=32)
def _model(config: Config) -> FinishedModel:
    small = replace(config, states=config.states[:2]) if _by_state(config) else config
    others = len(config.states) - 1 if small is not config else 1
    keys, blocks, start = [], {}, 0
    level_of, factors, regions = [], [], []
    for i, m in enumerate(config.measurements()):
        groups = tuple((region, iteration.code) for region, iteration in m.level.groups(small.states))
        keys.append((m.tabulation.name, m.level.key))
        blocks[keys[-1]] = LevelBlock(m.tabulation, m.level, groups, start)
        of_cell = {
            cell: float(block.noise_factor(config.privacy))
            for block in config.blocks(m.tabulation, m.level)
            for cell in block.cells
        }
        factors.append(np.tile([of_cell[cell] for cell in m.tabulation.cells], len(groups)))
        alike = [others if region in small.states[1:] else 1 for region, _ in groups]
        regions.append(np.repeat(np.array(alike, float), len(m.tabulation.cells)))
        level_of.append(np.full(len(factors[-1]), i))
        start += len(factors[-1])
    measured = Measured(small, blocks, np.zeros(start), np.ones(start), NORMAL)
    rows = independent(identities(measured), np.ones(start, bool))
    arrays = (np.concatenate(level_of), np.concatenate(factors), np.concatenate(regions))
    return FinishedModel(tuple(keys), config.privacy, blocks, _components(rows), *arrays)


def _by_state(config: Config) -> bool:
    """Whether every level covers the nation or each state."""
    geographies = [m.level.geography for m in config.measurements()]
    return all(not g.columns or (g.columns == STATE.columns and g.covers) for g in geographies)


def _components(b: sparse.csr_array) -> tuple[tuple[NDArray[np.intp], Array | sparse.csr_array], ...]:
    """Return the sets of identities that share no cell with others: their cells, and identities × cells."""
    count, labels = csgraph.connected_components(b @ b.T, directed=False)
    found = []
    for label in range(count):
        rows = b[np.flatnonzero(labels == label)]
        cells = np.unique(rows.indices)
        part = rows[:, cells]
        found.append((cells, part if part.shape[0] > DENSE else part.toarray()))
    return tuple(found)


def _solved(b: Array | sparse.csr_array, variances: Array, sums: Array) -> Array:
    """Return M⁻¹ B V c with M = B V Bᵀ."""
    if isinstance(b, np.ndarray):
        weighted = b * variances
        return np.asarray(linalg.solve(weighted @ b.T, weighted @ sums, assume_a="pos"))
    large = b.multiply(variances).tocsr()
    return np.asarray(splinalg.splu((large @ b.T).tocsc()).solve(large @ sums))


def basis_terms(config: Config) -> Mapping[Key, CellCombination]:
    """Return a basis cell of every level that is measured, of its noisiest block."""
    found = {}
    for m in config.measurements():
        noisiest = max(config.blocks(m.tabulation, m.level), key=lambda block: block.noise_factor(config.privacy))
        found[m.tabulation.name, m.level.key] = CellCombination(
            m.level.key, {(m.tabulation.name, noisiest.cells[0]): 1.0}
        )
    return found
