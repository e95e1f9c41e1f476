"""Margins of error of finished tables, from a config alone, and how they depend on each budget.

Joint estimation makes measurements agree wherever they must, which removes some of their noise. Its estimate of a
count is a weighted sum of noisy counts whose weights depend only on the noise variances. Its variance is therefore
known before any release: Σ a/ρ over tabulations and levels, where a depends on the weights.

All groups of a level have the same variances and identities, so one of them represents its level. If every state has
the same levels, two small fits replace the large one: the estimate of a count in one of n states is the n-th part of
that of the sum over all states, plus a difference between states, to which levels of the nation contribute nothing.
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

from phsafe.configs.config import Config, Measurement
from phsafe.estimation.densities import NORMAL, Array
from phsafe.estimation.fit import DENSE
from phsafe.estimation.identities import identities, independent
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.explorer.page_requests import Key
from phsafe.explorer.solver_groups import CellCombination, Group, combination
from phsafe.privacy_math.margins import gaussian_moe, geometric_variance
from phsafe.privacy_math.sensitivity import Definition


@dataclass(frozen=True)
class _PartialFit:
    """A fit of some measurements: its sets of identities, and for every cell its level, noise factor and regions."""

    measured: Measured
    components: tuple[tuple[NDArray[np.intp], Array | sparse.csr_array], ...]
    level_of: NDArray[np.intp]
    factors: Array
    regions: Array
    #: Whether each level has only one region, the nation.
    is_nation: NDArray[np.bool_]
    #: The share of this fit's variance that counts, for groups of the nation and for groups of a state.
    shares: tuple[float, float]


@dataclass(frozen=True)
class FinishedModel:
    """What the margins of finished tables depend on. Create one with `finished_model`.

    Attributes:
        keys: The tabulations and levels that are measured.
    """

    keys: tuple[Key, ...]
    definition: Definition
    parts: tuple[_PartialFit, ...]

    def coefficients(self, budgets: Array, terms: Sequence[CellCombination]) -> Array:
        """Return a of each combination (row) and level (column): its finished variance is Σ a/ρ.

        The weights of the estimates are the best ones for `budgets`. Under zCDP, Σ a/ρ with other budgets is the
        variance of the estimate with these weights, which is never below that of the best estimate.
        """
        found = np.zeros((len(terms), len(self.keys)))
        for part in self.parts:
            chosen = [(i, self._share(part, term)) for i, term in enumerate(terms)]
            chosen = [(i, share) for i, share in chosen if share > 0]
            if not chosen:
                continue
            scales = part.factors / budgets[part.level_of]
            noise = scales if self.definition == "zcdp" else np.array([geometric_variance(b) for b in scales])
            sums = _matrix(part.measured, [terms[i] for i, _ in chosen])
            squares = _weights(part, part.regions * noise, sums) ** 2 * (part.regions * noise)
            for (i, share), row in zip(chosen, squares, strict=True):
                found[i] += share * np.bincount(part.level_of, row, len(self.keys)) * budgets
        return found

    def variances(self, budgets: Array, terms: Sequence[CellCombination]) -> Array:
        """Return the finished variance of each combination."""
        return np.asarray(self.coefficients(budgets, terms) @ (1 / budgets))

    def budgets(self, config: Config) -> Array:
        """Return the budgets of a config, in the order of `keys`."""
        return np.array([float(config.budgets[name][level]) for name, level in self.keys])

    def _share(self, part: _PartialFit, term: CellCombination) -> float:
        index = self.keys.index((next(iter(term.cells))[0], term.level))
        return part.shares[0 if part.is_nation[index] else 1]


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
    measurements = config.measurements()
    keys = tuple((m.tabulation.name, m.level.key) for m in measurements)
    states = len(config.states)
    first = replace(config, states=config.states[:1])
    if states == 1 or not all(_is_alike(m, config) for m in measurements):
        return FinishedModel(keys, config.privacy, (_partial(config, measurements, keys),))
    national = [not m.level.geography.columns for m in measurements]
    together = _partial(first, measurements, keys)
    regions = np.where(np.array(national)[together.level_of], 1.0, float(states))
    apart = _partial(first, [m for m, nation in zip(measurements, national, strict=True) if not nation], keys)
    return FinishedModel(
        keys,
        config.privacy,
        (
            replace(together, regions=regions, shares=(1.0, states**-2)),
            replace(apart, shares=(0.0, 1 - 1 / states)),
        ),
    )


def _is_alike(measurement: Measurement, config: Config) -> bool:
    """Whether a level is of the nation, or has the same number of regions in every state."""
    geography = measurement.level.geography
    return not geography.columns or len({len(geography.within([state])) for state in config.states}) == 1


def _partial(config: Config, measurements: Sequence[Measurement], keys: tuple[Key, ...]) -> _PartialFit:
    blocks: dict[Key, LevelBlock] = {}
    factors, level_of, start = [], [], 0
    for m in measurements:
        key = (m.tabulation.name, m.level.key)
        groups = tuple((region, iteration.code) for region, iteration in m.level.groups(config.states))
        blocks[key] = LevelBlock(m.tabulation, m.level, groups, start)
        of_cell = {
            cell: float(block.noise_factor(config.privacy))
            for block in config.blocks(m.tabulation, m.level)
            for cell in block.cells
        }
        factors.append(np.tile([of_cell[cell] for cell in m.tabulation.cells], len(groups)))
        level_of.append(np.full(len(factors[-1]), keys.index(key)))
        start += len(factors[-1])
    measured = Measured(config, blocks, np.zeros(start), np.ones(start), NORMAL)
    rows = independent(identities(measured), np.ones(start, bool))
    national = np.array([not level_geography(config, key) for key in keys], bool)
    return _PartialFit(
        measured,
        _components(rows),
        np.concatenate(level_of),
        np.concatenate(factors),
        np.ones(start),
        national,
        (1.0, 1.0),
    )


def level_geography(config: Config, key: Key) -> tuple[str, ...]:
    """Return the geo columns of a level: none for the nation."""
    return next(level for level in config.catalog.levels if level.key == key[1]).geography.columns


def _matrix(measured: Measured, terms: Sequence[CellCombination]) -> Array:
    """Return combinations in the first group of their level as rows over all cells."""
    found = np.zeros((len(terms), len(measured.counts)))
    for i, term in enumerate(terms):
        for (name, cell), value in term.cells.items():
            found[i, measured.blocks[name, term.level].positions([cell])[0, 0]] = value
    return found


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


def _weights(part: _PartialFit, variances: Array, sums: Array) -> Array:
    """Return the weight of every noisy count in the estimates of some sums, one row per sum: c − Bᵀ M⁻¹ B V c."""
    weights = sums.copy()
    for cells, b in part.components:
        rows = np.flatnonzero(sums[:, cells].any(axis=1))
        if len(rows):
            inverse = _solved(b, variances[cells], sums[np.ix_(rows, cells)].T)
            weights[np.ix_(rows, cells)] -= (b.T @ inverse).T
    return weights


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
