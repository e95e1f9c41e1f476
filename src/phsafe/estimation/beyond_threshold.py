"""What truncation drops: a model of the people beyond the thresholds, and estimates that include them.

For every universe, the number of dropped people of a group is its public share, with uncertain effects of the nation,
region, iteration and group; cells divide it in uncertain proportions. All of this is linear in independent normal
effects, so measurements of dropped persons and oversized households update it by least squares, exactly as identities
update noisy counts. Where only oversized households are measured, their number is multiplied by the mean excess; its
dispersion is one of the effects, so that the release itself corrects it wherever it measures dropped persons too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg, sparse

from phsafe.estimation.densities import Array
from phsafe.estimation.effects import Effects, Leaves, leaf_levels, total, widened
from phsafe.estimation.fit import Fit, NormalDraws, Projection, projection_of
from phsafe.estimation.identities import universe, untruncated_cells
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.estimation.public_shares import PublicShares, public_shares
from phsafe.estimation.universe_model import Rows, UniverseModel
from phsafe.model.spec import Tabulation

#: Limits of the factor for the deviations of the excess and of the division over cells. It is divided or multiplied by
#: four while that raises the logarithm of the likelihood by at least this much.
SMALLEST, LARGEST, EVIDENCE = 0.25, 4.0, 2.0


@dataclass(frozen=True)
class Everybody:
    """Estimates of every cell with the people beyond the thresholds: the fit plus an independent normal model.

    Attributes:
        fit: The least-squares fit of the truncated counts.
        beyond: The expected number of dropped people of every cell, given all measurements.
        loadings: How much each effect changes each cell, cells × effects.
        projection: The posterior of the effects.
        measured: The tabulations that measured what truncation drops.
        unknown: The tabulations without public shares, whose estimates remain truncated.
        shift: The posterior mean of every effect.
        blind: The measurements with blind cells, with the dropped people of all their cells: expected and loadings.
    """

    fit: Fit
    beyond: Array = field(repr=False)
    loadings: sparse.csr_array = field(repr=False)
    projection: Projection = field(repr=False)
    measured: tuple[str, ...]
    unknown: tuple[str, ...]
    shift: Array = field(repr=False)
    blind: tuple[tuple[LevelBlock, Array, sparse.csr_array], ...] = field(repr=False)

    @property
    def about(self) -> str:
        """How the people beyond the thresholds were estimated, in one sentence."""
        if not self.measured:
            return (
                "The release measures nothing of what truncation drops: the people beyond the thresholds are estimated "
                "from shares in public data, and the intervals include the uncertainty of these shares."
            )
        return (
            "The people beyond the thresholds are estimated from the release's own measurements of dropped persons and "
            "oversized households, and from shares in public data where those say little."
        )

    @property
    def estimates(self) -> Array:
        """The estimate of every cell, everybody counted."""
        return np.asarray(self.fit.estimates + self.beyond)

    def variance(self, sums: sparse.csr_array) -> Array:
        """Return the variance of linear combinations of the estimates, one per row."""
        return self.fit.variance(sums) + self.projection.variance((sums @ self.loadings).tocsr())

    def covariance(self, sums: sparse.csr_array) -> Array:
        """Return the covariance matrix of a few linear combinations of the estimates, one per row."""
        return self.fit.covariance(sums) + self.projection.covariance((sums @ self.loadings).tocsr())

    def draws(self, standard: NormalDraws) -> Array:
        """Return draws of the true counts given the estimates, positions × draws."""
        variances = self.projection.variances
        errors = self.projection.apply(standard(len(variances)) * np.sqrt(variances)[:, None])
        return np.asarray(self.fit.draws(standard) + self.beyond[:, None] + self.loadings @ errors)


def everybody(measured: Measured, fit: Fit, shares: PublicShares | None = None) -> Everybody:
    """Estimate everybody: truncated counts, dropped persons and oversized households together.

    Args:
        measured: The measurements of the release.
        fit: Their least-squares fit.
        shares: What truncation drops in public data; by default the shares that ship with the program.
    """
    shares = public_shares() if shares is None else shares
    effects, observations, used, unknown, blind = Effects(), [], [], [], []
    beyond = np.zeros(len(measured.counts))
    parts = [sparse.csr_array((len(beyond), 0))]
    for tabulations in _universes(measured):
        if not any(shares.knows(t.name) for t in tabulations):
            unknown += [t.name for t in tabulations]
            continue
        scale = _learned_scale(measured, fit, tabulations, shares)
        for leaves in leaf_levels(measured, fit, tabulations, shares):
            model = UniverseModel(measured, fit, shares, leaves, effects, scale)
            for block in leaves.blocks:
                mean, load = model.cells(block)
                # Cells that are counted without truncation already include everybody.
                whole = set(untruncated_cells(measured.config, block))
                if whole:
                    blind.append((block, mean, load))
                cut = np.tile([float(cell not in whole) for cell in block.tabulation.cells], len(block.groups))
                beyond[block.positions().ravel()] = cut * mean
                parts.append(_placed(block, (sparse.diags_array(cut) @ load).tocsr(), len(beyond)))
            for block in _beyond_blocks(measured, leaves):
                observations += list(model.measurements(block))
                used.append(block.tabulation.name)
    projection, shift = _posterior(effects, observations)
    loadings = widened(total(*parts), len(shift))
    beyond += loadings @ shift
    names = tuple(dict.fromkeys(used)), tuple(unknown)
    return Everybody(fit, beyond, loadings, projection, *names, shift, tuple(blind))


def _learned_scale(measured: Measured, fit: Fit, tabulations: Sequence[Tabulation], shares: PublicShares) -> float:
    """How much more or less the excess and the division over cells vary in this release than expected.

    The likelihood of the measurements at the levels of everyone decides. A scale other than 1 needs clear evidence.
    """
    leaves = next(leaf_levels(measured, fit, tabulations, shares))
    blocks = [b for b in _beyond_blocks(measured, leaves) if b.level.iteration_level.is_total]
    if not blocks:
        return 1.0

    def likelihood(scale: float) -> float:
        model = UniverseModel(measured, fit, shares, leaves, Effects(), scale)
        return _log_likelihood(model.effects, [rows for block in blocks for rows in model.measurements(block)])

    best, found = likelihood(1.0), 1.0
    for factor in (0.25, 4.0):
        while SMALLEST <= found * factor <= LARGEST and (next_one := likelihood(found * factor)) > best + EVIDENCE:
            best, found = next_one, found * factor
        if found != 1:
            break
    return found


def _log_likelihood(effects: Effects, observations: Sequence[Rows]) -> float:
    means, loads, observed, noise = (list(part) for part in zip(*observations, strict=True))
    prior = effects.variances
    a = sparse.vstack([widened(load, len(prior)) for load in loads], format="csr")
    factor = np.linalg.cholesky((a.multiply(prior) @ a.T).toarray() + np.diag(np.concatenate(noise)))
    gaps = linalg.solve_triangular(factor, np.concatenate(observed) - np.concatenate(means), lower=True)
    return float(-0.5 * gaps @ gaps - np.log(np.diagonal(factor)).sum())


def _placed(block: LevelBlock, load: sparse.csr_array, count: int) -> sparse.csr_array:
    """Loadings of the cells of a block as rows of all positions."""
    positions = block.positions().ravel()
    place = (np.ones(len(positions)), (positions, np.arange(len(positions))))
    return sparse.csr_array(place, shape=(count, len(positions))) @ load


def _posterior(effects: Effects, observations: Sequence[Rows]) -> tuple[Projection, Array]:
    """Condition the effects z ~ N(0, V) on measurements y = A z + noise: least squares with the identities A z = d."""
    prior = effects.variances
    if not observations:
        return projection_of(sparse.csr_array((0, len(prior))), prior), np.zeros(len(prior))
    means, loads, observed, noise = (list(part) for part in zip(*observations, strict=True))
    a = sparse.vstack([widened(load, len(prior)) for load in loads], format="csr")
    b = sparse.hstack([a, -sparse.eye_array(a.shape[0])], format="csr")
    projection = projection_of(b, np.concatenate([prior, *noise]))
    return projection, projection.apply(
        np.concatenate([np.zeros(len(prior)), np.concatenate(observed) - np.concatenate(means)])
    )


def _universes(measured: Measured) -> Iterator[list[Tabulation]]:
    """Yield the truncated tabulations that share a universe and are iterated by the same people."""
    found: dict[object, list[Tabulation]] = {}
    for block in measured.blocks.values():
        if block.tabulation.is_truncated:
            found.setdefault(universe(measured.config, block.tabulation), []).append(block.tabulation)
    for members in found.values():
        distinct = list(dict.fromkeys(members))
        iterated: list[str | None] = list(dict.fromkeys(t.iterate_by for t in distinct if t.iterate_by is not None))
        iterated = iterated or [None]
        for by in iterated:
            yield [t for t in distinct if t.iterate_by == by or (t.iterate_by is None and by == iterated[0])]


def _beyond_blocks(measured: Measured, leaves: Leaves) -> list[LevelBlock]:
    """The measurements of what the thresholds of a universe drop."""
    return [
        block
        for block in measured.blocks.values()
        if block.tabulation.beyond in leaves.tabulations and leaves.includes(block.level.iteration_level)
    ]
